"""Every rung on every curve, always together, so that nobody is fooled by one number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeVar

import numpy as np

from edgebench.errors import ResultsError
from edgebench.slowdown.brouwer import Brouwer
from edgebench.slowdown.corrected import Corrected
from edgebench.slowdown.data import Curve
from edgebench.slowdown.hinge import Hinge
from edgebench.slowdown.interpolation import Interpolation
from edgebench.slowdown.model import (
    CannotTellError,
    Context,
    Fit,
    Rung,
    SetRung,
    TooFewLimitsError,
)
from edgebench.slowdown.physics import Physics
from edgebench.slowdown.pooled import Pooled
from edgebench.slowdown.splits import Question, folds, unseen
from edgebench.slowdown.unslowed import Unslowed
from edgebench.slowdown.validation import Errors, HeldOut, errors_of, leave_one_limit_out

#: The ladder, lowest rung first: of one curve each, then of many curves at once.
RUNGS: tuple[Rung, ...] = (Unslowed(), Interpolation(), Hinge())
SET_RUNGS: tuple[SetRung, ...] = (Pooled(), Brouwer(), Physics(), Corrected())
LEAST_LIMITS = 2
TOO_FEW_REMEDY = 'add limits to the scenario, as memory = {from = "100%", to = "25%", steps = 6}'


@dataclass(frozen=True)
class Judged:
    """A rung's errors on one curve, or why it has none."""

    fit: Fit | None
    held_out: tuple[HeldOut, ...] = ()
    reason: str | None = None

    @property
    def errors(self) -> Errors | None:
        """Leave-one-limit-out errors; None where there were too few limits to leave one out."""
        return errors_of(self.held_out) if self.held_out else None


@dataclass(frozen=True, kw_only=True)
class Step(Judged):
    """One rung on one curve."""

    rung: Rung


@dataclass(frozen=True, kw_only=True)
class SetStep(Judged):
    """One rung of sets on one of its curves; its fit is the same for all of them."""

    rung: SetRung


@dataclass(frozen=True)
class Climb:
    """All rungs on one curve: those of the curve alone, and those of sets."""

    curve: Curve
    steps: tuple[Step, ...]
    sets: tuple[SetStep, ...] = ()

    @property
    def every(self) -> tuple[Step | SetStep, ...]:
        """All rungs, lowest first."""
        return (*self.steps, *self.sets)

    @property
    def best(self) -> Step | None:
        """The rung of the curve alone that is nearest to limits left out; None if unjudged."""
        return nearest(self.steps)

    @property
    def recommended(self) -> Step | SetStep | None:
        """The nearest of all rungs; None if none could be judged."""
        return nearest(self.every)

    @property
    def drawn(self) -> Step:
        """What a figure draws: the best, else the highest rung that could be fitted."""
        return self.best or [step for step in self.steps if step.fit][-1]


_Any = TypeVar("_Any", bound=Judged)


def nearest(steps: Sequence[_Any]) -> _Any | None:
    """The step nearest to limits left out, by ratio; None if none could be judged."""
    judged = [(step.errors.log_ratio, step) for step in steps if step.errors]
    return min(judged, key=lambda pair: pair[0])[1] if judged else None


def together(climbs: Sequence[Climb]) -> dict[str, Errors]:
    """Each rung's errors over the left-out limits of all curves that every rung was judged on.

    A rung that could be judged on no curve is left out.
    """
    names = {step.rung.name: step for c in climbs for step in c.every if step.errors}
    shared = [
        c for c in climbs if set(names) <= {step.rung.name for step in c.every if step.errors}
    ]
    found = {
        name: [one for c in shared for s in c.every if s.rung.name == name for one in s.held_out]
        for name in names
    }
    return {name: errors_of(held) for name, held in found.items() if held}


def climb(curve: Curve, rungs: Sequence[Rung] = RUNGS) -> Climb:
    """Fit and judge every rung of one curve; of the same trials asked again, the same answer."""
    return Climb(curve, _steps(_Alike(curve), tuple(rungs)))


class _Alike:
    """A curve that equals any other of the same trials: a report asks for each more than once."""

    def __init__(self, curve: Curve) -> None:
        self.curve = curve
        times = (curve.limit_bytes, curve.seconds, curve.unlimited_seconds)
        trials = tuple(part.tobytes() for part in times)
        self._content = (curve.mark, *trials, curve.demand_bytes, str(curve.lost_bytes))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Alike) and self._content == other._content

    def __hash__(self) -> int:
        return hash(self._content)


@lru_cache(maxsize=1024)
def _steps(alike: _Alike, rungs: tuple[Rung, ...]) -> tuple[Step, ...]:
    return tuple(_step(alike.curve, rung) for rung in rungs)


def climb_all(
    curves: Sequence[Curve], where: str | None = None, context: Context | None = None
) -> tuple[list[Climb], list[str]]:
    """Climb every curve of two limits or more; the others are named in the second list.

    With a context the rungs of sets are climbed too, over all of these curves at once.

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
    climbs = [climb(curve) for curve in fit_for]
    for rung in SET_RUNGS if context else ():
        assert context is not None
        steps = _set_steps(fit_for, rung, context)
        climbs = [replace(c, sets=(*c.sets, steps[c.curve.mark])) for c in climbs]
    return climbs, skipped


def _set_steps(curves: Sequence[Curve], rung: SetRung, context: Context) -> dict[str, SetStep]:
    """One step a curve; each limit is left out of all curves of its workload at once."""
    try:
        fit = rung.fit(curves, context)
    except CannotTellError as error:
        return {curve.mark: SetStep(None, reason=str(error), rung=rung) for curve in curves}
    held: dict[str, list[HeldOut]] = {curve.mark: [] for curve in curves}
    reasons: dict[str, str] = {}
    for fold in folds(curves):
        if fold.asked and fold.asked[0].split.startswith("limit"):
            part = rung.fit(fold.known, context)
            for question in fold.asked:
                try:
                    held[question.curve.mark].append(_held_out(rung, part, question, context))
                except CannotTellError as error:
                    reasons[question.curve.mark] = str(error)
    return {
        mark: SetStep(fit if found else None, tuple(found), reasons.get(mark), rung=rung)
        for mark, found in held.items()
    }


def _held_out(rung: SetRung, fit: Fit, question: Question, context: Context) -> HeldOut:
    curve, limit = question.curve, question.limit_bytes
    asked = unseen(curve)
    slowdown = rung.predict(fit, asked, np.array([limit]), context)[0]
    return HeldOut(
        limit_bytes=limit,
        predicted_s=float(slowdown) * rung.unlimited_s(fit, asked, context),
        measured_s=float(np.median(curve.seconds[curve.limit_bytes == limit])),
        inside=question.split == "limit-inside",
    )


def _step(curve: Curve, rung: Rung) -> Step:
    try:
        fit = rung.fit(curve)
    except TooFewLimitsError as error:
        return Step(None, reason=str(error), rung=rung)
    try:
        return Step(fit, tuple(leave_one_limit_out(curve, rung)), rung=rung)
    except TooFewLimitsError:
        return Step(fit, reason="too few limits to leave one out", rung=rung)
