"""What a model of one curve says, and what it learnt, as data."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from edgebench.slowdown.context import CannotPredictError
from edgebench.slowdown.curves import Curve, FloatArray

#: Of the intervals that are reported.
LEVEL = 0.9
#: Version of the fits' files, and of the JSON that ``fit`` and ``predict`` print.
MODEL_SCHEMA = 4


class TooFewLimitsError(CannotPredictError):
    """The curves have too few limits for this model; the message has how many it needs."""


@dataclass(frozen=True)
class Parameter:
    """One value that was learnt; ``fixed`` if it was measured, not fitted."""

    name: str
    value: float
    unit: str = ""
    fixed: bool = False


@dataclass(frozen=True)
class Fit:
    """What a model learnt from curves, as plain data that is stored as JSON."""

    model: str
    parameters: tuple[Parameter, ...]

    def __getitem__(self, name: str) -> float:
        """A parameter's value."""
        return self._values[name]

    def get(self, name: str) -> float | None:
        """A parameter's value; None if there is no such parameter."""
        return self._values.get(name)

    def starting(self, start: str) -> list[tuple[str, float]]:
        """Rest of the name, and value, of each parameter whose name starts with ``start``."""
        return [
            (name.removeprefix(start), value)
            for name, value in self._values.items()
            if name.startswith(start)
        ]

    @cached_property
    def _values(self) -> dict[str, float]:
        return {parameter.name: parameter.value for parameter in self.parameters}


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
