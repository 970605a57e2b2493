"""What every rung of the ladder is: fitted to a curve, it predicts slowdown at any limit.

A fit is plain data (the rung's name, parameters, covariance), so that it is stored as JSON and
used again without the trials. The rung is the code that makes and reads it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from edgebench.slowdown.data import Curve, FloatArray

#: Of the intervals that are reported.
LEVEL = 0.9


class TooFewLimitsError(Exception):
    """The curve has too few limits for this rung; the message says how many it needs."""


@dataclass(frozen=True)
class Parameter:
    """One fitted value with its 90 % interval; ``fixed`` if it was measured, not fitted."""

    name: str
    value: float
    unit: str = ""
    stderr: float | None = None
    low: float | None = None
    high: float | None = None
    fixed: bool = False


@dataclass(frozen=True)
class Fit:
    """A rung fitted to a curve.

    ``covariance`` is that of the parameters that are not fixed, in their order and in the units
    that the rung fits in (see there). ``residual`` is the standard deviation of the logarithms'
    residuals and ``free`` the degrees of freedom it rests on; both None if none were left.
    """

    rung: str
    parameters: tuple[Parameter, ...]
    covariance: tuple[tuple[float, ...], ...] | None = None
    residual: float | None = None
    free: int | None = None
    aic: float | None = None
    note: str | None = None

    def __getitem__(self, name: str) -> float:
        """A parameter's value."""
        return next(p.value for p in self.parameters if p.name == name)


class Rung(ABC):
    """One rung: a form of slowdown against limit."""

    #: Its name in files and tables.
    name: str
    #: The formula or rule, in one line.
    says: str

    @abstractmethod
    def fit(self, curve: Curve) -> Fit:
        """Fit to a curve.

        Raises:
            TooFewLimitsError: the curve has too few limits for this rung.
        """

    @abstractmethod
    def predict(self, fit: Fit, limit_bytes: FloatArray) -> FloatArray:
        """Slowdown at each limit, never below 1."""

    def interval(self, fit: Fit, limit_bytes: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        """Where 90 % of new trials should lie at each limit; None if the rung can't tell."""
        return None
