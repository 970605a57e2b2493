"""One answer about a workload at a limit, with one source, decided in :meth:`WorkloadAnswers.at`.

- **measured**: trials ran at the limit. How they ended and how long they took is the answer.
- **between**: trials ran at tighter and wider limits: a curve through the medians, which rises with
  memory only where all repeats do. Where the two differ by a cliff, the answer is both sides, not a
  middle, unless the bytes are known.
- **counted, working set, layer table**: no trial tells, so both formulas do
  (:mod:`~edgebench.slowdown.computed`).

Below the tightest limit that finished, or whose bytes were counted, seconds are a lower bound. None
are fewer than what must be read takes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from edgebench.need import TOO_TIGHT
from edgebench.results.times import Ratio, Spread, spread_of
from edgebench.slowdown.curves import WHOLES, CannotPredictError, Curve, fit_curve
from edgebench.slowdown.seconds import Source
from edgebench.text import THROUGHPUT

if TYPE_CHECKING:
    from edgebench.results.results import Results
    from edgebench.slowdown.computed import ComputedPhase, Room

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

    Args:
        label: the limit as the scenario has it, as ``75%``; ``max`` without a limit.
        limit_bytes: as the kernel rounded it; infinite without a limit.
        finished, ended: trials that finished, and all whose end tells whether the limit is enough.
        lost: how most of the others ended; empty without any.
        times_s, ratios: of ``start``, ``total`` and ``throughput`` (seconds of one unit), if known.
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


#: By the name of a sweep and the id of a workload its measured limits, ascending.
Measured = Mapping[tuple[str, str], Sequence[MeasuredLimit]]


def measured_limits(results: Results) -> Measured:
    """Return what was measured of each workload, as ``show`` has it."""
    from edgebench.results.facts import point_facts

    found: dict[tuple[str, str], list[MeasuredLimit]] = {}
    for sweep in results.sweeps:
        for point in point_facts(sweep):
            limits = found.setdefault((sweep.name, point.key.id), [])
            size: float | None = point.limit_bytes
            size = point.limits.memory_bytes if size is None else size
            size = math.inf if point.limits.label == "max" else size
            ends = {outcome: n for outcome, n in point.outcomes.items() if outcome in _ENDS}
            if size is None or not ends:
                # No trial tells whether the limit is enough.
                continue
            lost = {outcome: n for outcome, n in ends.items() if outcome != "ok"}
            times = {phase: point.times_s[phase] for phase in WHOLES if phase in point.times_s}
            if (rate := point.throughput_per_s) and rate.low > 0:
                ends_s = 1 / rate.median, 1 / rate.high, 1 / rate.low
                times[THROUGHPUT] = Spread(*ends_s, rate.count)
            limits.append(
                MeasuredLimit(
                    label=point.limits.label,
                    limit_bytes=size,
                    finished=ends.get("ok", 0),
                    ended=sum(ends.values()),
                    lost=max(lost, key=lambda outcome: lost[outcome], default=""),
                    times_s=times,
                    ratios={k: point.ratios[k] for k in times if k in point.ratios},
                    peak_bytes=point.peak_bytes.high if point.peak_bytes else math.inf,
                )
            )
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

    @classmethod
    def of(
        cls,
        curve: Curve,
        unlimited_s: float,
        seconds: float | None,
        low_s: float | None = None,
        high_s: float | None = None,
        *,
        at_least: bool = False,
    ) -> PhaseTime:
        """Return the time of a curve's phase; slowdowns follow from the seconds."""
        times = seconds, low_s, high_s
        middle, low, high = (None if s is None else s / unlimited_s for s in times)
        names = curve.network, curve.phase
        return cls(*names, *times, middle, low, high, unlimited_s, at_least)


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
        moved: bool = False,
    ) -> None:
        """Ask for answers with :meth:`at`.

        Args:
            curves: the workload's, a phase each.
            measured: its measured limits, ascending.
            needs_bytes: what it needs; None if unknown.
            room: what has to fit, and the swap; None if one is unknown.
            compute: returns what the formulas say of a curve, or raises CannotPredictError.
            moved: whether another storage is asked about: then trials tell of kills alone.
        """
        self._curves, self._needs, self._room, self._moved = curves, needs_bytes, room, moved
        self._measured = measured
        self._limited = [one for one in measured if one.limit_bytes < math.inf]
        self._computed: dict[tuple[str, str], ComputedPhase | CannotPredictError] = {}
        for curve in curves:
            try:
                self._computed[curve.network, curve.phase] = compute(curve)
            except CannotPredictError as error:
                self._computed[curve.network, curve.phase] = error

    def at(self, limit_bytes: float, label: str = "") -> Answer:
        """Return the answer at a limit; ``label`` is how it was asked for, as ``75%``."""
        share = limit_bytes / self._needs if self._needs else None

        def distance(measured: MeasuredLimit) -> float:
            return abs(math.log(measured.limit_bytes / limit_bytes))

        known = [one for one in self._limited if one.label == label]
        known = known or [one for one in self._limited if distance(one) <= math.log(SAME)]
        here = min(known, key=distance, default=None)
        outcome = self._outcome(here, limit_bytes)
        if here and not (self._moved and here.finished):
            measured = [_measured_time(curve, here) for curve in self._curves if here.finished]
            return Answer(
                source=Source.MEASURED,
                limit_bytes=here.limit_bytes,
                share=share,
                outcome=outcome,
                finished=here.finished,
                ended=here.ended,
                phases=tuple(filter(None, measured)),
            )
        found = []
        if outcome in ("ok", None):
            found = [time for curve in self._curves if (time := self._time(curve, limit_bytes))]
        sizes = [one.limit_bytes for one in self._limited]
        finished = [one.limit_bytes for one in self._limited if one.finished]
        if found:
            source = found[-1][1]
        else:
            tells = sizes and (sizes[0] < limit_bytes or outcome != "ok")
            source = Source.BETWEEN if tells else Source.LAYER_TABLE
        return Answer(
            source=source,
            limit_bytes=limit_bytes,
            share=share,
            outcome=outcome,
            phases=tuple(time for time, _ in found),
            layers=self._layers(limit_bytes) if found else (),
            tighter_bytes=max((size for size in finished if size < limit_bytes), default=None),
            wider_bytes=min((size for size in finished if size > limit_bytes), default=None),
        )

    def why_not(self) -> CannotPredictError | None:
        """Say why the round is not computed; None: it is."""
        found = (one for (_, phase), one in self._computed.items() if phase == "total")
        return next((one for one in found if isinstance(one, CannotPredictError)), None)

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

    def _time(self, curve: Curve, limit_bytes: float) -> tuple[PhaseTime, Source] | None:
        """Return a phase's time at a limit that was not measured; None: nothing tells it."""
        measured = [] if self._moved else self._measured
        known = [
            (one, time) for one in measured if one.finished and (time := _measured_time(curve, one))
        ]
        slow = next((time for one, time in reversed(known) if one.limit_bytes < limit_bytes), None)
        wider, fast = next((p for p in known if p[0].limit_bytes > limit_bytes), (None, None))
        free = next((one for one in measured if one.limit_bytes == math.inf), None)
        if free and limit_bytes > free.peak_bytes and len(curve.unlimited_seconds):
            # A limit that is never met slows nothing.
            return PhaseTime.of(curve, curve.unlimited_s, curve.unlimited_s), Source.BETWEEN
        computed = self._computed[curve.network, curve.phase]
        if slow and wider and fast:
            if wider is free and self._needs and limit_bytes >= self._needs:
                return fast, Source.BETWEEN
            return _between(curve, limit_bytes, fast, slow, computed)
        if fast and wider is not free:
            # Tighter than all that finished: no faster than there.
            free_s = fast.unlimited_s
            if not isinstance(computed, CannotPredictError):
                free_s = computed.round.unlimited_s
            return PhaseTime.of(curve, free_s, fast.seconds, at_least=True), Source.BETWEEN
        if isinstance(computed, CannotPredictError):
            return None
        at, free_s = np.array([limit_bytes]), computed.round.unlimited_s
        seconds = float(computed.seconds(at)[0])
        if limit_bytes * SAME < computed.tightest_bytes:
            return PhaseTime.of(curve, free_s, seconds, at_least=True), computed.source
        low, high = (float(end[0]) for end in computed.interval(at))
        return PhaseTime.of(curve, free_s, seconds, low, max(high, seconds)), computed.source

    def _layers(self, limit_bytes: float) -> tuple[AddedLayerTime, ...]:
        curve = next((one for one in self._curves if one.phase == "total"), None)
        computed = self._computed[curve.network, curve.phase] if curve else None
        if not curve or computed is None or isinstance(computed, CannotPredictError):
            return ()
        work, free_s = computed.round.workload, computed.round.unlimited_s
        added_s = float(computed.seconds(np.array([limit_bytes]))[0]) - free_s
        if added_s < _ADDED * free_s or not work.weight_bytes:
            return ()
        shares = [(one.weight_bytes / work.weight_bytes, n) for n, one in enumerate(work.layers)]
        return tuple(
            AddedLayerTime(curve.network, order, work.layers[order].name, share * added_s, share)
            for share, order in sorted(shares, key=lambda pair: (-pair[0], pair[1]))
            if share > 0
        )


