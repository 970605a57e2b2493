"""What is fitted: slowdown per network, workload settings and phase, over limits.

A slowdown divides a trial's seconds by the median of the unlimited trials with the same settings
(the same swap too, if there is one). A phase's seconds are the median over the steady rounds, per
pass; where only one round was run, they are that round's. A walk's steady rounds are compared with
the unlimited ones of its own process, by :mod:`~edgebench.results.point_facts`: its seconds are
those that a process of typical speed takes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from edgebench.boards.storage import AS_IS
from edgebench.errors import ResultsError
from edgebench.kills import LOST
from edgebench.results.columns import COLUMNS as WORKING_SET
from edgebench.results.frames import DISTINCT, answering_rows
from edgebench.results.once import once_for_results
from edgebench.results.point_facts import facts_of_points
from edgebench.results.rounds import START, STEADY
from edgebench.results.workload_key import SWAP, workloads_of
from edgebench.throughput import THROUGHPUT, throughput_unit, throughput_words
from edgebench.units import format_duration
from edgebench.workloads.training.names import PYTORCH

if TYPE_CHECKING:
    from edgebench.results.results import Results

#: The phases that are fitted, in the order they are shown. ``total`` is a steady round's time on
#: the clock, or the whole trial's where a workload has no rounds; ``start`` is the first round's.
#: Where only one round was run, that is ``total``, and there is no ``start`` beside it. The seconds
#: of ``throughput`` are those of one of its units.
PHASES = (
    *("load", "first", "execute", "prefill", "decode", "data", "forward", "backward", "step"),
    "graph",
    *("start", "total", THROUGHPUT),
)
#: Those that are a whole round.
WHOLES = ("start", "total")
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


@once_for_results
def seconds_by_trial(results: Results) -> pd.DataFrame:
    """One row per trial, network and phase of :data:`PHASES`: seconds of one pass."""
    phases = results.phases
    phases = phases[(phases["outcome"] == "ok") & phases["phase"].isin([*PHASES, "round"])].copy()
    phases["phase"] = phases["phase"].replace("round", "total")
    phases["seconds"] = phases["wall_s"] / phases["passes"]
    trials = _wholes(results, phases[phases["phase"] == "total"])
    keys = ["sweep", "trial", "network", "phase"]
    parts = [part for part in (trials, _throughputs(results)) if len(part)]
    rounds = _with_starts(phases)
    rows = pd.concat([rounds, *parts], ignore_index=True) if parts else rounds
    seconds = rows.groupby(keys, dropna=False)["seconds"].median()
    first = rows.drop_duplicates(keys).drop(columns="seconds")
    joined = first.merge(seconds.reset_index(), on=keys)
    joined["memory_bytes"] = joined["limit_bytes"].fillna(joined["memory_bytes"])
    return joined


def _with_starts(phases: pd.DataFrame) -> pd.DataFrame:
    """The rows that answer; and ``start``, where that is another answer than ``total``."""
    answering = answering_rows(phases)
    others = phases.index.difference(answering.index)
    is_start = (phases["stage"] == START) & (phases["phase"] == "total")
    starts = phases[is_start & phases.index.isin(others)].assign(phase=START)
    # By the rows' own order: a trial's start comes before its steady rounds.
    return pd.concat([answering, starts]).sort_index(kind="stable")


def _wholes(results: Results, rounds: pd.DataFrame) -> pd.DataFrame:
    """Trials without rounds: the whole trial is their ``total``, if it is known."""
    trials = results.trials
    with_rounds = set(zip(rounds["sweep"], rounds["trial"], strict=True))
    names = zip(trials["sweep"], trials["trial"], strict=True)
    without = np.array([name not in with_rounds for name in names], dtype=bool)
    whole = trials[(trials["outcome"] == "ok") & without & (trials["wall_s"] > 0)]
    named = whole["network"].where(whole["network"].notna(), whole["command"])
    # A copy in one piece: its many columns were added one by one.
    return whole.copy().assign(
        network=named, pipeline=named, phase="total", seconds=whole["wall_s"]
    )


def _throughputs(results: Results) -> pd.DataFrame:
    """Trials with a throughput: seconds of one of its units."""
    trials = results.trials
    counted = trials[(trials["outcome"] == "ok") & (trials["throughput_per_s"] > 0)]
    named = counted["network"].where(counted["network"].notna(), counted["command"])
    seconds = 1 / counted["throughput_per_s"]
    return counted.copy().assign(network=named, pipeline=named, phase=THROUGHPUT, seconds=seconds)


class UnlimitedTwins:
    """Unlimited times of the same workload as limited ones: with the same swap if there are some.

    Args:
        times: one row per trial, network and phase.
        keys: the columns that make two rows comparable; one is ``workload``.
        any_swap: a workload's id → that of all that differ from it in their swap alone.
    """

    def __init__(
        self, times: pd.DataFrame, keys: Sequence[str], any_swap: Mapping[str, str]
    ) -> None:
        self._unlimited = times[times["memory_bytes"].isna()]
        limited = times[times["memory_bytes"].notna()]
        alike = times.assign(workload=times["workload"].map(any_swap))
        self._index: npt.NDArray[np.int64] = self._unlimited.index.to_numpy()
        self._numbers: list[dict[Any, Any]] = []
        self._rows: list[Mapping[Any, Any]] = []
        for rows in (times, alike):
            numbers = pd.Series(numbered(rows, keys), rows.index)
            self._numbers.append(numbers.to_dict())
            self._rows.append(self._unlimited.groupby(numbers.loc[self._unlimited.index]).indices)
        self._limited = {self._numbers[-1][row] for row in limited.index}

    def rows_of(self, row: int) -> npt.NDArray[np.int64]:
        """The index of those that are alike in all keys to a limited row, given by its own."""
        for numbers, rows in zip(self._numbers, self._rows, strict=True):
            if numbers[row] in rows:
                alike: npt.NDArray[np.int64] = self._index[rows[numbers[row]]]
                return alike
        return self._index[:0]

    def alone(self) -> Iterator[npt.NDArray[np.int64]]:
        """The index of those that no limited row is alike to, whatever the swap; in groups."""
        alone = {n: at for n, at in self._rows[-1].items() if n not in self._limited}
        for at in sorted(alone.values(), key=lambda at: int(at[0])):
            yield self._index[at]


def numbered(frame: pd.DataFrame, columns: Sequence[str]) -> npt.NDArray[np.int64]:
    """The same number for rows that are alike in these columns, where missing is a value too."""
    groups = frame.groupby(list(columns), dropna=False, sort=False)
    return np.asarray(groups.ngroup(), dtype=np.int64)


@dataclass(frozen=True, eq=False)
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

    def unseen(self) -> Curve:
        """Return the curve as if its network had never run below a limit."""
        nothing = self.limit_bytes[:0]
        return replace(self, limit_bytes=nothing, seconds=nothing, lost_bytes={})


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
    made = [*_paired([*_curves(times, results)], results)]
    if not made:
        _say_why_none(results)
    return made


@once_for_results
def unlimited_curves(results: Results) -> list[Curve]:
    """Every curve of a workload with rounds that finished without a limit and below none."""
    times = seconds_by_trial(results)
    with_rounds = times[times["kind"].isin(WITH_ROUNDS)]
    twins, made = UnlimitedTwins(with_rounds, _KEYS, _any_swap(results)), _CurveMaker(times)
    return [made.curve([], rows, int(rows[0])) for rows in twins.alone()]


@once_for_results
def killed_curves(results: Results) -> list[Curve]:
    """Every curve of a workload that was tried below limits and finished at none."""
    times, trials = seconds_by_trial(results), results.trials
    any_swap = _any_swap(results)
    limited = trials[trials["memory_bytes"].notna() & trials["network"].notna()]
    unlimited = times[times["memory_bytes"].isna()]
    without_swap = unlimited["workload"].map(any_swap)
    finished = (limited["outcome"] == "ok").to_numpy(dtype=bool)
    found, maker = [], _CurveMaker(times)
    groups: Mapping[Any, Any] = limited.groupby(["sweep", "workload"], sort=False).indices
    for (sweep, workload), places in sorted(groups.items(), key=lambda one: int(one[1][0])):
        if finished[places].any():
            continue
        every = limited.iloc[places]
        if not (lost := lost_limits(every)):
            continue
        alike = without_swap == any_swap[str(workload)]
        own = unlimited[(unlimited["sweep"] == sweep) & alike]
        same = own[own["workload"] == workload]
        swap = _plain(every[list(SWAP)].iloc[0].dropna().to_dict())
        for _, rows in (same if len(same) else own).groupby(["network", "phase"], sort=False):
            at = rows.index.to_numpy()
            made = maker.curve([], at, int(at[0]), lost)
            settings = {k: v for k, v in made.settings.items() if k not in SWAP} | swap
            found.append(replace(made, settings=settings, workload=str(workload)))
    return found


@once_for_results
def _any_swap(results: Results) -> dict[str, str]:
    keys = (key for sweep in results.sweeps for key in workloads_of(sweep.columns)[1])
    return {key.id: key.any_swap.id for key in keys}


def _curves(times: pd.DataFrame, results: Results) -> Iterator[Curve]:
    limited = times[times["memory_bytes"].notna()]
    twins, made = UnlimitedTwins(times, _KEYS, _any_swap(results)), _CurveMaker(times)
    about, index = _about_trials(results), limited.index.to_numpy()
    groups: Mapping[Any, Any] = limited.groupby(_KEYS, dropna=False, sort=False).indices
    for at in sorted(groups.values(), key=lambda at: int(at[0])):
        rows = index[at]
        unlimited, first = twins.rows_of(int(rows[0])), int(rows[0])
        # A convolution is of no network.
        if not len(unlimited) or pd.isna(made.columns["network"][first]):
            continue
        key = made.columns["sweep"][first], made.columns["workload"][first]
        lost, walked, needs = about[key]
        curve = made.curve(rows, unlimited, first, lost)
        yield replace(curve, walked=walked, working_set_bytes=needs)


def _paired(found: list[Curve], results: Results) -> Iterator[Curve]:
    """The curves; those of walks with the steady slowdown that facts know of each limit."""
    measured = _walked_slowdowns(results) if any(curve.walked for curve in found) else {}
    totals = {_walk_of(curve): curve for curve in found if curve.walked and curve.phase == "total"}
    factors = {}
    for walk, curve in totals.items():
        known = measured.get(walk, {})
        pairs = zip(curve.limits, curve.medians, strict=True)
        factors[walk] = {limit: known.get(limit, median) / median for limit, median in pairs}
    for curve in found:
        own = factors.get(_walk_of(curve)) if curve.phase not in (START, THROUGHPUT) else None
        if own is None or not curve.walked:
            yield curve
        else:
            scale = np.array([own.get(limit, 1.0) for limit in curve.limit_bytes])
            yield replace(curve, seconds=curve.seconds * scale)


def _walk_of(curve: Curve) -> tuple[str, str]:
    return str(curve.settings["sweep"]), curve.workload


def _walked_slowdowns(results: Results) -> dict[tuple[str, str], dict[float, float]]:
    """Sweep and workload → limit in bytes → steady slowdown, of workloads that were walked."""
    found: dict[tuple[str, str], dict[float, float]] = {}
    for name, points in facts_of_points(results).items():
        for point in points:
            if point.steady_relative and point.limit_bytes and "total" in point.slowdowns:
                own = found.setdefault((name, point.key.id), {})
                own[float(point.limit_bytes)] = point.slowdowns["total"]
    return found


_AboutTrials = tuple[dict[str, tuple[float, ...]], bool, float | None]


def _about_trials(results: Results) -> dict[tuple[str, str], _AboutTrials]:
    """Of each workload's trials: limits without an end, whether they were walked, working set."""
    trials = results.trials
    is_lost = trials["outcome"].isin(LOST).to_numpy(dtype=bool)
    walked = (trials["walk_step"] > 0).to_numpy(dtype=bool, na_value=False)
    needs = trials[list(WORKING_SET)].to_numpy(dtype=np.float64, na_value=np.nan).sum(axis=1)
    found = {}
    groups: Mapping[Any, Any] = trials.groupby(["sweep", "workload"], sort=False).indices
    for (sweep, workload), at in groups.items():
        known = needs[at][~np.isnan(needs[at])]
        found[str(sweep), str(workload)] = (
            lost_limits(trials.iloc[at]) if is_lost[at].any() else {},
            bool(walked[at].any()),
            float(np.median(known)) if len(known) else None,
        )
    return found


