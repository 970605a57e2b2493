"""The model ``simulated``: what the kernel does, simulated, at costs that the trials show.

Also the corrections that the model ``combined`` adds: what the simulation misses in the same way in
all networks, learnt from their curves. Each kind of curve (phase and loader) has two numbers: ln S
is larger by w + v·ln S_simulated where memory is short. They are fitted by ridge regression of what
the simulation misses, in which large errors count less (Huber's rule), and no correction exceeds
:data:`MOST`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain

import numpy as np

from edgebench.slowdown.context import CannotPredictError, Context
from edgebench.slowdown.curves import Curve, FloatArray
from edgebench.slowdown.models.base import CurvePrediction, Fit, Model, Parameter, registered_model
from edgebench.slowdown.models.conformal import (
    REACH,
    UNRUN_REACH,
    conformal_prediction,
    reach_over,
)
from edgebench.slowdown.models.device_costs import (
    CostRows,
    cost_parameters,
    cost_rows,
    costs_in,
    fit_costs,
    kind_of,
    prior_costs,
)
from edgebench.slowdown.models.own_memory import OwnMemory, fit_own_memory, own_memory_in
from edgebench.slowdown.models.unlimited_time import (
    UnlimitedTimes,
    fit_unlimited_times,
    unlimited_times_in,
)
from edgebench.slowdown.simulator.movement_costs import MovementCosts
from edgebench.slowdown.simulator.profile import profile, simulated_slowdown
from edgebench.slowdown.slowdown_function import SlowdownFunction

#: The largest size of a correction's logarithm.
MOST = float(np.log(2))
#: A limit this much below the demand (a logarithm) counts in full, one above it not at all.
_FULL_DEPTH = 0.05
#: The ridge's strength, errors from which on rows count less, and how often these are looked at.
#: Strength chosen on networks left out of the validation sweep, without the families held out.
_STRENGTH, _HUBER, _ROUNDS = 1.0, 0.15, 4
_PARTS = ("offset", "slope")
Weights = Mapping[str, float]
_WEIGHT = "weight."


def fit_correction(rows: CostRows, costs: MovementCosts) -> dict[str, float]:
    """The two numbers of each kind, by ``<kind>.offset`` and ``<kind>.slope``."""
    kinds = sorted(set(rows.kind.tolist()))
    if not kinds:
        return {}
    simulated = rows.simulated(costs)
    parts = np.array([_gate(rows.depth), simulated])
    blocks = [parts * (rows.kind == kind) for kind in kinds]
    columns: FloatArray = np.concatenate(blocks)
    x, y = columns.T * rows.weight[:, None], (np.log(rows.slowdown) - simulated) * rows.weight
    trust: FloatArray = np.ones(len(y))
    found: FloatArray = np.zeros(len(columns))
    for _ in range(_ROUNDS):
        squares = (x * trust[:, None]).T @ x + _STRENGTH * np.eye(len(columns))
        found = np.asarray(np.linalg.solve(squares, x.T @ (trust * y)), dtype=np.float64)
        trust = _HUBER / np.maximum(np.abs(y - x @ found), _HUBER)
    names = [f"{kind}.{part}" for kind in kinds for part in _PARTS]
    return dict(zip(names, found.tolist(), strict=True))


def corrected(
    curve: Curve, function: SlowdownFunction, unlimited_s: float, weights: Weights, context: Context
) -> SlowdownFunction:
    """A simulated curve with its kind's correction."""
    offset, slope = (weights.get(f"{kind_of(curve)}.{part}", 0.0) for part in _PARTS)
    gate = _gate(profile(curve, unlimited_s, context).depth)
    return function.scaled(np.clip(offset * gate + slope * function.ln_slowdown, -MOST, MOST))


def _gate(depth: FloatArray) -> FloatArray:
    return np.clip(depth / _FULL_DEPTH, 0.0, 1.0)


@dataclass(frozen=True)
class Learnt:
    """What curves show of a device.

    Attributes:
        costs: of what moves.
        times: how unlimited times follow from layers.
        weights: of the corrections, which only the model ``combined`` makes.
        own: memory of networks whose demand was not measured.
    """

    costs: MovementCosts
    times: UnlimitedTimes
    weights: Weights
    own: OwnMemory = field(default_factory=OwnMemory)

    def parameters(self) -> tuple[Parameter, ...]:
        """As a fit keeps them."""
        weights = (Parameter(_WEIGHT + name, value) for name, value in self.weights.items())
        every = (self.times.parameters(), weights, self.own.parameters())
        return (*cost_parameters(self.costs), *chain.from_iterable(every))

    def predict(self, curve: Curve, context: Context) -> tuple[float, SlowdownFunction]:
        """Unlimited seconds, and the slowdown that is simulated.

        Raises:
            CannotPredictError: as :func:`simulated_slowdown`; or no unlimited time is known.
        """
        unlimited_s, curve = self._known(curve, context)
        return unlimited_s, simulated_slowdown(curve, unlimited_s, context, self.costs)

    def predict_corrected(self, curve: Curve, context: Context) -> tuple[float, SlowdownFunction]:
        """The same, with what the simulation misses in all networks.

        Raises:
            CannotPredictError: as :meth:`predict`.
        """
        unlimited_s, curve = self._known(curve, context)
        function = simulated_slowdown(curve, unlimited_s, context, self.costs)
        return unlimited_s, corrected(curve, function, unlimited_s, self.weights, context)

    def _known(self, curve: Curve, context: Context) -> tuple[float, Curve]:
        """Unlimited seconds, and the curve with a demand."""
        return self.times.seconds(curve, context), self.own.with_demand(curve, context)

    def can_predict(self, curve: Curve, context: Context) -> bool:
        """Whether :meth:`predict` has all that it needs."""
        try:
            self.predict(curve, context)
        except CannotPredictError:
            return False
        return True


