"""Fitted rungs of either kind, asked in one way: seconds of a curve at limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from edgebench.errors import ResultsError
from edgebench.slowdown.data import Curve, FloatArray
from edgebench.slowdown.knowledge import Knowledge
from edgebench.slowdown.ladder import LEAST_LIMITS, SET_RUNGS, climb
from edgebench.slowdown.model import CannotTellError, Context, Fit, SetRung

UNTOLD_REMEDY = "edgebench calibrate, and then some networks: edgebench run quickstart"


@dataclass(frozen=True)
class Told:
    """What a rung says of a curve: slowdown at each limit, and where 90 % of trials should lie."""

    unlimited_s: float
    slowdown: FloatArray
    band: tuple[FloatArray, FloatArray] | None


class Voice(Protocol):
    """A rung that can tell of a workload. ``rung`` is its name."""

    rung: str

    def tell(self, curve: Curve, limit_bytes: FloatArray) -> Told:
        """What it says of the curve at these limits.

        Raises:
            CannotTellError: it lacks something.
        """


class SpeaksFor(Protocol):
    """What finds a voice for a workload."""

    def of(self, curves: Sequence[Curve], name: str) -> Voice:
        """The voice for a workload's curves; ``name`` is what it is called in an error.

        Raises:
            ResultsError: no rung can tell of all of them, with the reasons.
        """


class Voices:
    """All rungs fitted to what is known; the highest that can tell speaks."""

    def __init__(self, known: Knowledge) -> None:
        self._fits: list[tuple[SetRung, Fit]] = []
        self._context = known.context
        self._why: list[str] = []
        for rung in reversed(SET_RUNGS):
            try:
                self._fits.append((rung, rung.fit(known.curves, known.context)))
            except CannotTellError as error:
                self._why.append(f"{rung.name}: {error}")

    def of(self, curves: Sequence[Curve], name: str) -> Voice:
        """The best rung of each curve itself; of what was not run, the highest that can tell.

        Raises:
            ResultsError: none can, with the reasons.
        """
        if all(len(curve.limits) >= LEAST_LIMITS for curve in curves):
            return _CurveVoice(curves)
        why = list(self._why)
        for rung, fit in self._fits:
            voice = _SetVoice(rung, fit, self._context)
            try:
                for curve in curves:
                    voice.tell(curve, curve.limit_bytes[:0])
            except CannotTellError as error:
                why.append(f"{rung.name}: {error}")
            else:
                return voice
        reasons = "; ".join(dict.fromkeys(why))
        raise ResultsError(f"nothing tells of {name}: {reasons}", remedy=UNTOLD_REMEDY)


class _SetVoice:
    """A rung fitted to many curves."""

    def __init__(self, rung: SetRung, fit: Fit, context: Context) -> None:
        self.rung = rung.name
        self._rung, self._fit, self._context = rung, fit, context

    def tell(self, curve: Curve, limit_bytes: FloatArray) -> Told:
        about = self._fit, curve, limit_bytes, self._context
        return Told(
            self._rung.unlimited_s(self._fit, curve, self._context),
            self._rung.predict(*about),
            self._rung.interval(*about),
        )


class _CurveVoice:
    """The best rung of each curve by itself: without a calibration nothing else is to be had."""

    def __init__(self, curves: Sequence[Curve]) -> None:
        self._steps = {id(curve): climb(curve).drawn for curve in curves}
        self.rung = self._steps[id(curves[-1])].rung.name

    def tell(self, curve: Curve, limit_bytes: FloatArray) -> Told:
        step = self._steps[id(curve)]
        assert step.fit is not None
        slowdown = step.rung.predict(step.fit, limit_bytes)
        return Told(curve.unlimited_s, slowdown, step.rung.interval(step.fit, limit_bytes))
