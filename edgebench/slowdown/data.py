"""What is fitted: slowdown per network, workload settings and phase, over limits.

A trial's seconds of a phase are the median over its rounds, per pass. A slowdown divides them by
the median of the unlimited trials with the same settings (the same swap too, if there is one).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from edgebench.errors import ResultsError
from edgebench.results.frames import TRAINING

if TYPE_CHECKING:
    from edgebench.results.results import Results

FloatArray = npt.NDArray[np.float64]

#: The phases that are fitted, in the order they are shown; ``total`` is a round's time on the
#: clock, or the whole trial's where a workload has no rounds.
PHASES = ("load", "first", "execute", "data", "forward", "backward", "step", "total")
#: Those of inference, which models of layers and of the device tell of.
INFERENCE = ("load", "first", "execute", "total")
#: Settings that make two trials comparable when all but the memory limit is equal.
_WORKLOAD = (
    *("sweep", "device", "kind", "pipeline", "schedule", "loader", "batch", "image", "rounds"),
    *("warm", "threads", "workers", "page_cache", "command", "cores", "cpu_quota"),
    *TRAINING,
)
_SWAP = ("swap_kind", "swap_bytes")
#: The same as columns of the trials frame, where ``network`` is the whole pipeline.
_OF_TRIAL = (*(name for name in _WORKLOAD if name != "pipeline"), "network", *_SWAP)
_LOST = ("oom-killed", "timeout", "failed")
ONLY_UNLIMITED_REMEDY = 'add limits to the scenario, as memory = ["max", "75%", "50%"], and run it'
ALL_KILLED_REMEDY = "run it with swap or at larger limits: see [limits] in the scenario"
NO_UNLIMITED_REMEDY = "let the sweep finish: type the same edgebench run again"


@dataclass(frozen=True)
class Curve:
    """One phase of one network under one workload's settings, over limits.

    ``limit_bytes`` and ``seconds`` have one entry a trial that ended ``ok`` below a limit, in
    order of limits. ``lost_bytes`` tells for each outcome at which limits a trial ended so.
    ``settings`` is all that sets this curve apart from others, ``demand_bytes`` the measured
    demand of the unlimited trials.
    """

    network: str
    phase: str
    settings: dict[str, Any]
    limit_bytes: FloatArray
    seconds: FloatArray
    unlimited_seconds: FloatArray
    demand_bytes: float | None = None
    lost_bytes: dict[str, tuple[float, ...]] = field(default_factory=dict)

    @property
    def unlimited_s(self) -> float:
        """The median unlimited time: what slowdown is relative to."""
        return float(np.median(self.unlimited_seconds))

    @property
    def slowdown(self) -> FloatArray:
        """One a trial."""
        return self.seconds / self.unlimited_s

    @property
    def limits(self) -> FloatArray:
        """The limits with a finished trial, ascending."""
        return np.unique(self.limit_bytes)

    @property
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
    def label(self) -> str:
        """``alexnet · linear · copy · load``."""
        apart = ("schedule", "loader", "optimizer")
        words = [self.network, *(str(self.settings.get(key) or "") for key in apart)]
        return " · ".join([*(word for word in words if word), self.phase])

    @property
    def mark(self) -> str:
        """Tells the curve from all others, whatever its times."""
        told = [self.network, self.phase, self.settings]
        return hashlib.sha256(json.dumps(told, sort_keys=True, default=str).encode()).hexdigest()[
            :12
        ]

    def without(self, limit: float) -> Curve:
        """The same curve with one limit's trials left out."""
        kept = self.limit_bytes != limit
        return Curve(
            self.network,
            self.phase,
            self.settings,
            self.limit_bytes[kept],
            self.seconds[kept],
            self.unlimited_seconds,
            self.demand_bytes,
            self.lost_bytes,
        )


def curves(results: Results) -> list[Curve]:
    """Every curve that has an unlimited time and at least one limit with a finished trial.

    Raises:
        ResultsError: there is none, with the reason.
    """
    times = trial_times(results)
    made = list(_curves(times, results.trials))
    if not made:
        _say_why_none(results)
    return made


