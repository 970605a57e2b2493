"""The model ``physics``: the simulator at the device's constants, with no fitting on networks."""

from __future__ import annotations

from collections.abc import Sequence

from edgebench.slowdown.context import CannotPredictError, Context
from edgebench.slowdown.curves import Curve, FloatArray
from edgebench.slowdown.models.base import CurvePrediction, Fit, Model, Parameter, registered_model
from edgebench.slowdown.models.conformal import REACH, conformal_prediction, reach_over
from edgebench.slowdown.models.unlimited_time import (
    fit_network_rates,
    rate_parameters,
    unlimited_by_rates,
)
from edgebench.slowdown.simulator.profile import simulated_slowdown
from edgebench.slowdown.slowdown_function import SlowdownFunction

#: The calibration's constants that a prediction rests on.
CONSTANTS = (
    *("swap_in_bytes_per_s", "swap_out_bytes_per_s", "file_fault_bytes_per_s", "fault_s"),
    *("pages_per_fault", "file_pages_per_fault", "minor_fault_s", "base_bytes", "hot_base_bytes"),
)


@registered_model
class Physics(Model):
    """S(M) = (T_cpu + T_io(M)) / T_cpu, from layer table, schedule, loader and calibration.

    Curves given to :meth:`fit` move no prediction: their errors make the interval, and their
    unlimited times the rates by which an unknown unlimited time is predicted.
    """

    name = "physics"
    formula = "S = 1 + T_io/T_cpu: bytes that the kernel moves, simulated, at calibrated rates"
    rank = 50

    def fit(self, curves: Sequence[Curve], context: Context) -> Fit:
        """The constants, the rates and the reach of errors."""
        if context.calibration is None:
            raise CannotPredictError("the device is not calibrated: edgebench calibrate")
        known = [(name, getattr(context.calibration, name)) for name in CONSTANTS]
        if held := context.calibration.held:
            known += [("held_swap_bytes_per_s", held.swap_bytes_per_s)]
            known += [("held_file_bytes_per_s", held.file_bytes_per_s)]
        constants = [
            Parameter(name, one.value, one.unit, low=one.low, high=one.high, fixed=True)
            for name, one in known
            if one
        ]
        rates = rate_parameters(fit_network_rates(curves, context))
        found = Fit(self.name, (*constants, *rates))

        def simulated(curve: Curve) -> SlowdownFunction:
            return simulated_slowdown(curve, unlimited_by_rates(found, curve, context), context)

        return Fit(self.name, (*found.parameters, *reach_over(curves, simulated)))

    def predict(
        self, fit: Fit, curve: Curve, limit_bytes: FloatArray, context: Context
    ) -> CurvePrediction:
        """The simulator's slowdown, with an interval of its errors on the curves of the fit.

        An unlimited time that was not measured comes from other networks' rates.
        """
        unlimited_s = unlimited_by_rates(fit, curve, context)
        function = simulated_slowdown(curve, unlimited_s, context)
        return conformal_prediction(unlimited_s, function, limit_bytes, fit.get(REACH))
