"""Every rung on every curve, always together, so that nobody is fooled by one number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgebench.errors import ResultsError
from edgebench.slowdown.brouwer import Brouwer
from edgebench.slowdown.corrected import Corrected
from edgebench.slowdown.data import Curve
from edgebench.slowdown.hinge import Hinge
from edgebench.slowdown.interpolation import Interpolation
from edgebench.slowdown.model import Fit, Rung, SetRung, TooFewLimitsError
from edgebench.slowdown.physics import Physics
from edgebench.slowdown.unslowed import Unslowed
from edgebench.slowdown.validation import Errors, HeldOut, errors_of, leave_one_limit_out

#: The ladder, lowest rung first: of one curve each, then of many curves at once.
RUNGS: tuple[Rung, ...] = (Unslowed(), Interpolation(), Hinge())
SET_RUNGS: tuple[SetRung, ...] = (Brouwer(), Physics(), Corrected())
LEAST_LIMITS = 2
TOO_FEW_REMEDY = 'add limits to the scenario, as memory = {from = "100%", to = "25%", steps = 6}'


@dataclass(frozen=True)
class Step:
    """One rung on one curve: its fit and its errors, or why it has none."""

    rung: Rung
    fit: Fit | None
    held_out: tuple[HeldOut, ...] = ()
    reason: str | None = None

    @property
    def errors(self) -> Errors | None:
        """Leave-one-limit-out errors; None where there were too few limits to leave one out."""
        return errors_of(self.held_out) if self.held_out else None


@dataclass(frozen=True)
class Climb:
    """All rungs on one curve."""

    curve: Curve
    steps: tuple[Step, ...]

    @property
    def best(self) -> Step | None:
        """The step nearest to limits left out, by ratio; None if none could be judged."""
        judged = [(step.errors.log_ratio, step) for step in self.steps if step.errors]
        return min(judged, key=lambda pair: pair[0])[1] if judged else None

    @property
    def drawn(self) -> Step:
        """What a figure draws: the best, else the highest rung that could be fitted."""
        return self.best or [step for step in self.steps if step.fit][-1]


def climb(curve: Curve, rungs: Sequence[Rung] = RUNGS) -> Climb:
    """Fit and judge every rung on a curve."""
    return Climb(curve, tuple(_step(curve, rung) for rung in rungs))


def climb_all(curves: Sequence[Curve], where: str | None = None) -> tuple[list[Climb], list[str]]:
    """Climb every curve of two limits or more; the others are named in the second list.

    Raises:
        ResultsError: no curve has two limits.
    """
    fit_for = [curve for curve in curves if len(curve.limits) >= LEAST_LIMITS]
    left = [c for c in curves if len(c.limits) < LEAST_LIMITS]
    if not fit_for:
        raise ResultsError(
            f"too few limits: a fit needs {LEAST_LIMITS} at which a trial finished, "
            "beside the unlimited ones",
            where=where,
            remedy=TOO_FEW_REMEDY,
        )
    skipped = [f"{c.label}: only one limit at which a trial finished; not fitted" for c in left]
    return [climb(curve) for curve in fit_for], skipped


def _step(curve: Curve, rung: Rung) -> Step:
    try:
        fit = rung.fit(curve)
    except TooFewLimitsError as error:
        return Step(rung, None, reason=str(error))
    try:
        return Step(rung, fit, tuple(leave_one_limit_out(curve, rung)))
    except TooFewLimitsError:
        return Step(rung, fit, reason="too few limits to leave one out")
