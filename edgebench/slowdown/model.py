"""What every rung of the ladder is: fitted to a curve, it predicts slowdown at any limit.

A fit is plain data (the rung's name, parameters, covariance), so that it is stored as JSON and
used again without the trials. The rung is the code that makes and reads it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from edgebench.slowdown.data import Curve, FloatArray

if TYPE_CHECKING:
    from edgebench.slowdown.calibration.device import Calibration

#: Of the intervals that are reported.
LEVEL = 0.9
_Made = TypeVar("_Made")


class CannotTellError(Exception):
    """The rung can say nothing here; the message says what it lacks."""


class TooFewLimitsError(CannotTellError):
    """The curve has too few limits for this rung; the message says how many it needs."""


@dataclass(frozen=True)
class Context:
    """What is known beside trials below a limit.

    ``tables`` holds each network's layer table, as rows of ``networks.json``; ``calibration`` the
    constants of the curves' device with their kind of swap, None if it was never calibrated.
    """

    tables: Mapping[str, Sequence[Mapping[str, Any]]]
    calibration: Calibration | None = None
    _made: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def once(self, key: Hashable, make: Callable[[], _Made]) -> _Made:
        """What follows from tables and constants alone: made when first asked for by its key."""
        if key not in self._made:
            self._made[key] = make()
        made: _Made = self._made[key]
        return made


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
        return self._values[name]

    def get(self, name: str) -> float | None:
        """A parameter's value; None if there is no such parameter."""
        return self._values.get(name)

    def starting(self, start: str) -> list[tuple[str, float]]:
        """What follows ``start`` in the parameters' names that begin so, and their values."""
        at, found = bisect_left(self._sorted, start), []
        while at < len(self._sorted) and self._sorted[at].startswith(start):
            name = self._sorted[at]
            found.append((name.removeprefix(start), self._values[name]))
            at += 1
        return found

    @cached_property
    def _sorted(self) -> list[str]:
        return sorted(self._values)

    @cached_property
    def _values(self) -> dict[str, float]:
        # Fits to many curves have hundreds of parameters, and are asked for each limit.
        return {parameter.name: parameter.value for parameter in self.parameters}


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


class SetRung(ABC):
    """A rung fitted to many curves at once: it also predicts for networks that it never saw."""

    #: Its name in files and tables.
    name: str
    #: The formula or rule, in one line.
    says: str

    @abstractmethod
    def fit(self, curves: Sequence[Curve], context: Context) -> Fit:
        """Fit to curves of one device and one kind of swap; no curve at all is allowed.

        Raises:
            CannotTellError: there are too few curves, or the context lacks what the rung needs.
        """

    @abstractmethod
    def predict(
        self, fit: Fit, asked: Curve, limit_bytes: FloatArray, context: Context
    ) -> FloatArray:
        """Slowdown at each limit, never below 1 nor rising with the limit.

        Args:
            fit: what :meth:`fit` gave.
            asked: whose slowdown; its network, phase, settings and unlimited times are used, its
                times below limits never.
            limit_bytes: the limits.
            context: with the table of ``asked``'s network.

        Raises:
            CannotTellError: the context lacks what the rung needs.
        """

    def interval(
        self, fit: Fit, asked: Curve, limit_bytes: FloatArray, context: Context
    ) -> tuple[FloatArray, FloatArray] | None:
        """Where 90 % of new trials should lie at each limit; None if the rung can't tell."""
        return None

    def left_out(self, fit: Fit, asked: Curve) -> float | None:
        """Mean |ln(predicted / measured)| over ``asked``'s own limits, each left out in turn.

        None if the curve was not fitted, or the rung can't tell.
        """
        return None

    def unlimited_s(self, fit: Fit, asked: Curve, context: Context) -> float:
        """The unlimited seconds of ``asked``: measured if it has them, else predicted.

        Raises:
            CannotTellError: neither.
        """
        if len(asked.unlimited_seconds):
            return asked.unlimited_s
        raise CannotTellError(f"{self.name} needs an unlimited trial of {asked.network}")
