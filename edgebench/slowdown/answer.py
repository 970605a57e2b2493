"""One answer about a workload at a limit, with one source, decided in :meth:`WorkloadAnswers.at`.

- **measured**: trials ran at the limit. How they ended and how long they took is the answer.
- **between**: trials ran at tighter and wider limits: a curve that never rises with memory, through
  the medians. Where the two differ by a cliff, the answer is both sides, not a middle, unless the
  bytes are known.
- **counted, working set, layer table**: no trial tells, so both formulas do
  (:mod:`~edgebench.slowdown.computed`).

Below the tightest limit that finished, or whose bytes were counted, seconds are a lower bound. None
are fewer than what must be read takes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from edgebench.kills import TOO_TIGHT
from edgebench.results.spread import Ratio, Spread, spread_of
from edgebench.slowdown.curves import WHOLES
from edgebench.slowdown.source import Source
from edgebench.slowdown.workload import CannotPredictError
from edgebench.throughput import THROUGHPUT

if TYPE_CHECKING:
    from edgebench.results.point_facts import PointFacts
    from edgebench.results.results import Results
    from edgebench.slowdown.computed import ComputedPhase
    from edgebench.slowdown.curves import Curve
    from edgebench.slowdown.kills import Room
    from edgebench.slowdown.models.interpolated import Interpolated

#: Limits that differ by no more than this factor are one: a share of demand differs between trials.
SAME = 1.005
#: Neighbours whose slowdowns differ by more than this factor have a cliff between them.
_CLIFF = 2.0
#: Layers are named where a limit adds this share of a round or more.
_ADDED = 0.1
_ENDS = ("ok", *TOO_TIGHT, "accelerator-oom")


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
    return {k: sorted(own, key=lambda one: one.limit_bytes) for k, own in found.items()}


def killed_for_memory(measured: Sequence[MeasuredLimit]) -> list[MeasuredLimit]:
    """Return the limits at which every trial was killed for its memory.

    Where it finished at a tighter one, memory was not why.
    """
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


@dataclass(frozen=True)
class PhaseTime:
    """One phase at one limit, in seconds a pass.

    Args:
        seconds: None at a cliff, where it is either ``low_s`` or ``high_s``.
        low_s, high_s: the fastest and the slowest repeat, else what holds 90 % of trials.
        slowdown: and its ends, over ``unlimited_s``.
        at_least: whether it is a lower bound.
    """

    network: str
    phase: str
    seconds: float | None
    low_s: float | None
    high_s: float | None
    slowdown: float | None
    slowdown_low: float | None
    slowdown_high: float | None
    unlimited_s: float
    at_least: bool = False


@dataclass(frozen=True)
class AddedLayerTime:
    """What a limit adds to a layer in a steady round: its bytes read again over the speed."""

    network: str
    order: int
    name: str
    added_s: float
    share: float


@dataclass(frozen=True)
class Answer:
    """What happens at a limit.

    Args:
        source: how it is known.
        limit_bytes: the limit; ``share`` is the same as a share of what it needs, None if unknown.
        outcome: ``ok``, or how a trial ends; None: too near to the edge to tell.
        finished, ended: the trials that ran there, of those that tell; 0 of 0 unless measured.
        phases: their times; empty where nothing finishes, or nothing is known of them.
        layers: those that take the added time, where that is computed.
        tighter_bytes, wider_bytes: the limits beside it at which trials finished.
    """

    source: Source
    limit_bytes: float
    share: float | None
    outcome: str | None
    finished: int = 0
    ended: int = 0
    phases: tuple[PhaseTime, ...] = ()
    layers: tuple[AddedLayerTime, ...] = ()
    tighter_bytes: float | None = None
    wider_bytes: float | None = None

    @property
    def viable(self) -> bool:
        """Whether it may finish."""
        return self.outcome in ("ok", None)

    def phase(self, name: str) -> PhaseTime | None:
        """Return the first of this name."""
        return next((time for time in self.phases if time.phase == name), None)

    def to_json(self) -> dict[str, Any]:
        """Return plain data for ``json.dumps``."""
        return {**asdict(self), "source": self.source.value, "viable": self.viable}


class WorkloadAnswers:
    """The answers about one workload."""

    def __init__(
        self,
        curves: Sequence[Curve],
        measured: Sequence[MeasuredLimit],
        needs_bytes: float | None,
        room: Room | None,
        compute: Callable[[Curve], ComputedPhase],
        least_s: Callable[[float], float] = lambda _: 0.0,
        moved: bool = False,
    ) -> None:
        """Ask for answers with :meth:`at`.

        Args:
            curves: the workload's, a phase each.
            measured: its measured limits, ascending.
            needs_bytes: what it needs; None if unknown.
            room: what has to fit, and the swap; None if one is unknown.
            compute: returns what the formulas say of a curve, or raises CannotPredictError.
            least_s: seconds that a round can't be shorter than at a limit.
            moved: whether another storage is asked about: then trials tell of kills alone.
        """
        self._curves, self._measured, self._needs = curves, measured, needs_bytes
        self._limited = [one for one in measured if one.limit_bytes < math.inf]
        self._room, self._compute, self._least_s, self._moved = room, compute, least_s, moved
        self._phases: dict[str, ComputedPhase | CannotPredictError] = {}
        self._cubics: dict[str, Interpolated | None] = {}

    def measured_at(self, limit_bytes: float, label: str = "") -> MeasuredLimit | None:
        """Return what was measured at a limit, by its label or its size."""
        labelled = [one for one in self._limited if one.label == label]
        near = [one for one in self._limited if _distance(one, limit_bytes) <= math.log(SAME)]
        found = labelled or near
        return min(found, key=lambda one: _distance(one, limit_bytes), default=None)

    def at(self, limit_bytes: float, label: str = "") -> Answer:
        """Return the answer at a limit; ``label`` is how it was asked for, as ``75%``."""
        share = limit_bytes / self._needs if self._needs else None
        here = self.measured_at(limit_bytes, label)
        outcome = self._outcome(here, limit_bytes)
        if here and not (self._moved and here.finished):
            phases = [_seen(curve, here) for curve in self._curves] if here.finished else []
            return Answer(
                source=Source.MEASURED,
                limit_bytes=here.limit_bytes,
                share=share,
                outcome=outcome,
                finished=here.finished,
                ended=here.ended,
                phases=tuple(filter(None, phases)),
            )
        found = [self._time(curve, limit_bytes) for curve in self._curves]
        told = [one for one in found if one] if outcome in ("ok", None) else []
        source = told[-1][1] if told else self._bare_source(limit_bytes)
        sizes = [one.limit_bytes for one in self._limited if one.finished]
        return Answer(
            source=source,
            limit_bytes=limit_bytes,
            share=share,
            outcome=outcome,
            phases=tuple(time for time, _ in told),
            layers=self._layers(limit_bytes) if told else (),
            tighter_bytes=max((size for size in sizes if size < limit_bytes), default=None),
            wider_bytes=min((size for size in sizes if size > limit_bytes), default=None),
        )

    def unslowed_bytes(self, slowdown: float) -> float | None:
        """Return the limit from which up a round is slower by no more than a factor."""
        curve = next((one for one in self._curves if one.phase == "total"), None)
        if curve is None or self._needs is None:
            return None
        tried = [one.limit_bytes for one in self._limited]
        sizes = sorted({*(np.geomspace(0.1, 1.5, 120) * self._needs), *tried}, reverse=True)
        lost = max((one.limit_bytes for one in self._limited if one.share < 1), default=0.0)
        sure = min((size for size in tried if size > lost), default=lost)
        found = None
        for size in (size for size in sizes if size >= sure):
            at = self.at(float(size))
            time = at.phase("total")
            if at.outcome != "ok" or time is None or time.at_least:
                break
            slow = time.slowdown_high if time.slowdown is None else time.slowdown
            if slow is None or slow > slowdown:
                break
            found = at.limit_bytes
        return found

    def _outcome(self, here: MeasuredLimit | None, limit_bytes: float) -> str | None:
        """Say how a trial ends: as trials did there or, as memory only helps, beside it."""
        if here:
            return "ok" if here.finished * 2 >= here.ended else here.lost
        tighter = [one for one in self._limited if one.limit_bytes < limit_bytes]
        wider = [one for one in self._limited if one.limit_bytes > limit_bytes]
        if any(one.finished == one.ended for one in tighter):
            return "ok"
        killed = killed_for_memory(self._limited)
        if any(one in killed for one in wider):
            return "oom-killed"
        if self._room is None:
            return "ok" if not killed and any(one.finished for one in tighter) else None
        finishes = self._room.finishes(limit_bytes)
        # A measured edge is nearer than the computed one.
        if finishes and any(one in killed for one in tighter):
            nearest = max(one.limit_bytes for one in tighter if one in killed)
            finishes = None if limit_bytes < nearest * (1 + self._room.margin) else True
        return "ok" if finishes else None if finishes is None else "oom-killed"

    def _bare_source(self, limit_bytes: float) -> Source:
        """Say what tells the outcome where no time is known."""
        known = [one.limit_bytes for one in self._limited]
        if known and (min(known) < limit_bytes or self._outcome(None, limit_bytes) != "ok"):
            return Source.BETWEEN
        return Source.LAYER_TABLE

    def _time(self, curve: Curve, limit_bytes: float) -> tuple[PhaseTime, Source] | None:
        """Return a phase's time where no trial ran, and where it is from; None: nothing tells."""
        timed = [] if self._moved else [(one, _seen(curve, one)) for one in self._measured]
        known = [(one, seen) for one, seen in timed if seen and one.finished]
        tighter = [pair for pair in known if pair[0].limit_bytes < limit_bytes][-1:]
        wider = [pair for pair in known if pair[0].limit_bytes > limit_bytes][:1]
        free = next((one for one in self._measured if one.limit_bytes == math.inf), None)
        never_met = free is not None and limit_bytes > free.peak_bytes
        least_s = self._least_s(limit_bytes) if curve.phase in WHOLES else 0.0
        computed = self._computed(curve)
        if never_met and len(curve.unlimited_seconds) and not self._moved:
            return _made(curve, curve.unlimited_s, curve.unlimited_s), Source.BETWEEN
        if tighter and wider:
            sides = wider[0][1], tighter[0][1]
            if math.isinf(wider[0][0].limit_bytes) and self._needs and limit_bytes >= self._needs:
                return sides[0], Source.BETWEEN
            return self._between(curve, limit_bytes, sides, computed)
        if isinstance(computed, CannotPredictError):
            if not wider or math.isinf(wider[0][0].limit_bytes):
                return None
            # Tighter than all that finished: no faster than there.
            seen = wider[0][1]
            return _bound(curve, seen.unlimited_s, seen.seconds, least_s), Source.BETWEEN
        at = np.array([limit_bytes])
        seconds, ends = float(computed.seconds(at)[0]), computed.interval(at)
        if wider and wider[0][0].limit_bytes < math.inf:
            tightest = max(wider[0][1].seconds or 0.0, least_s)
            return _bound(curve, computed.unlimited_s, tightest, least_s), Source.BETWEEN
        if limit_bytes * SAME < computed.tightest_bytes:
            return _bound(curve, computed.unlimited_s, seconds, least_s), computed.source
        low, high = (float(end[0]) for end in ends)
        seconds = max(seconds, least_s)
        made = _made(curve, computed.unlimited_s, seconds, max(low, least_s), max(high, seconds))
        return made, computed.source

    def _between(
        self,
        curve: Curve,
        limit_bytes: float,
        sides: tuple[PhaseTime, PhaseTime],
        computed: ComputedPhase | CannotPredictError,
    ) -> tuple[PhaseTime, Source] | None:
        fast, slow = sides
        assert fast.slowdown is not None
        assert slow.slowdown is not None
        unlimited_s = fast.unlimited_s
        low = min(fast.slowdown_low or fast.slowdown, slow.slowdown_low or slow.slowdown)
        high = max(fast.slowdown_high or fast.slowdown, slow.slowdown_high or slow.slowdown)
        ends = sorted((fast.slowdown, slow.slowdown))
        at = np.array([limit_bytes])
        if ends[1] > _CLIFF * ends[0]:
            # Bytes tell where the cliff is; a layer table is not near enough.
            if isinstance(computed, CannotPredictError) or computed.source is Source.LAYER_TABLE:
                fast_s, slow_s = (end * unlimited_s for end in ends)
                return _made(curve, unlimited_s, None, fast_s, slow_s), Source.BETWEEN
            slowdown = float(computed.seconds(at)[0]) / computed.unlimited_s
            source = computed.source
        else:
            cubic = self._cubic(curve)
            if cubic is None:
                return None
            slowdown, source = float(cubic.predict(curve, at).slowdown[0]), Source.BETWEEN
        slowdown = max(min(max(slowdown, ends[0]), ends[1]), 1.0)
        low, high = min(low, slowdown), max(high, slowdown)
        numbers = (slowdown * unlimited_s, low * unlimited_s, high * unlimited_s)
        return _made(curve, unlimited_s, *numbers), source

    def _computed(self, curve: Curve) -> ComputedPhase | CannotPredictError:
        if curve.key not in self._phases:
            try:
                self._phases[curve.key] = self._compute(curve)
            except CannotPredictError as error:
                self._phases[curve.key] = error
        return self._phases[curve.key]

    def why_not(self) -> CannotPredictError | None:
        """Say why the round is not computed; None: it is."""
        found = [self._computed(curve) for curve in self._curves if curve.phase == "total"]
        return next((one for one in found if isinstance(one, CannotPredictError)), None)

    def _cubic(self, curve: Curve) -> Interpolated | None:
        from edgebench.slowdown.models.interpolated import Interpolated

        if curve.key not in self._cubics:
            try:
                self._cubics[curve.key] = Interpolated.of(curve)
            except CannotPredictError:
                self._cubics[curve.key] = None
        return self._cubics[curve.key]

    def _layers(self, limit_bytes: float) -> tuple[AddedLayerTime, ...]:
        """Share what a limit adds among the layers: by the bytes of each that are read again."""
        curve = next((one for one in self._curves if one.phase == "total"), None)
        computed = self._computed(curve) if curve else None
        if not curve or computed is None or isinstance(computed, CannotPredictError):
            return ()
        work = computed.round.workload
        added_s = float(computed.seconds(np.array([limit_bytes]))[0]) - computed.unlimited_s
        if added_s < _ADDED * computed.unlimited_s or not work.weight_bytes:
            return ()
        shares = [(one.weight_bytes / work.weight_bytes, n) for n, one in enumerate(work.layers)]
        return tuple(
            AddedLayerTime(curve.network, order, work.layers[order].name, share * added_s, share)
            for share, order in sorted(shares, key=lambda pair: (-pair[0], pair[1]))
            if share > 0
        )


def _made(
    curve: Curve,
    unlimited_s: float,
    seconds: float | None,
    low_s: float | None = None,
    high_s: float | None = None,
    *,
    at_least: bool = False,
) -> PhaseTime:
    return PhaseTime(
        network=curve.network,
        phase=curve.phase,
        seconds=seconds,
        low_s=low_s,
        high_s=high_s,
        slowdown=None if seconds is None else seconds / unlimited_s,
        slowdown_low=None if low_s is None else low_s / unlimited_s,
        slowdown_high=None if high_s is None else high_s / unlimited_s,
        unlimited_s=unlimited_s,
        at_least=at_least,
    )


def _bound(curve: Curve, unlimited_s: float, seconds: float | None, least_s: float) -> PhaseTime:
    return _made(curve, unlimited_s, max(seconds or 0.0, least_s), at_least=True)


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


def _distance(limit: MeasuredLimit, limit_bytes: float) -> float:
    return abs(math.log(limit.limit_bytes / limit_bytes))