class _CurveMaker:
    """Makes curves of rows of :func:`seconds_by_trial`, by their index; reads each column once."""

    def __init__(self, times: pd.DataFrame) -> None:
        self.columns = {
            name: times[name].to_numpy(dtype=object) for name in dict.fromkeys([*_KEYS, *_SETTINGS])
        }
        self._trial = times["trial"].to_numpy(dtype=object)
        self._memory, self._seconds, self._demand = (
            times[name].to_numpy(dtype=np.float64, na_value=np.nan)
            for name in ("memory_bytes", "seconds", "workload_demand_bytes")
        )

    def curve(
        self,
        limited: Iterable[int],
        unlimited: npt.NDArray[np.int64],
        like: int,
        lost: dict[str, tuple[float, ...]] | None = None,
    ) -> Curve:
        """A curve with the settings of the row ``like``."""
        in_order = sorted(limited, key=lambda row: (self._memory[row], self._trial[row]))
        rows = np.array(in_order, dtype=np.int64)
        demands = self._demand[unlimited]
        demands = demands[~np.isnan(demands)]
        first = {name: column[like] for name, column in self.columns.items()}
        plain = _plain({name: first[name] for name in _SETTINGS if not pd.isna(first[name])})
        return Curve(
            network=first["network"],
            phase=first["phase"],
            workload=first["workload"],
            # Results from before storage could be held stay what they were.
            settings={k: v for k, v in plain.items() if (k, v) != ("storage", AS_IS)},
            limit_bytes=self._memory[rows],
            seconds=self._seconds[rows],
            unlimited_seconds=self._seconds[unlimited],
            demand_bytes=float(np.median(demands)) if len(demands) else None,
            lost_bytes=lost or {},
        )


