"""What happens at limits that nobody ran: time, slowdown, viability, which layers are to blame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgebench.errors import UsageError
from edgebench.slowdown.asking import Subject
from edgebench.slowdown.blamed import LayerCost, layer_costs
from edgebench.slowdown.data import Curve, FloatArray
from edgebench.slowdown.knowledge import Knowledge
from edgebench.slowdown.model import CannotTellError
from edgebench.slowdown.profile import demand_bytes, device_for, workload_for
from edgebench.slowdown.viability import CONFIDENT, Viability, mapped_bytes
from edgebench.slowdown.voices import SpeaksFor, Told, Voice, Voices
from edgebench.units import parse_share, parse_size

#: A round that is slower by no more than this is not slowed.
UNSLOWED = 1.1
#: What so much more memory buys is told.
MORE = 1.1
#: Where the least limit within a slowdown is looked for, as shares of demand.
_SEARCHED = np.geomspace(0.1, 1.5, 200)
#: How far beyond the limits of trials a limit may be before it counts as extrapolated.
_SLACK = 1.005


@dataclass(frozen=True)
class PhaseTime:
    """One phase at one limit, in seconds a pass; ``low_s`` to ``high_s`` holds 90 % of trials.

    ``saved_s`` is what a tenth more memory saves.
    """

    network: str
    phase: str
    seconds: float
    low_s: float | None
    high_s: float | None
    slowdown: float
    unlimited_s: float
    saved_s: float


@dataclass(frozen=True)
class AtLimit:
    """One limit: whether a trial finishes there, and how long each phase then takes.

    ``probability`` is that it finishes; None where nothing tells. ``extrapolated``: no trial that
    the model knows was at such a share of demand, or tighter and wider ones.
    """

    limit_bytes: float
    share: float | None
    probability: float | None
    extrapolated: bool
    phases: tuple[PhaseTime, ...]
    layers: tuple[LayerCost, ...]

    @property
    def viable(self) -> bool:
        """Whether it should finish, for all that is known."""
        return self.probability is None or self.probability >= 0.5


@dataclass(frozen=True)
class Prediction:
    """All that is predicted of a workload.

    Attributes:
        subject: which.
        rung: the model that tells times.
        demand_bytes: measured, or simulated if it was never run unlimited; None if nothing tells.
        least_viable_bytes: the limit at which every second trial finishes, ``sure_bytes`` nine of
            ten. 0 where swap can take all; None if nothing tells.
        unslowed_bytes: the least limit at which a round is hardly slowed (10 %).
        fitted: shares of demand between which trials are known; None without any.
        at: the limits asked for.
    """

    subject: Subject
    rung: str
    demand_bytes: float | None
    least_viable_bytes: float | None
    sure_bytes: float | None
    unslowed_bytes: float | None
    fitted: tuple[float, float] | None
    at: tuple[AtLimit, ...]


class Predictor:
    """Fitted once to what is known, asked as often as you like."""

    def __init__(
        self, known: Knowledge, viability: Viability, voices: SpeaksFor | None = None
    ) -> None:
        """``voices`` are fits that were stored; None fits all rungs to what is known."""
        self._known = known
        self._viability = viability
        self._voices = voices or Voices(known)

    def predict(self, subject: Subject, limits: Sequence[str]) -> Prediction:
        """What happens at these limits, written as ``200M`` or ``75%``.

        Raises:
            ResultsError: no model can tell.
            UsageError: a share of a demand that nothing tells, or no limit at all.
        """
        voice = self._voices.of(subject.curves, subject.network)
        demand = self._demand(subject)
        edge = self._edge(subject, demand, subject.settings.get("swap_bytes"))
        fitted = self._fitted(subject)
        viable = edge.least_bytes(0.5) if edge else None
        unslowed = self._least_within(voice, subject, UNSLOWED)
        return Prediction(
            subject=subject,
            rung=voice.rung,
            demand_bytes=demand,
            least_viable_bytes=viable,
            sure_bytes=edge.least_bytes(CONFIDENT) if edge else None,
            # What is killed is not fast.
            unslowed_bytes=None if unslowed is None else max(unslowed, viable or 0),
            fitted=fitted,
            at=tuple(
                AtLimit(
                    limit_bytes=size,
                    share=size / demand if demand else None,
                    probability=edge.probability(size) if edge else None,
                    extrapolated=_is_outside(size, demand, fitted),
                    phases=tuple(_phase_time(voice, curve, size) for curve in subject.curves),
                    layers=self._layers(subject, size),
                )
                for size in (_bytes(limit, demand) for limit in limits)
            ),
        )

    def tell(self, subject: Subject, limit_bytes: FloatArray) -> list[Told]:
        """What is said of each of the subject's curves at these limits.

        Raises:
            ResultsError: no model can tell.
        """
        voice = self._voices.of(subject.curves, subject.network)
        return [voice.tell(curve, limit_bytes) for curve in subject.curves]

    def least_within(self, subject: Subject, slowdown: float, phase: str) -> float | None:
        """The least limit at which a phase is slower by no more than a factor, in bytes.

        Raises:
            ResultsError: no model can tell.
        """
        voice = self._voices.of(subject.curves, subject.network)
        return self._least_within(voice, subject, slowdown, phase)

    def least_viable(self, subject: Subject, swap_bytes: float | None) -> float | None:
        """The limit at which every second trial finishes with so much swap (0 if swap takes all).

        None if nothing tells.
        """
        edge = self._edge(subject, self._demand(subject), swap_bytes)
        return edge.least_bytes(0.5) if edge else None

    def _least_within(
        self, voice: Voice, subject: Subject, slowdown: float, phase: str = "total"
    ) -> float | None:
        demand = self._demand(subject)
        curve = next((c for c in subject.curves if c.phase == phase), None)
        if demand is None or curve is None:
            return None
        limits = _SEARCHED * demand
        enough = limits[voice.tell(curve, limits).slowdown <= slowdown]
        return float(enough[0]) if len(enough) else None

    def _demand(self, subject: Subject) -> float | None:
        known = [c.demand_bytes for c in subject.curves if c.demand_bytes is not None]
        if known:
            return known[0]
        curve, context = subject.curves[0], self._known.context
        try:
            return demand_bytes(workload_for(curve, context), device_for(curve, context))
        except CannotTellError:
            return None

    def _edge(
        self, subject: Subject, demand: float | None, swap_bytes: float | None
    ) -> _Edge | None:
        """Where it ceases to finish; None if its swap has no bound that is known."""
        settings, tables = subject.settings, self._known.context.tables
        swap = 0.0 if self._known.swap_kind == "none" else swap_bytes
        if swap is None or demand is None:
            return None
        mapped = 0.0
        if settings.get("loader") == "mmap":
            mapped = mapped_bytes(tables, subject.network, str(settings.get("schedule")))
        return _Edge(self._viability, float(swap), demand - mapped)

    def _fitted(self, subject: Subject) -> tuple[float, float] | None:
        """Shares of demand between which trials were made: the subject's own, else all."""
        curves = subject.curves if subject.was_run else self._known.curves
        shares = [float(m) / c.demand_bytes for c in curves if c.demand_bytes for m in c.limits]
        return (min(shares), max(shares)) if shares else None

    def _layers(self, subject: Subject, limit_bytes: float) -> tuple[LayerCost, ...]:
        curve, context = subject.curves[0], self._known.context
        try:
            workload, device = workload_for(curve, context), device_for(curve, context)
        except CannotTellError:
            return ()
        return tuple(layer_costs(workload, device, limit_bytes))


