"""What is fitted: slowdown per network, workload settings and phase, over limits.

A slowdown divides a trial's seconds (:mod:`edgebench.slowdown.trial_seconds`) by the median of the
unlimited trials with the same settings (the same swap too, if there is one).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from edgebench.errors import ResultsError
from edgebench.kills import LOST
from edgebench.results.frames import DISTINCT
from edgebench.results.once import once_for_results
from edgebench.results.stages import START, STEADY
from edgebench.results.working_sets import median_working_set
from edgebench.results.workload_key import workloads_of
from edgebench.slowdown.allocator_variables import with_variables
from edgebench.slowdown.trial_seconds import seconds_by_trial
from edgebench.slowdown.unlimited_twins import UnlimitedTwins
from edgebench.storage_speed import AS_IS
from edgebench.throughput import THROUGHPUT, throughput_unit, throughput_words
from edgebench.units import format_duration
from edgebench.workloads.engines.registry import TORCH
from edgebench.workloads.training.names import PYTORCH

if TYPE_CHECKING:
    from edgebench.results.results import Results

FloatArray = npt.NDArray[np.float64]

#: What a curve's settings are, as columns; ``pipeline`` is all networks of a trial.
_SETTINGS = ["sweep", "device", "pipeline", *(name for name in DISTINCT if name != "network")]
#: Kinds of workload with rounds; a training's are its steps.
WITH_ROUNDS = ("inference", "training")
#: Rows of equal values here differ in their memory limit alone.
_KEYS = ["sweep", "device", "workload", "network", "phase"]
ONLY_UNLIMITED_REMEDY = 'add limits to the scenario, as memory = ["max", "75%", "50%"], and run it'
ALL_KILLED_REMEDY = "run it with swap or at larger limits: see [limits] in the scenario"
NO_UNLIMITED_REMEDY = "let the sweep finish: type the same edgebench run again"


@dataclass(frozen=True)
class Curve:
    """One phase of one network under one workload's settings, over limits.

    ``limit_bytes`` and ``seconds`` have one entry a trial that ended ``ok`` below a limit, in
    order of limits. ``lost_bytes`` has for each other outcome the limits of its trials.
    ``settings`` is all that sets this curve apart from others, ``demand_bytes`` the measured
    demand of the unlimited trials. ``walked``: its limits are those of a living process, whose idle
    runtime has long been written out. ``working_set_bytes``: what its steady rounds need, where a
    walk watched that. ``workload`` is the id of its trials'
    :class:`~edgebench.results.workload_key.WorkloadKey`; empty where there are no trials.
    """

    network: str
    phase: str
    settings: dict[str, Any]
    limit_bytes: FloatArray
    seconds: FloatArray
    unlimited_seconds: FloatArray
    demand_bytes: float | None = None
    lost_bytes: dict[str, tuple[float, ...]] = field(default_factory=dict)
    walked: bool = False
    working_set_bytes: float | None = None
    workload: str = ""

    @cached_property
    def unlimited_s(self) -> float:
        """The median unlimited time: what slowdown is relative to."""
        return float(np.median(self.unlimited_seconds))

    @property
    def slowdown(self) -> FloatArray:
        """One a trial."""
        return self.seconds / self.unlimited_s

    @cached_property
    def limits(self) -> FloatArray:
        """The limits with a finished trial, ascending."""
        return np.unique(self.limit_bytes)

    @cached_property
    def medians(self) -> FloatArray:
        """The median slowdown at each of :attr:`limits`."""
        at = [self.slowdown[self.limit_bytes == limit] for limit in self.limits]
        return np.array([np.median(repeats) for repeats in at])

    @property
    def noise(self) -> float | None:
        """Median distance of repeats from their limit's median, as a share; None without repeats.

        The unlimited trials count as a limit.
        """
        groups = [self.seconds[self.limit_bytes == limit] for limit in self.limits]
        groups = [group for group in (*groups, self.unlimited_seconds) if len(group) > 1]
        if not groups:
            return None
        return float(np.median(np.concatenate([abs(g / np.median(g) - 1) for g in groups])))

    @property
    def engine(self) -> str:
        """What executed the network."""
        return str(self.settings.get("engine", TORCH))

    @property
    def workload_network(self) -> str:
        """The network of the curve's trials; for one of a pipeline, the whole pipeline."""
        return str(self.settings.get("pipeline") or self.network)

    @property
    def trials_key(self) -> str:
        """The network and the settings, without the phase: equal for curves of the same trials."""
        return json.dumps([self.workload_network, self.settings], sort_keys=True, default=str)

    @property
    def unlimited_words(self) -> str:
        """``0.52 s``; of a throughput ``41.2 tokens/s``."""
        if self.phase == THROUGHPUT:
            return throughput_words(1 / self.unlimited_s, throughput_unit(self.settings))
        return format_duration(self.unlimited_s)

    @property
    def answer(self) -> str:
        """The phase as it is shown: ``total`` is ``steady``, or ``start`` where that is all."""
        return shown_phase(self.phase, self.settings)

    @property
    def label(self) -> str:
        """``alexnet · linear · copy · load``."""
        apart = ("schedule", "loader", "optimizer")
        words = [self.network, *(str(self.settings.get(key) or "") for key in apart)]
        if self.settings.get("framework", PYTORCH) != PYTORCH:
            words.append(str(self.settings["framework"]))
        words += ["compiled"] if self.settings.get("compiled") else []
        return " · ".join([*(word for word in words if word), self.answer])

    @property
    def key(self) -> str:
        """Tells the curve from all others, whatever its times."""
        about = json.dumps([self.network, self.phase, self.settings], sort_keys=True, default=str)
        return hashlib.sha256(about.encode()).hexdigest()[:12]

    def without(self, limit: float) -> Curve:
        """The same curve with one limit's trials left out."""
        kept = self.limit_bytes != limit
        return replace(self, limit_bytes=self.limit_bytes[kept], seconds=self.seconds[kept])

    def unseen(self, *, with_unlimited: bool = True) -> Curve:
        """The curve as if its network had never run below a limit.

        ``with_unlimited`` false also removes the unlimited times and the demand.
        """
        nothing = self.limit_bytes[:0]
        below = replace(self, limit_bytes=nothing, seconds=nothing, lost_bytes={})
        if with_unlimited:
            return below
        return replace(below, unlimited_seconds=nothing, demand_bytes=None)


