"""The rung ``physics``: the simulator at the device's constants, with no fitting on networks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from edgebench.slowdown import conformal
from edgebench.slowdown.calibration.device import Calibration, Constant
from edgebench.slowdown.cpu import Rates, learnt, predicted_s
from edgebench.slowdown.data import Curve, FloatArray
from edgebench.slowdown.landscape import Landscape
from edgebench.slowdown.model import (
    LEVEL,
    CannotTellError,
    Context,
    Fit,
    Parameter,
    SetRung,
)
from edgebench.slowdown.profile import inference_for, physical
from edgebench.slowdown.splits import workload_network
from edgebench.slowdown.tables import Workload

#: The calibration's constants that a prediction rests on.
CONSTANTS = (
    *("swap_in_bytes_per_s", "swap_out_bytes_per_s", "file_fault_bytes_per_s", "fault_s"),
    *("pages_per_fault", "file_pages_per_fault", "lru_share", "base_bytes", "hot_base_bytes"),
)
#: A workload of one network, a phase, and its unlimited seconds a pass.
Time = tuple[Workload, str, float]
#: How far new trials may be from a prediction of a network that was not known.
REACH = "reach"
_RATES = ("file_s", "load_byte_s", "call_s", "flop_s", "byte_s")


class Physics(SetRung):
    """S(M) = (T_cpu + T_io(M)) / T_cpu, from layer table, schedule, loader and calibration.

    Curves given to :meth:`fit` move no prediction: their errors make the interval, and their
    unlimited times the rates by which an unlimited time that is not known is predicted.
    """

    name = "physics"
    says = "S = 1 + T_io/T_cpu: missed bytes by reuse distance, at calibrated rates"

    def fit(self, curves: Sequence[Curve], context: Context) -> Fit:
        """The constants, the rates and the reach of errors."""
        if context.calibration is None:
            raise CannotTellError("the device is not calibrated: edgebench calibrate")
        constants = _constants(context.calibration)
        rates = rate_parameters(learnt([time for _, time in times_in(curves, context)]))
        found = Fit(self.name, (*constants, *rates))
        reach = reach_over(curves, lambda curve: self._landscape(found, curve, context))
        return Fit(self.name, (*found.parameters, *reach))

    def predict(
        self, fit: Fit, asked: Curve, limit_bytes: FloatArray, context: Context
    ) -> FloatArray:
        """The simulator's slowdown."""
        return self._landscape(fit, asked, context).at(limit_bytes)

    def interval(
        self, fit: Fit, asked: Curve, limit_bytes: FloatArray, context: Context
    ) -> tuple[FloatArray, FloatArray] | None:
        """A conformal band of the errors on the curves that were given; None without any."""
        return within(fit.get(REACH), self._landscape(fit, asked, context), limit_bytes)

    def unlimited_s(self, fit: Fit, asked: Curve, context: Context) -> float:
        """Measured, else from the rates that other networks' unlimited times show."""
        return unlimited_s(fit, asked, context)

    def _landscape(self, fit: Fit, asked: Curve, context: Context) -> Landscape:
        return physical(asked, unlimited_s(fit, asked, context), context)


def _constants(calibration: Calibration) -> tuple[Parameter, ...]:
    found = ((name, getattr(calibration, name)) for name in CONSTANTS)
    return tuple(_constant(name, constant) for name, constant in found if constant)


def _constant(name: str, found: Constant) -> Parameter:
    return Parameter(name, found.value, found.unit, low=found.low, high=found.high, fixed=True)


def times_in(curves: Iterable[Curve], context: Context) -> list[tuple[str, Time]]:
    """What rates are learnt from: unlimited times of networks run alone, and which networks."""
    known = []
    for curve in curves:
        if curve.phase in ("load", "first", "execute") and len(curve.unlimited_seconds):
            try:
                work = inference_for(curve, context)
            except CannotTellError:
                continue
            if len(work.networks) == 1 and work.loader == "copy":
                known.append((work.networks[0], (work, curve.phase, curve.unlimited_s)))
    return known


def rate_parameters(rates: Rates | None) -> tuple[Parameter, ...]:
    """Rates as a fit keeps them; none of none."""
    if rates is None:
        return ()
    return tuple(Parameter(f"cpu.{name}", getattr(rates, name), "s") for name in _RATES)


def rates_in(fit: Fit) -> Rates | None:
    """The rates that a fit keeps; None if it has none."""
    values = [fit.get(f"cpu.{name}") for name in _RATES]
    known = [value for value in values if value is not None]
    return Rates(*known) if len(known) == len(_RATES) else None


def unlimited_s(fit: Fit, asked: Curve, context: Context) -> float:
    """The measured unlimited seconds of a curve, else what the fit's rates say.

    Raises:
        CannotTellError: there are neither.
    """
    if len(asked.unlimited_seconds):
        return asked.unlimited_s
    rates = rates_in(fit)
    if rates is None:
        raise CannotTellError("no unlimited trial of it, nor of other networks to learn from")
    return predicted_s(inference_for(asked, context), rates, asked.phase, asked.network)


def reach_over(
    curves: Iterable[Curve], landscape: Callable[[Curve], Landscape], name: str = REACH
) -> tuple[Parameter, ...]:
    """The conformal reach of curves that a landscape was not fitted to, network by network."""
    groups: dict[str, list[FloatArray]] = {}
    for curve in curves:
        if len(curve.limit_bytes):
            scores = conformal.scores(landscape(curve), curve.limit_bytes, curve.slowdown)
            groups.setdefault(workload_network(curve), []).append(scores)
    if not groups:
        return ()
    every = [np.concatenate(group) for group in groups.values()]
    return (Parameter(name, conformal.reach_of(every, LEVEL)),)


def within(
    reach: float | None, landscape: Landscape, limit_bytes: FloatArray
) -> tuple[FloatArray, FloatArray] | None:
    """The band of this reach; None of none."""
    return None if reach is None else conformal.band(landscape, limit_bytes, reach)
