"""One answer about a workload at a limit: measured, between, from counted bytes, or simulated.

Whoever says what happens at a limit asks here, so that no two of them contradict each other:

- **measured**: trials ran at the limit. How they ended and how long they took is the answer.
- **between**: trials ran at tighter and wider limits. A model tells the time, but it stays between
  those of the two neighbours, and so does the share of trials that finish. Slowdown does not rise
  with memory, so what the neighbours leave is the interval.
- **counted**: trials ran with another storage, and the bytes that their rounds read were counted:
  so many take so long on this one.
- **simulated**: no trial ran at so tight a limit, or none of the workload at all. A model tells the
  time. What finished or was killed at the tightest limit bounds it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from edgebench.kills import TOO_TIGHT
from edgebench.results.spread import Ratio, Spread, spread_of
from edgebench.slowdown.counted import CountedModel
from edgebench.slowdown.curves import WHOLES
from edgebench.throughput import THROUGHPUT

if TYPE_CHECKING:
    from edgebench.results.point_facts import PointFacts
    from edgebench.results.results import Results
    from edgebench.slowdown.curves import Curve
    from edgebench.slowdown.models.fitted import WorkloadModel
    from edgebench.slowdown.simulator.profile import AddedLayerTime
    from edgebench.slowdown.viability import WorkloadViability

Kind = Literal["measured", "between", "counted", "simulated"]
#: Limits that differ by no more than this factor are one: a share of demand differs between trials.
SAME = 1.005
#: The limit is raised by this factor for ``saved_s``.
MORE = 1.1
#: Neighbours whose slowdowns differ by more than this factor have a cliff between them.
_CLIFF = 2.0
_ENDS = ("ok", *TOO_TIGHT, "accelerator-oom")


class AnswerDoubt(str, Enum):
    """Why an answer is less sure than others of its kind."""

    #: The limit lies outside the range of all trials.
    EXTRAPOLATED = "extrapolated"
    #: One trial ran at the limit.
    ONE_TRIAL = "one trial"
    #: Some trials finished and some did not, or a tighter limit was finished at.
    KILLS_VARY = "kills vary"
    #: It is much slower at the next tighter limit than at the next wider one.
    CLIFF = "cliff"
    #: It finishes, but how long it takes is not known.
    NO_TIME = "no time"


@dataclass(frozen=True)
class MeasuredLimit:
    """What the trials of a workload at one limit showed.

    Attributes:
        label: the limit as the scenario has it, as ``75%``; ``max`` without a limit.
        limit_bytes: as the kernel rounded it; infinite without a limit.
        finished, ended: trials that finished, and all whose end tells whether the limit is enough.
        lost: how most of the others ended; empty without any.
        times_s, ratios: of ``start``, ``total`` and ``throughput`` (seconds of one unit), as far as
            they are known.
        peak_bytes: the most that its trials used, page cache included; infinite if unknown.
    """

    label: str
    limit_bytes: float
    finished: int
    ended: int
    lost: str = ""
    times_s: Mapping[str, Spread] = field(default_factory=dict)
    ratios: Mapping[str, Ratio] = field(default_factory=dict)
    peak_bytes: float = math.inf

    @property
    def share(self) -> float:
        """Of the trials, those that finished."""
        return self.finished / self.ended


#: By the name of a sweep and the id of a workload its measured limits, ascending.
Measured = Mapping[tuple[str, str], Sequence[MeasuredLimit]]


def measured_limits(results: Results) -> Measured:
    """What was measured of each workload, as ``show`` has it."""
    from edgebench.results.point_facts import facts_of_points

    found: dict[tuple[str, str], list[MeasuredLimit]] = {}
    for name, points in facts_of_points(results).items():
        for point in points:
            own = found.setdefault((name, point.key.id), [])
            own += _measured_limit(point)
    return {key: _ascending(own) for key, own in found.items()}


def measured_kills(results: Results) -> Measured:
    """Of what was measured the limits at which every trial was killed for its memory.

    Where it finished at a tighter one, memory was not why.
    """
    return {key: killed_for_memory(own) for key, own in measured_limits(results).items()}


def killed_for_memory(measured: Sequence[MeasuredLimit]) -> list[MeasuredLimit]:
    """The same of one workload's limits."""
    finished = min((one.limit_bytes for one in measured if one.finished), default=math.inf)
    return [
        one
        for one in measured
        if not one.finished and one.lost == "oom-killed" and one.limit_bytes < finished
    ]