def learnt_in(fit: Fit) -> Learnt:
    """What a fit keeps of it."""
    weights = dict(fit.starting(_WEIGHT))
    return Learnt(costs_in(fit), unlimited_times_in(fit), weights, own_memory_in(fit))


def learn(curves: Sequence[Curve], context: Context) -> tuple[Learnt, dict[str, Learnt]]:
    """What all curves show, and for each network with limits what those of all others do.

    Raises:
        CannotPredictError: the device is not calibrated, and its trials show too little.
    """
    return _learn_once(_SameCurves(curves, context))


class _SameCurves:
    """The very same curves and context: two models learn from them, one after the other."""

    def __init__(self, curves: Sequence[Curve], context: Context) -> None:
        self.curves, self.context = curves, context

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _SameCurves)
            and self.curves is other.curves
            and self.context is other.context
        )

    def __hash__(self) -> int:
        return hash((id(self.curves), id(self.context)))


@lru_cache(maxsize=1)
def _learn_once(same: _SameCurves) -> tuple[Learnt, dict[str, Learnt]]:
    curves, context = same.curves, same.context
    rows, prior = cost_rows(curves, context), prior_costs(curves, context)
    own = _learnt(rows, curves, context, prior)
    others = {}
    for name in sorted({curve.workload_network for curve in curves if len(curve.limits)}):
        rest = [curve for curve in curves if curve.workload_network != name]
        try:
            others[name] = _learnt(rows.without(name), rest, context, prior)
        except CannotPredictError:
            continue
    return own, others


def _learnt(
    rows: CostRows, curves: Sequence[Curve], context: Context, prior: MovementCosts
) -> Learnt:
    costs = fit_costs(rows, context, prior)
    times, own = fit_unlimited_times(curves, context), fit_own_memory(curves, context)
    return Learnt(costs, times, fit_correction(rows, costs), own)


def left_out(
    curves: Sequence[Curve],
    others: Mapping[str, Learnt],
    predict: Callable[[Learnt, Curve, Context], tuple[float, SlowdownFunction]],
    context: Context,
    *,
    unrun: bool,
) -> Iterator[tuple[Curve, SlowdownFunction]]:
    """Each curve of a network as the others predict it.

    With ``unrun`` its unlimited trials are not known either, and its slowdowns are those against
    the unlimited time that is predicted.
    """
    for curve in curves:
        learnt = others.get(curve.workload_network)
        if learnt is None or not len(curve.limits):
            continue
        try:
            unlimited_s, function = predict(learnt, curve.unseen(with_unlimited=not unrun), context)
        except CannotPredictError:
            continue
        yield replace(curve, unlimited_seconds=np.array([unlimited_s])), function


@registered_model
class Simulated(Model):
    """S(M) = (T(∞) + Σ cost · moved(M)) / T(∞): what moves is simulated, what it costs is fitted.

    A calibration is where the costs come from as far as trials tell nothing of them.
    """

    name = "simulated"
    formula = "S = 1 + Σ cost · moved / T: what the kernel moves, simulated, at fitted costs"
    rank = 50

    def fit(self, curves: Sequence[Curve], context: Context) -> Fit:
        """The costs, the rates of unlimited times, and the reaches of errors."""
        own, others = learn(curves, context)
        reaches = [
            reach_over(name, left_out(curves, others, Learnt.predict, context, unrun=unrun))
            for name, unrun in ((REACH, False), (UNRUN_REACH, True))
        ]
        every = (parameter for reach in reaches for parameter in reach)
        return Fit(self.name, (*own.parameters(), *every))

    def predict(
        self, fit: Fit, curve: Curve, limit_bytes: FloatArray, context: Context
    ) -> CurvePrediction:
        """The simulated slowdown, with an interval of errors on networks that were left out."""
        unlimited_s, function = learnt_in(fit).predict(curve, context)
        reach = fit.get(REACH if len(curve.unlimited_seconds) else UNRUN_REACH)
        return conformal_prediction(unlimited_s, function, limit_bytes, reach)
