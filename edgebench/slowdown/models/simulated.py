"""The model ``simulated``: what a limit moves is simulated, and takes as long as was calibrated.

Nothing is fitted to slowdowns but one factor for a kind of curve, where costs say too little:
several threads wait for one another where a declared speed holds the storage; a start writes more
out than scans show where nothing holds it; and without a calibration costs are assumed. Unlimited
times of a network that never ran, and the memory of its own, are those of other networks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from edgebench.results.rounds import START
from edgebench.slowdown.context import CannotPredictError, Context
from edgebench.slowdown.curves import Curve, FloatArray
from edgebench.slowdown.models.base import CurvePrediction
from edgebench.slowdown.models.intervals import SLOWED, with_interval
from edgebench.slowdown.models.own_memory import OwnMemory, fit_own_memory
from edgebench.slowdown.models.unlimited_time import UnlimitedTimes, fit_unlimited_times
from edgebench.slowdown.simulator.profile import added_at, simulated_slowdown
from edgebench.slowdown.slowdown_function import SlowdownFunction, never_rising

SIMULATED = "simulated"
#: How far measured slowdowns are from simulated ones: of a network at other limits than those that
#: were measured, of one whose unlimited trials are known, and of one of which nothing is. Nine of
#: ten of the kept sweeps' points that were slowed 1.5 times or more stay within.
KNOWN_REACH, REACH, UNRUN_REACH = 0.31, 0.49, 0.49
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


@dataclass(frozen=True)
class Simulated:
    """S(M) = (T(∞) + T_io(M)) / T(∞), at a calibration's constants.

    Attributes:
        learnt: unlimited times, own memory and factors.
        context: with the constants, and the layer tables of what is asked.
        wider: of the interval, as a multiple: 1 on the storage that was learnt from.
    """

    learnt: Learnt
    context: Context
    wider: float = 1.0
    name: str = SIMULATED

    def predict(self, curve: Curve, limit_bytes: FloatArray) -> CurvePrediction:
        """The simulated slowdown, with an interval of errors on networks that were left out."""
        unlimited_s, function = self.learnt.predict(curve, self.context)
        reach = REACH if len(curve.unlimited_seconds) else UNRUN_REACH
        return with_interval(unlimited_s, function, limit_bytes, self.wider * reach)