def _measured_limit(point: PointFacts) -> list[MeasuredLimit]:
    """The point as a limit; empty where no trial tells whether it is enough."""
    size = point.limit_bytes if point.limit_bytes is not None else point.limits.memory_bytes
    if point.limits.label == "max":
        size = None
    elif size is None:
        return []
    ends = {name: count for name, count in point.outcomes.items() if name in _ENDS}
    lost = {name: count for name, count in ends.items() if name != "ok"}
    times = {name: point.times_s[name] for name in WHOLES if name in point.times_s}
    if (rate := point.throughput_per_s) and rate.low > 0:
        times[THROUGHPUT] = Spread(1 / rate.median, 1 / rate.high, 1 / rate.low, rate.count)
    made = MeasuredLimit(
        label=point.limits.label,
        limit_bytes=math.inf if size is None else float(size),
        finished=ends.get("ok", 0),
        ended=sum(ends.values()),
        lost=max(lost, key=lambda name: lost[name], default=""),
        times_s=times,
        ratios={name: point.ratios[name] for name in times if name in point.ratios},
        peak_bytes=point.peak_bytes.high if point.peak_bytes else math.inf,
    )
    return [made] if ends else []


def _ascending(limits: Iterable[MeasuredLimit]) -> list[MeasuredLimit]:
    return sorted(limits, key=lambda one: one.limit_bytes)


@dataclass(frozen=True)
class PhaseTime:
    """One phase at one limit, in seconds a pass.

    ``low_s`` to ``high_s``, and ``slowdown_low`` to ``slowdown_high``: where the phase was measured
    the fastest and the slowest repeat; else they hold 90 % of trials. None: not known.
    ``saved_s`` is what a tenth more memory saves; None: not known.
    """

    network: str
    phase: str
    seconds: float
    low_s: float | None
    high_s: float | None
    slowdown: float
    slowdown_low: float | None
    slowdown_high: float | None
    unlimited_s: float
    saved_s: float | None = None


@dataclass(frozen=True)
class Answer:
    """What happens at a limit.

    Attributes:
        kind: how it is known.
        limit_bytes: the limit; ``share`` is the same as a share of demand, None if that is unknown.
        outcome: ``ok``, or how a trial ends more likely than not.
        probability: that a trial finishes; None if unknown. Measured, it is the share that did.
        finished, ended: the trials that ran there, of those that tell; 0 of 0 unless measured.
        phases: their times; empty where nothing finishes, or nothing is known of them.
        layers: those that take the added time, by the simulation.
        doubts: why it is less sure than others.
    """

    kind: Kind
    limit_bytes: float
    share: float | None
    outcome: str
    probability: float | None
    finished: int = 0
    ended: int = 0
    phases: tuple[PhaseTime, ...] = ()
    layers: tuple[AddedLayerTime, ...] = ()
    doubts: tuple[AnswerDoubt, ...] = ()

    @property
    def viable(self) -> bool:
        """Whether it is expected to finish."""
        return self.outcome == "ok"

    @property
    def extrapolated(self) -> bool:
        """Whether the limit lies outside the range of all trials."""
        return AnswerDoubt.EXTRAPOLATED in self.doubts

    def phase(self, name: str) -> PhaseTime | None:
        """The first of this name."""
        return next((time for time in self.phases if time.phase == name), None)

    def to_json(self) -> dict[str, Any]:
        """Plain data for ``json.dumps``."""
        doubts = [doubt.value for doubt in self.doubts]
        more = {"viable": self.viable, "extrapolated": self.extrapolated, "doubts": doubts}
        return {**asdict(self), **more}