def _plain(settings: Mapping[Any, Any]) -> dict[str, Any]:
    """The settings without NumPy's types, which JSON has not."""
    return {str(k): v.item() if isinstance(v, np.generic) else v for k, v in settings.items()}


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


def upward_seconds(results: Results) -> pd.DataFrame | None:
    """One row per limit, network and phase of the way up; None where nothing was walked.

    A round without a limit at that time stands beside it, as ``reference_s``.
    """
    if not any(len(sweep.upward_records) for sweep in results.sweeps):
        return None
    upward = results.upward
    around = upward.trials[["sweep", "trial", "walk_reference_s"]]
    named = around.rename(columns={"walk_reference_s": "reference_s"})
    return seconds_by_trial(upward).merge(named, on=["sweep", "trial"])


def upward_slowdown(curve: Curve, upward: pd.DataFrame) -> tuple[FloatArray, FloatArray]:
    """Limits in bytes and slowdowns of the way up of a curve's workload, one a visit.

    A whole round's is relative to the unlimited one of its own process, as on the way down.
    """
    own = (upward["network"] == curve.network) & (upward["phase"] == curve.phase)
    for name, value in {"storage": AS_IS, **curve.settings}.items():
        if name in upward:
            own &= upward[name] == value
    rows = upward[own].sort_values("memory_bytes")
    seconds = rows["seconds"].to_numpy(dtype=np.float64)
    base = np.full(len(rows), curve.unlimited_s)
    if curve.phase == "total":
        around = rows["reference_s"].to_numpy(dtype=np.float64, na_value=np.nan)
        base = np.where(np.isnan(around), base, around)
    return rows["memory_bytes"].to_numpy(dtype=np.float64), seconds / base