def _between(
    curve: Curve,
    limit_bytes: float,
    fast: PhaseTime,
    slow: PhaseTime,
    computed: ComputedPhase | CannotPredictError,
) -> tuple[PhaseTime, Source] | None:
    """Return the time between two measured limits, the wider of which is the fast one."""
    assert fast.slowdown is not None
    assert slow.slowdown is not None
    free_s, at = fast.unlimited_s, np.array([limit_bytes])
    low, high = sorted((fast.slowdown, slow.slowdown))
    source = Source.BETWEEN
    if high <= _CLIFF * low:
        try:
            slowdown = float(fit_curve(curve).slowdown(at)[0])
        except CannotPredictError:
            return None
    elif isinstance(computed, CannotPredictError) or computed.source is Source.LAYER_TABLE:
        # Bytes tell where the cliff is; a layer table is not near enough.
        return PhaseTime.of(curve, free_s, None, low * free_s, high * free_s), source
    else:
        source = computed.source
        slowdown = float(computed.seconds(at)[0]) / computed.round.unlimited_s
    slowdown = max(min(max(slowdown, low), high), 1.0)
    ends = [time.slowdown_low or time.slowdown or 1.0 for time in (fast, slow)]
    ends += [time.slowdown_high or time.slowdown or 1.0 for time in (fast, slow)]
    times = (free_s * n for n in (slowdown, min(slowdown, *ends), max(slowdown, *ends)))
    return PhaseTime.of(curve, free_s, *times), source


def _measured_time(curve: Curve, limit: MeasuredLimit) -> PhaseTime | None:
    """Return a phase as it was measured at a limit; None where no trial tells."""
    if not len(curve.unlimited_seconds):
        return None
    if limit.limit_bytes == math.inf:
        repeats = curve.unlimited_seconds
    else:
        off = abs(np.log(curve.limit_bytes / limit.limit_bytes))
        repeats = curve.seconds[off <= math.log(SAME)]
    spread = limit.times_s.get(curve.phase) or spread_of(repeats.tolist())
    if spread is None:
        return None
    free_s = curve.unlimited_s
    ratio = limit.ratios.get(curve.phase) or Ratio(spread.median / free_s)
    low_s, high_s = (spread.low, spread.high) if spread.count > 1 else (None, None)
    time = PhaseTime.of(curve, free_s, spread.median, low_s, high_s)
    if ratio.low is None or ratio.high is None:
        return replace(time, slowdown=ratio.median)
    return replace(time, slowdown=ratio.median, slowdown_low=ratio.low, slowdown_high=ratio.high)