@dataclass(frozen=True)
class _Edge:
    """What was learnt of viability, for one workload's need and swap."""

    viability: Viability
    swap_bytes: float
    need_bytes: float

    def least_bytes(self, probability: float) -> float:
        return self.viability.least_bytes(self.swap_bytes, self.need_bytes, probability)

    def probability(self, limit_bytes: float) -> float:
        return self.viability.probability(limit_bytes, self.swap_bytes, self.need_bytes)


def _phase_time(voice: Voice, curve: Curve, limit_bytes: float) -> PhaseTime:
    told = voice.tell(curve, np.array([limit_bytes, limit_bytes * MORE]))
    here, wider = told.slowdown * told.unlimited_s
    band = told.band
    return PhaseTime(
        network=curve.network,
        phase=curve.phase,
        seconds=float(here),
        low_s=float(band[0][0]) * told.unlimited_s if band else None,
        high_s=float(band[1][0]) * told.unlimited_s if band else None,
        slowdown=float(told.slowdown[0]),
        unlimited_s=told.unlimited_s,
        saved_s=float(here - wider),
    )


def _bytes(limit: str, demand: float | None) -> float:
    share = parse_share(limit)
    size = parse_size(limit) if share is None else None
    if share is not None and demand is not None:
        return share * demand
    if size is not None:
        return float(size)
    remedy = "write the limit as a size, as 200M"
    if share is None:
        raise UsageError(f"{limit!r} is no limit", remedy=remedy)
    raise UsageError(f"{limit} of a demand that nothing tells", remedy=remedy)


def _is_outside(
    limit_bytes: float, demand: float | None, fitted: tuple[float, float] | None
) -> bool:
    if demand is None or fitted is None:
        return True
    share = limit_bytes / demand
    # Above the demand nothing happens that trials must show.
    return share < fitted[0] / _SLACK or fitted[1] * _SLACK < share < 1
