"""The model ``simulated``: what a limit moves is simulated, and takes as long as was calibrated.

Nothing is fitted to slowdowns but one factor for a kind of curve, where costs say too little:
several threads wait for one another where a declared speed holds the storage; a start writes more
out than scans show where nothing holds it; and without a calibration costs are assumed. Unlimited
times of a network that never ran, and the memory of its own, are those of other networks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice

import numpy as np

from edgebench.results.rounds import START
from edgebench.slowdown.context import CannotPredictError, Context
from edgebench.slowdown.curves import Curve, FloatArray
from edgebench.slowdown.models.base import CurvePrediction, Fit, Model, Parameter, registered_model
from edgebench.slowdown.models.intervals import SLOWED, with_interval
from edgebench.slowdown.models.own_memory import OwnMemory, fit_own_memory, own_memory_in
from edgebench.slowdown.models.unlimited_time import (
    UnlimitedTimes,
    fit_unlimited_times,
    unlimited_times_in,
)
from edgebench.slowdown.simulator.profile import added_at, simulated_slowdown
from edgebench.slowdown.slowdown_function import SlowdownFunction, never_rising

#: How far measured slowdowns are from simulated ones: of a network at other limits than those that
#: were measured, of one whose unlimited trials are known, and of one of which nothing is. Nine of
#: ten of the kept sweeps' points that were slowed 1.5 times or more stay within.
KNOWN_REACH, REACH, UNRUN_REACH = 0.37, 0.49, 0.49
_FACTOR, _WIDER = "factor.", "wider"
#: Of so many workloads of a kind the factor is learnt: each has to be simulated.
_MOST = 6
#: So many limits must show a factor, or without a calibration a slowdown of so much.
_LEAST_POINTS, _LEAST_SLOWDOWN = 3, 1.2


@dataclass(frozen=True)
class Learnt:
    """What curves show of a device.

    Attributes:
        times: how unlimited times follow from layers.
        own: memory of networks whose demand was not measured.
        factors: by kind of curve how many times more several threads add than one would.
    """

    times: UnlimitedTimes
    own: OwnMemory = field(default_factory=OwnMemory)
    factors: Mapping[str, float] = field(default_factory=dict)

    def parameters(self) -> Iterator[Parameter]:
        """As a fit keeps them."""
        factors = (Parameter(_FACTOR + kind, value) for kind, value in self.factors.items())
        return chain(self.times.parameters(), self.own.parameters(), factors)

    def predict(self, curve: Curve, context: Context) -> tuple[float, SlowdownFunction]:
        """Unlimited seconds, and the slowdown that is simulated.

        Raises:
            CannotPredictError: as :func:`simulated_slowdown`; or no unlimited time is known.
        """
        unlimited_s = self.times.seconds(curve, context)
        asked = self.own.with_demand(curve, context)
        found = simulated_slowdown(asked, unlimited_s, context)
        factor = self.factors.get(kind_of(curve), 1.0)
        added = factor * np.expm1(found.ln_slowdown)
        return unlimited_s, never_rising(found.ln_limit, np.log1p(added))


def learnt_in(fit: Fit) -> Learnt:
    """What a fit keeps of it."""
    return Learnt(unlimited_times_in(fit), own_memory_in(fit), dict(fit.starting(_FACTOR)))


def learn(curves: Sequence[Curve], context: Context) -> Learnt:
    """What curves show.

    Raises:
        CannotPredictError: the device is not calibrated, and too few limits slow anything.
    """
    if context.calibration is None and _slowed_limits(curves) < _LEAST_POINTS:
        raise CannotPredictError(
            "the device is not calibrated, and too few limits here slow anything: "
            "edgebench calibrate"
        )
    times, own = fit_unlimited_times(curves, context), fit_own_memory(curves, context)
    return Learnt(times, own, _factors(curves, context))


def _slowed_limits(curves: Sequence[Curve]) -> int:
    known = (curve for curve in curves if len(curve.unlimited_seconds))
    return sum(int(np.sum(curve.medians >= _LEAST_SLOWDOWN)) for curve in known)


def kind_of(curve: Curve) -> str:
    """Curves that are off alike: a phase with a loader and so many threads."""
    return f"{curve.phase}/{curve.settings.get('loader', '')}/{curve.settings.get('threads')}"


def _factors(curves: Sequence[Curve], context: Context) -> dict[str, float]:
    """By kind the median over workloads, as far as one is needed."""
    kinds: dict[str, list[Curve]] = {}
    for curve in curves:
        if (
            _is_off(curve, context)
            and len(curve.unlimited_seconds)
            and (curve.medians >= SLOWED).any()
        ):
            kinds.setdefault(kind_of(curve), []).append(curve)
    found = {}
    for kind, group in kinds.items():
        known = (one for curve in group if len(one := _factor(curve, context)))
        shown = list(islice(known, _MOST))
        if sum(map(len, shown)) >= _LEAST_POINTS:
            found[kind] = float(np.median([np.median(one) for one in shown]))
    return found


def _is_off(curve: Curve, context: Context) -> bool:
    """Whether calibrated costs say too little of the curve."""
    if context.calibration is None:
        return True
    if context.calibration.held is None:
        # A start writes the idle runtime out, which takes longer than scans say.
        return curve.phase == START
    cores = context.calibration.environment.get("cpu_cores_usable")
    return (curve.settings.get("threads") or cores) != 1


def _factor(curve: Curve, context: Context) -> FloatArray:
    """By each limit that slowed the curve; empty where nothing is simulated to."""
    try:
        simulated = added_at(curve, curve.unlimited_s, context, curve.limits)
    except CannotPredictError:
        return np.empty(0)
    seen, least_s = (curve.medians - 1) * curve.unlimited_s, (SLOWED - 1) * curve.unlimited_s
    known = (seen >= least_s) & (simulated > least_s / 2)
    return np.asarray(seen[known] / simulated[known])


@registered_model
class Simulated(Model):
    """S(M) = (T(∞) + T_io(M)) / T(∞), at a calibration's constants."""

    name = "simulated"
    formula = "S = 1 + what a limit moves, simulated, at calibrated costs / T"
    rank = 50

    def fit(self, curves: Sequence[Curve], context: Context) -> Fit:
        """The rates of unlimited times, the networks' own memory, and the threads' factors."""
        return Fit(self.name, tuple(learn(curves, context).parameters()))

    def predict(
        self, fit: Fit, curve: Curve, limit_bytes: FloatArray, context: Context
    ) -> CurvePrediction:
        """The simulated slowdown, with an interval of errors on networks that were left out."""
        unlimited_s, function = learnt_in(fit).predict(curve, context)
        reach = REACH if len(curve.unlimited_seconds) else UNRUN_REACH
        reach *= fit.get(_WIDER) or 1.0
        return with_interval(unlimited_s, function, limit_bytes, reach)


def wider(fit: Fit, times: float) -> Fit:
    """The fit with intervals that are so many times as wide, as for another device."""
    return Fit(fit.model, (*fit.parameters, Parameter(_WIDER, times, fixed=True)))
