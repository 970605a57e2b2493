"""What the fit of a workload's slowdown says, in sentences, and how far it can be trusted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from edgebench.report.sentences import listed
from edgebench.units import format_size

if TYPE_CHECKING:
    from edgebench.slowdown.ladder import Climb, Step

#: Slowdowns whose limits are told.
_FACTORS = (1.1, 2.0, 10.0)
_STEPS = 400
#: A fit that misses limits left out by more is not asked about limits between those tried.
_TOO_FAR = 0.25


def fit_said(climb: Climb) -> list[str]:
    """The nearest model of one curve, its error, and at which limits it slows by how much.

    Only limits between those that were tried are told of.
    """
    step = climb.best
    if step is None or step.errors is None:
        return ["Too few limits were tried to say how far a fit is off."]
    limits = climb.curve.limits
    low, high = format_size(float(limits[0])), format_size(float(limits[-1]))
    said = [
        f"Between {low} and {high} the model “{step.rung.name}” is nearest: it misses limits that "
        f"it was not shown by {step.errors.mape:.0%} of their time on average."
    ]
    if step.errors.mape > _TOO_FAR:
        return [*said, "That is too far to say what lies between the limits tried: try more."]
    found = [f"×{factor:g} at {format_size(at)}" for factor, at in reached(climb, step)]
    return [*said, f"By it the slowdown passes {listed(found)}."] if found else said


def reached(climb: Climb, step: Step) -> list[tuple[float, float]]:
    """For each factor that the fit passes between the limits tried, the limit in bytes."""
    assert step.fit is not None
    limits = climb.curve.limits
    asked = np.geomspace(float(limits[0]), float(limits[-1]), _STEPS)
    slowdown = step.rung.predict(step.fit, asked)
    found = []
    for factor in _FACTORS:
        beyond = slowdown > factor
        # Slowdown never rises with memory, so the last limit beyond a factor is where it passes it.
        if beyond.any() and not beyond.all():
            found.append((factor, float(asked[beyond][-1])))
    return found