class WorkloadAnswers:
    """The answers about one workload."""

    def __init__(
        self,
        curves: Sequence[Curve],
        measured: Sequence[MeasuredLimit],
        demand_bytes: float | None,
        edge: WorkloadViability | None,
        model: Callable[[], WorkloadModel | None],
        is_outside: Callable[[float], bool],
    ) -> None:
        """Ask for answers with :meth:`at`.

        Args:
            curves: the workload's, a phase each.
            measured: its measured limits, ascending.
            demand_bytes: its demand; None if unknown.
            edge: where it stops finishing, as other trials tell; None if that is unknown.
            model: what tells times at other limits; asked only if needed. None: nothing does.
            is_outside: whether a limit lies outside the range of all trials.
        """
        self._curves, self._measured = curves, measured
        self._limited = [one for one in measured if one.limit_bytes < math.inf]
        self._demand, self._edge = demand_bytes, edge
        self._model, self._is_outside = model, is_outside

    def measured_at(self, limit_bytes: float, label: str = "") -> MeasuredLimit | None:
        """What was measured at a limit, by its label or its size."""
        labelled = [one for one in self._limited if one.label == label]
        near = [one for one in self._limited if abs(_ratio(one, limit_bytes)) <= math.log(SAME)]
        found = labelled or near
        return min(found, key=lambda one: abs(_ratio(one, limit_bytes)), default=None)

    def at(
        self, limit_bytes: float, label: str = "", layers: tuple[AddedLayerTime, ...] = ()
    ) -> Answer:
        """The answer at a limit; ``label`` is how it was asked for, as ``75%``."""
        if here := self.measured_at(limit_bytes, label):
            return self._measured_answer(here, layers)
        tighter, wider = self._neighbours(limit_bytes)
        kind: Kind = "between" if tighter and wider else "simulated"
        probability = self._probability(limit_bytes, tighter, wider)
        viable = probability is None or probability >= 0.5
        phases = self._times(limit_bytes) if viable else ()
        outside = kind != "between" and self._is_outside(limit_bytes)
        if kind == "simulated" and phases and (counted := self._counted()):
            kind, outside = "counted", limit_bytes * SAME < counted.tightest_bytes
        doubts = {
            AnswerDoubt.EXTRAPOLATED: outside,
            AnswerDoubt.KILLS_VARY: bool(tighter and wider and tighter.share > wider.share),
            AnswerDoubt.CLIFF: kind == "between" and any(map(_is_cliff, phases)),
            AnswerDoubt.NO_TIME: viable and not phases,
        }
        return Answer(
            kind=kind,
            limit_bytes=limit_bytes,
            share=self._share(limit_bytes),
            outcome="ok" if viable else (tighter and tighter.lost) or "oom-killed",
            probability=probability,
            phases=phases,
            layers=layers,
            doubts=tuple(doubt for doubt, holds in doubts.items() if holds),
        )

    def least_bytes(self, share: float) -> float | None:
        """The limit from which up this share of trials finishes; None if unknown.

        By the edge, but not against trials: wider than all limits at which fewer finished, and no
        wider than the next.
        """
        edge = self._edge.least_bytes(share) if self._edge else None
        low = max((one.limit_bytes for one in self._limited if one.share < share), default=0.0)
        wider = [one.limit_bytes for one in self._limited if one.limit_bytes > low]
        if edge is None or edge <= low:
            return min(wider, default=None) if low else edge
        return min([edge, *wider])

    def _counted(self) -> CountedModel | None:
        """What tells a round from counted bytes, if that is the workload's model."""
        model = self._model()
        last = [*model.fitted.values()][-1] if model else None
        return last if isinstance(last, CountedModel) else None

    def _measured_answer(self, here: MeasuredLimit, layers: tuple[AddedLayerTime, ...]) -> Answer:
        tighter = [one for one in self._limited if one.limit_bytes < here.limit_bytes]
        viable, vary = here.share >= 0.5, 0 < here.share < 1
        doubts = {
            AnswerDoubt.ONE_TRIAL: here.ended == 1,
            AnswerDoubt.KILLS_VARY: vary or any(one.share > here.share for one in tighter),
        }
        return Answer(
            kind="measured",
            limit_bytes=here.limit_bytes,
            share=self._share(here.limit_bytes),
            outcome="ok" if viable else here.lost,
            probability=here.share,
            finished=here.finished,
            ended=here.ended,
            phases=self._measured_times(here) if here.finished else (),
            layers=layers,
            doubts=tuple(doubt for doubt, holds in doubts.items() if holds),
        )

    def _share(self, limit_bytes: float) -> float | None:
        return limit_bytes / self._demand if self._demand else None

    def _neighbours(
        self, limit_bytes: float, *, finished: bool = False
    ) -> tuple[MeasuredLimit | None, MeasuredLimit | None]:
        """The next tighter and the next wider limit; with ``finished`` of those with times."""
        known = [one for one in self._measured if one.finished or not finished]
        tighter = [one for one in known if one.limit_bytes < limit_bytes]
        wider = [one for one in known if one.limit_bytes > limit_bytes]
        return (tighter[-1] if tighter else None), (wider[0] if wider else None)

    def _probability(
        self, limit_bytes: float, tighter: MeasuredLimit | None, wider: MeasuredLimit | None
    ) -> float | None:
        """That a trial finishes: by the edge, but not against the neighbours."""
        known = self._edge.probability(limit_bytes) if self._edge else None
        if tighter is None:
            # At a tighter limit no more of them finish.
            limited = wider is not None and wider.limit_bytes < math.inf
            if not limited or wider is None:
                return known
            return min(wider.share, wider.share if known is None else known)
        ends = [tighter.share, wider.share if wider else 1.0]
        if known is None:
            known = self._between(limit_bytes, tighter, wider)
        return min(max(known, min(ends)), max(ends))

    def _between(
        self, limit_bytes: float, tighter: MeasuredLimit, wider: MeasuredLimit | None
    ) -> float:
        """The share that finishes, in proportion between two limits."""
        size = wider.limit_bytes if wider else math.inf
        if size == math.inf:
            size = max(self._demand or 0.0, limit_bytes * SAME)
        ends = [math.log(tighter.limit_bytes), math.log(size)]
        shares = [tighter.share, wider.share if wider else 1.0]
        return float(np.interp(math.log(limit_bytes), ends, shares))

    def unslowed_bytes(self, slowdown: float) -> float | None:
        """From which limit up a round was measured to be slower by no more than a factor."""
        curve = next((one for one in self._curves if one.phase == "total"), None)
        found = None
        for one in reversed(self._limited) if curve else ():
            seen = _seen(curve, one) if curve else None
            if one.finished < one.ended or seen is None or seen.slowdown > slowdown:
                break
            found = one.limit_bytes
        return found

    def _measured_times(self, here: MeasuredLimit) -> tuple[PhaseTime, ...]:
        """Each phase as it was measured; what more memory saves by a line to the next limit."""
        _, wider = self._neighbours(here.limit_bytes, finished=True)
        found = []
        for curve in self._curves:
            if (seen := _seen(curve, here)) is None:
                continue
            more = _seen(curve, wider) if wider else None
            if more and wider:
                end = wider.limit_bytes if wider.limit_bytes < math.inf else self._demand
                rises = max(0.0, seen.slowdown - more.slowdown) * seen.unlimited_s
                part = math.log(end / here.limit_bytes) / math.log(MORE) if end else math.inf
                seen = replace(seen, saved_s=rises / max(1.0, part))
            found.append(seen)
        return tuple(found)

    def _times(self, limit_bytes: float) -> tuple[PhaseTime, ...]:
        """Each phase's time; empty where one is not known."""
        found = []
        model = self._model()
        for curve in self._curves:
            if model is not None and not model.tells(curve):
                continue
            here, more = (self._time(curve, size) for size in (limit_bytes, limit_bytes * MORE))
            if here is None:
                return ()
            saved = here.unlimited_s * (here.slowdown - more.slowdown) if more else None
            found.append(replace(here, saved_s=saved))
        return tuple(found)

    def _time(self, curve: Curve, limit_bytes: float) -> PhaseTime | None:
        here = self.measured_at(limit_bytes)
        if here and (seen := _seen(curve, here)):
            return seen
        model = self._model()
        if model is None:
            return None
        tighter, wider = self._neighbours(limit_bytes, finished=True)
        if not tighter:
            model.check([limit_bytes], curve.workload_network)
        found = model.predict(curve, np.array([limit_bytes]))
        slowdown, unlimited_s = float(found.slowdown[0]), found.unlimited_s
        low, high = (
            (float(found.interval[0][0]), float(found.interval[1][0]))
            if found.interval
            else (None, None)
        )
        ends = [_seen(curve, one) for one in (tighter, wider) if one]
        seen_ends = [one for one in ends if one]
        if tighter and wider and len(seen_ends) == 2:
            known = [one.slowdown for one in seen_ends]
            slowdown = min(max(slowdown, min(known)), max(known))
            low, high = min(map(_lowest, seen_ends)), max(map(_highest, seen_ends))
        elif wider and wider.limit_bytes < math.inf and seen_ends:
            # Tighter than all that finished: no faster than there.
            slowdown = max(slowdown, seen_ends[-1].slowdown)
            high = None if high is None else max(high, slowdown)
        free = next((one for one in self._measured if one.limit_bytes == math.inf), None)
        if free and limit_bytes > free.peak_bytes:
            # It would never be met.
            slowdown, low, high = 1.0, 1.0, 1.0
        return PhaseTime(
            network=curve.network,
            phase=curve.phase,
            seconds=slowdown * unlimited_s,
            low_s=None if low is None else low * unlimited_s,
            high_s=None if high is None else high * unlimited_s,
            slowdown=slowdown,
            slowdown_low=low,
            slowdown_high=high,
            unlimited_s=unlimited_s,
        )


