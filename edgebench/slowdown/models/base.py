"""What a model says of one curve, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from edgebench.slowdown.curves import Curve, FloatArray
from edgebench.slowdown.workload import CannotPredictError

#: Of the intervals that are reported.
LEVEL = 0.9
#: Version of the fits' files, and of the JSON that ``fit`` and ``predict`` print.
MODEL_SCHEMA = 5


class TooFewLimitsError(CannotPredictError):
    """The curves have too few limits for this model; the message has how many it needs."""


@dataclass(frozen=True)
class CurvePrediction:
    """A curve at some limits: slowdown, and the interval in which 90 % of new trials should lie.

    ``unlimited_s`` are the seconds that slowdown multiplies; ``interval`` is None if the model
    has none.
    """

    unlimited_s: float
    slowdown: FloatArray
    interval: tuple[FloatArray, FloatArray] | None = None


class CurveModel(Protocol):
    """What predicts a curve."""

    @property
    def name(self) -> str: ...  # noqa: D102

    def predict(self, curve: Curve, limit_bytes: FloatArray) -> CurvePrediction:
        """Slowdown at each limit, never below 1.

        Args:
            curve: what to predict; its network, phase, settings and unlimited times are used, its
                times below limits never.
            limit_bytes: the limits.

        Raises:
            CannotPredictError: something is not known of it that the model needs.
        """
