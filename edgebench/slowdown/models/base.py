"""The interface of a model: fitted to curves, it predicts times at any limit.

A model is one module of this package that registers itself with :func:`registered_model`.
"""

from __future__ import annotations

import importlib
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property

from edgebench.slowdown import models as package
from edgebench.slowdown.context import CannotPredictError, Context
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


class Model(ABC):
    """A form of slowdown against limit."""

    #: Its name in files and tables.
    name: str
    #: The formula or rule, in one line.
    formula: str
    #: Its place among all models, the simplest first.
    rank: int
    #: Whether it is fitted to one curve alone, so that it can't predict networks without trials.
    per_curve: bool = False

    @abstractmethod
    def fit(self, curves: Sequence[Curve], context: Context) -> Fit:
        """Fit to curves of one device and one kind of swap (to exactly one if ``per_curve``).

        Raises:
            CannotPredictError: there are too few curves or limits, or the context lacks something.
        """

    @abstractmethod
    def predict(
        self, fit: Fit, curve: Curve, limit_bytes: FloatArray, context: Context
    ) -> CurvePrediction:
        """Slowdown at each limit, never below 1.

        Args:
            fit: what :meth:`fit` returned.
            curve: what to predict; its network, phase, settings and unlimited times are used, its
                times below limits never.
            limit_bytes: the limits.
            context: with the layer table of the curve's network.

        Raises:
            CannotPredictError: the context lacks something, or no unlimited time is known.
        """

    def measured_unlimited_s(self, curve: Curve) -> float:
        """The curve's measured unlimited seconds.

        Raises:
            CannotPredictError: it has none.
        """
        if len(curve.unlimited_seconds):
            return curve.unlimited_s
        raise CannotPredictError(f"{self.name} needs an unlimited trial of {curve.network}")


_REGISTERED: dict[str, Model] = {}


def registered_model(model: type[Model]) -> type[Model]:
    """Decorates a model's class: adds it to :func:`all_models`."""
    _REGISTERED[model.name] = model()
    return model


@cache
def all_models() -> tuple[Model, ...]:
    """Every model of this package, the simplest first."""
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    return tuple(sorted(_REGISTERED.values(), key=lambda model: model.rank))