def trial_times(results: Results) -> pd.DataFrame:
    """One row per trial, network and phase of :data:`PHASES`: seconds of one pass."""
    phases = results.phases
    phases = phases[(phases["outcome"] == "ok") & phases["phase"].isin([*PHASES, "round"])].copy()
    phases["phase"] = phases["phase"].replace("round", "total")
    phases["seconds"] = phases["wall_s"] / phases["passes"]
    trials = _wholes(results, phases[phases["phase"] == "total"])
    keys = ["sweep", "trial", "network", "phase"]
    rows = pd.concat([phases, trials], ignore_index=True) if len(trials) else phases
    seconds = rows.groupby(keys, dropna=False)["seconds"].median()
    first = rows.drop_duplicates(keys).drop(columns="seconds")
    joined = first.merge(seconds.reset_index(), on=keys)
    joined["memory_bytes"] = joined["limit_bytes"].fillna(joined["memory_bytes"])
    return joined


def _wholes(results: Results, rounds: pd.DataFrame) -> pd.DataFrame:
    """Trials without rounds: the whole trial is their ``total``."""
    trials = results.trials
    with_rounds = set(zip(rounds["sweep"], rounds["trial"], strict=True))
    names = zip(trials["sweep"], trials["trial"], strict=True)
    without = np.array([name not in with_rounds for name in names], dtype=bool)
    whole = trials[(trials["outcome"] == "ok") & without]
    named = whole["network"].where(whole["network"].notna(), whole["command"])
    return whole.assign(network=named, pipeline=named, phase="total", seconds=whole["wall_s"])


def _curves(times: pd.DataFrame, trials: pd.DataFrame) -> Iterator[Curve]:
    limited = times[times["memory_bytes"].notna()]
    keys = [*_WORKLOAD, *_SWAP, "network", "phase"]
    for values, rows in limited.groupby(keys, dropna=False, sort=False):
        known = {k: v for k, v in zip(keys, _tuple(values), strict=True) if not pd.isna(v)}
        unlimited = _unlimited_twins(times, known)
        if unlimited.empty:
            continue
        rows = rows.sort_values(["memory_bytes", "trial"])
        demand = unlimited["workload_demand_bytes"].median()
        yield Curve(
            network=known.pop("network"),
            phase=known.pop("phase"),
            settings=known,
            limit_bytes=rows["memory_bytes"].to_numpy(dtype=np.float64),
            seconds=rows["seconds"].to_numpy(dtype=np.float64),
            unlimited_seconds=unlimited["seconds"].to_numpy(dtype=np.float64),
            demand_bytes=None if pd.isna(demand) else float(demand),
            lost_bytes=lost_limits(matching(trials, _as_trial(known), _OF_TRIAL)),
        )


def _unlimited_twins(times: pd.DataFrame, known: dict[str, Any]) -> pd.DataFrame:
    """The unlimited times that a limited one is held against: same swap if there are any."""
    unlimited = times[times["memory_bytes"].isna()]
    same_swap = matching(unlimited, known, (*_WORKLOAD, *_SWAP, "network", "phase"))
    if len(same_swap):
        return same_swap
    return matching(unlimited, known, (*_WORKLOAD, "network", "phase"))


def _tuple(values: Any) -> tuple[Any, ...]:
    """A group's keys, which pandas' types call a mere hashable."""
    return tuple(values)


def _as_trial(known: dict[str, Any]) -> dict[str, Any]:
    """Settings as the trials frame has them, where ``network`` is the whole pipeline."""
    renamed = {k: v for k, v in known.items() if k != "pipeline"}
    return renamed if "command" in known else {**renamed, "network": known.get("pipeline")}


def matching(frame: pd.DataFrame, known: dict[str, Any], columns: tuple[str, ...]) -> pd.DataFrame:
    """The rows whose columns have these values; a column that isn't known must be missing."""
    kept = pd.Series(True, index=frame.index)
    for name in columns:
        kept &= frame[name] == known[name] if name in known else frame[name].isna()
    return frame[kept]


def lost_limits(trials: pd.DataFrame) -> dict[str, tuple[float, ...]]:
    """For each outcome but ``ok``, the limits at which a trial ended so."""
    limits = trials["limit_bytes"].fillna(trials["memory_bytes"])
    lost = {
        outcome: tuple(float(m) for m in np.unique(limits[trials["outcome"] == outcome].dropna()))
        for outcome in _LOST
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
