"""Sentences of a report: what the model of a workload's slowdown predicts, and its error."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from edgebench.text import joined_words
from edgebench.units import format_size

if TYPE_CHECKING:
    from edgebench.slowdown.models.fitting import CurveFits, ModelFit

#: Slowdowns whose limits are reported.
_FACTORS = (1.1, 2.0, 10.0)
_STEPS = 400
#: With a larger mean error no limit is named at which the slowdown passes a factor.
_TOO_FAR = 0.25


def model_sentences(fits: CurveFits) -> list[str]:
    """What interpolates one curve, its error, and the limits where its slowdown passes a factor.

    Only limits between those that were tried count. Models of the device, which ``edgebench fit``
    and ``predict`` have too, are not fitted for it: that takes minutes for a large sweep.
    """
    best = fits.best
    if best is None or best.errors is None:
        return ["Too few limits were tried to estimate the error of a model."]
    limits = fits.curve.limits
    low, high = format_size(float(limits[0])), format_size(float(limits[-1]))
    said = [
        f"Between {low} and {high} the model “{best.model}” interpolates: it misses the time "
        f"at a limit left out of its fit by {best.errors.mape:.0%} on average."
    ]
    if best.errors.mape > _TOO_FAR:
        return said
    # A slowdown smaller than the error may be none.
    known = [(f, at) for f, at in _slowdown_limits(fits, best) if f > 1 + best.errors.mape]
    found = [f"{factor:g} at about {format_size(at)}" for factor, at in known]
    return [*said, f"Its slowdown passes {joined_words(found)}."] if found else said


def best_model_sentence(name: str, log_ratio: float) -> str:
    """Which model predicts best in all curves together; ``log_ratio``: its mean error."""
    factor = f"{math.exp(log_ratio):.2f}×"
    return (
        f"At limits left out of the fit the model {name} predicts best: off by {factor} on average."
    )


def _slowdown_limits(fits: CurveFits, found: ModelFit) -> list[tuple[float, float]]:
    """For each factor that the fit passes between the limits tried, the limit in bytes."""
    assert found.fitted is not None
    limits = fits.curve.limits
    asked = np.geomspace(float(limits[0]), float(limits[-1]), _STEPS)
    slowdown = found.fitted.predict(fits.curve, asked).slowdown
    passed = []
    for factor in _FACTORS:
        beyond = slowdown > factor
        # Slowdown never rises with memory, so the last limit beyond a factor is where it passes it.
        if beyond.any() and not beyond.all():
            passed.append((factor, float(asked[beyond][-1])))
    return passed