def _seen(curve: Curve, limit: MeasuredLimit) -> PhaseTime | None:
    """A phase as it was measured at a limit; None where no trial tells."""
    if not len(curve.unlimited_seconds):
        return None
    unlimited_s = curve.unlimited_s
    if limit.limit_bytes == math.inf:
        own = curve.unlimited_seconds
    else:
        off = abs(np.log(curve.limit_bytes / limit.limit_bytes))
        own = curve.seconds[off <= math.log(SAME)]
    spread = limit.times_s.get(curve.phase) or spread_of(own.tolist())
    if spread is None:
        return None
    ratio = limit.ratios.get(curve.phase) or Ratio(spread.median / unlimited_s)
    several = spread.count > 1
    low, high = ratio.low, ratio.high
    if several and (low is None or high is None):
        low, high = spread.low / unlimited_s, spread.high / unlimited_s
    return PhaseTime(
        network=curve.network,
        phase=curve.phase,
        seconds=spread.median,
        low_s=spread.low if several else None,
        high_s=spread.high if several else None,
        slowdown=ratio.median,
        slowdown_low=low,
        slowdown_high=high,
        unlimited_s=unlimited_s,
    )


def _ratio(limit: MeasuredLimit, limit_bytes: float) -> float:
    return math.log(limit.limit_bytes / limit_bytes)


def _lowest(time: PhaseTime) -> float:
    return min(time.slowdown, time.slowdown_low or time.slowdown)


def _highest(time: PhaseTime) -> float:
    return max(time.slowdown, time.slowdown_high or time.slowdown)


def _is_cliff(time: PhaseTime) -> bool:
    low, high = time.slowdown_low, time.slowdown_high
    return time.phase == "total" and bool(low and high and high > _CLIFF * low)
