"""Fitted rungs of either kind, asked in one way: seconds of a curve at limits.

Of a workload that was run, the rung speaks that is nearest to its own limits left out; of one that
was not, the highest that can tell.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from edgebench.errors import ResultsError
from edgebench.slowdown.data import Curve, FloatArray
from edgebench.slowdown.knowledge import Knowledge
from edgebench.slowdown.ladder import LEAST_LIMITS, SET_RUNGS, climb
from edgebench.slowdown.model import CannotTellError, Context, Fit, Rung, SetRung
from edgebench.slowdown.splits import same_curve

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

    def left_out(self, curves: Sequence[Curve]) -> float:
        """How far it is from these curves' limits left out, by ratio; infinite if it can't tell."""


class SpeaksFor(Protocol):
    """What finds a voice for a workload."""

    def of(self, curves: Sequence[Curve], name: str) -> Voice:
        """The voice for a workload's curves; ``name`` is what it is called in an error.

        Raises:
            ResultsError: no rung can tell of all of them, with the reasons.
        """


class Voices:
    """All rungs, fitted to what is known."""

    def __init__(self, known: Knowledge) -> None:
        self._sets: list[SetVoice] = []
        self._why: list[str] = []
        for rung in reversed(SET_RUNGS):
            try:
                fit = rung.fit(known.curves, known.context)
            except CannotTellError as error:
                self._why.append(f"{rung.name}: {error}")
            else:
                self._sets.append(SetVoice(rung, fit, known.context))

    def of(self, curves: Sequence[Curve], name: str) -> Voice:
        """The nearest voice; of what was not run, the highest.

        Raises:
            ResultsError: none can tell, with the reasons.
        """
        why = list(self._why)
        voices: list[Voice] = [voice for voice in self._sets if voice.can_tell(curves, why)]
        if all(len(curve.limits) >= LEAST_LIMITS for curve in curves):
            return nearest([*voices, _own_voice(curves)], curves)
        if voices:
            return voices[0]
        reasons = "; ".join(dict.fromkeys(why))
        raise ResultsError(f"nothing tells of {name}: {reasons}", remedy=UNTOLD_REMEDY)


def nearest(voices: Sequence[Voice], curves: Sequence[Curve]) -> Voice:
    """The voice that is nearest to the curves' limits left out; the last, if none was judged."""
    return min(reversed(voices), key=lambda voice: voice.left_out(curves))


class SetVoice:
    """A rung fitted to many curves."""

    def __init__(self, rung: SetRung, fit: Fit, context: Context) -> None:
        self.rung = rung.name
        self._rung, self._fit, self._context = rung, fit, context

    def can_tell(self, curves: Sequence[Curve], why: list[str]) -> bool:
        """Whether it can tell of all these curves; if not, ``why`` is added to."""
        try:
            for curve in curves:
                self.tell(curve, curve.limit_bytes[:0])
        except CannotTellError as error:
            why.append(f"{self.rung}: {error}")
            return False
        return True

    def tell(self, curve: Curve, limit_bytes: FloatArray) -> Told:
        """What the rung says."""
        about = self._fit, curve, limit_bytes, self._context
        return Told(
            self._rung.unlimited_s(self._fit, curve, self._context),
            self._rung.predict(*about),
            self._rung.interval(*about),
        )

    def left_out(self, curves: Sequence[Curve]) -> float:
        """The mean over the curves."""
        errors = [self._rung.left_out(self._fit, curve) for curve in curves]
        known = [error for error in errors if error is not None]
        return float(np.mean(known)) if len(known) == len(errors) else math.inf


@dataclass(frozen=True)
class OwnFit:
    """A curve, a rung fitted to it alone, and its error at limits left out, if it was judged."""

    curve: Curve
    rung: Rung
    fit: Fit
    log_ratio: float | None


class OwnVoice:
    """The best rung of each curve by itself."""

    def __init__(self, fits: Sequence[OwnFit]) -> None:
        self._fits = fits
        self.rung = fits[-1].rung.name

    def tell(self, curve: Curve, limit_bytes: FloatArray) -> Told:
        """What the curve's own rung says."""
        own = self._of(curve)
        slowdown = own.rung.predict(own.fit, limit_bytes)
        return Told(curve.unlimited_s, slowdown, own.rung.interval(own.fit, limit_bytes))

    def left_out(self, curves: Sequence[Curve]) -> float:
        """The mean over the curves."""
        errors = [self._of(curve).log_ratio for curve in curves]
        known = [error for error in errors if error is not None]
        return float(np.mean(known)) if len(known) == len(errors) else math.inf

    def _of(self, curve: Curve) -> OwnFit:
        return next(own for own in self._fits if same_curve(curve, [own.curve]))


def _own_voice(curves: Sequence[Curve]) -> OwnVoice:
    fits = []
    for curve in curves:
        step = climb(curve).drawn
        assert step.fit is not None
        error = step.errors.log_ratio if step.errors else None
        fits.append(OwnFit(curve, step.rung, step.fit, error))
    return OwnVoice(fits)