def by_engine(curves: Iterable[Curve]) -> dict[str, list[Curve]]:
    """Engine → its curves: times in one engine say nothing about another."""
    found: dict[str, list[Curve]] = {}
    for curve in curves:
        found.setdefault(curve.engine, []).append(curve)
    return found


def shown_phase(phase: str, settings: Mapping[str, Any]) -> str:
    """A phase of a workload with these settings, as it is shown."""
    if phase != "total" or settings.get("kind") not in WITH_ROUNDS:
        return phase
    return START if settings.get("rounds") == 1 else STEADY


@once_for_results
def curves(results: Results) -> list[Curve]:
    """Every curve that has an unlimited time and at least one limit with a finished trial.

    Raises:
        ResultsError: there is none, with the reason.
    """
    times = seconds_by_trial(results)
    made = with_variables(_curves(times, results), results)
    if not made:
        _say_why_none(results)
    return made


@once_for_results
def unlimited_curves(results: Results) -> list[Curve]:
    """Every curve of a workload with rounds that finished without a limit and below none."""
    times = seconds_by_trial(results)
    with_rounds = times[times["kind"].isin(WITH_ROUNDS)]
    twins = UnlimitedTwins(with_rounds, _KEYS, _any_swap(results))
    found = (_curve(rows[:0], rows, rows) for rows in twins.alone())
    return with_variables(found, results)


def _any_swap(results: Results) -> dict[str, str]:
    keys = (key for sweep in results.sweeps for key in workloads_of(sweep.columns)[1])
    return {key.id: key.any_swap.id for key in keys}


def _curves(times: pd.DataFrame, results: Results) -> Iterator[Curve]:
    limited = times[times["memory_bytes"].notna()]
    twins = UnlimitedTwins(times, _KEYS, _any_swap(results))
    every_trial = dict(list(results.trials.groupby(["sweep", "workload"], sort=False)))
    for _, rows in limited.groupby(_KEYS, dropna=False, sort=False):
        unlimited = twins.of(rows)
        # A convolution is of no network.
        if unlimited.empty or pd.isna(rows["network"].iloc[0]):
            continue
        every = every_trial[rows["sweep"].iloc[0], rows["workload"].iloc[0]]
        ordered = rows.sort_values(["memory_bytes", "trial"])
        made = _curve(ordered, unlimited, rows, lost_limits(every))
        walked, needs = bool((every["walk_step"] > 0).any()), median_working_set(every)
        yield replace(made, walked=walked, working_set_bytes=needs)


def _curve(
    limited: pd.DataFrame,
    unlimited: pd.DataFrame,
    rows: pd.DataFrame,
    lost: dict[str, tuple[float, ...]] | None = None,
) -> Curve:
    """A curve; ``rows`` are those whose settings it has."""
    demand = unlimited["workload_demand_bytes"].median()
    first = rows.iloc[0]
    known = {str(k): v for k, v in first[_SETTINGS].dropna().items()}
    return Curve(
        network=first["network"],
        phase=first["phase"],
        workload=first["workload"],
        # Results from before storage could be held stay what they were.
        settings={k: v for k, v in known.items() if (k, v) != ("storage", AS_IS)},
        limit_bytes=limited["memory_bytes"].to_numpy(dtype=np.float64),
        seconds=limited["seconds"].to_numpy(dtype=np.float64),
        unlimited_seconds=unlimited["seconds"].to_numpy(dtype=np.float64),
        demand_bytes=None if pd.isna(demand) else float(demand),
        lost_bytes=lost or {},
    )


def lost_limits(trials: pd.DataFrame) -> dict[str, tuple[float, ...]]:
    """For each outcome but ``ok``, the limits at which a trial ended so."""
    limits = trials["limit_bytes"].fillna(trials["memory_bytes"])
    lost = {
        outcome: tuple(float(m) for m in np.unique(limits[trials["outcome"] == outcome].dropna()))
        for outcome in LOST
    }
    return {outcome: at for outcome, at in lost.items() if at}


def _say_why_none(results: Results) -> None:
    trials, where = results.trials, str(results.path)
    limited = trials[trials["memory_bytes"].notna()]
    if limited.empty:
        raise ResultsError(
            "only unlimited trials here: there is no slowdown to look at",
            where=where,
            remedy=ONLY_UNLIMITED_REMEDY,
        )
    if not (limited["outcome"] == "ok").any():
        raise ResultsError(
            f"no trial finished below a limit ({len(limited)} didn't): no times to compare",
            where=where,
            remedy=ALL_KILLED_REMEDY,
        )
    raise ResultsError(
        "no unlimited trial finished: slowdown is relative to those",
        where=where,
        remedy=NO_UNLIMITED_REMEDY,
    )
