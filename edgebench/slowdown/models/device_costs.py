"""What a device's bytes and faults cost, as the trials at hand show it.

    T(M) = T(∞) + Σ cost · moved(M)

What moves is simulated; the costs are those that meet the measured seconds best: least squares of
logarithms, in which a curve that nothing explains counts less (soft L1). Where trials tell nothing
of a cost it stays what the calibration says: each is drawn to that, in logarithms too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, fields, replace

import numpy as np

from edgebench.slowdown.context import CannotPredictError, Context
from edgebench.slowdown.curves import WHOLES, Curve, FloatArray
from edgebench.slowdown.models.base import Fit, Parameter
from edgebench.slowdown.simulator.computing import computing_s
from edgebench.slowdown.simulator.movement_costs import MovementCosts
from edgebench.slowdown.simulator.profile import device_for, profile, workload_for

#: How far a curve's slowdowns lie from what is simulated, and how far costs may be from calibrated
#: ones and from assumed ones: standard deviations of logarithms.
_OFF, _CALIBRATED, _ASSUMED = 0.2, float(np.log(2)), float(np.log(10))
#: Without a calibration so many limits must show a slowdown of so much.
_LEAST_POINTS, _LEAST_SLOWDOWN = 3, 1.2
_NAMES = tuple(f.name for f in fields(MovementCosts))
_COST = "cost."


@dataclass(frozen=True)
class CostRows:
    """What costs are fitted to: an entry a limit of a curve.

    Attributes:
        network, kind: whose curve it is, and of which kind.
        moved: what moves in a pass, of shape (5, n), for each second without a limit.
        held: seconds that held storage takes at least, for each second without a limit.
        depth: ln(demand / M), the demand as simulated.
        slowdown: as measured.
        weight: so that each curve counts the same.
    """

    network: np.ndarray
    kind: np.ndarray
    moved: FloatArray
    held: FloatArray
    depth: FloatArray
    slowdown: FloatArray
    weight: FloatArray

    def without(self, network: str) -> CostRows:
        """All but a network's."""
        kept = self.network != network
        return CostRows(*(getattr(self, f.name)[..., kept] for f in fields(self)))

    def simulated(self, costs: MovementCosts) -> FloatArray:
        """The logarithms of slowdowns at these costs."""
        added = np.maximum(np.array(astuple(costs)) @ self.moved, self.held)
        return np.asarray(np.log1p(added))


def kind_of(curve: Curve) -> str:
    """Curves whose errors are alike: a phase with a loader."""
    return f"{curve.phase}/{curve.settings.get('loader', '')}"


def cost_rows(curves: Iterable[Curve], context: Context) -> CostRows:
    """The rows of all curves that can be simulated; those whose tasks overlap are left out."""
    nothing, names = np.empty(0), np.empty(0, dtype=str)
    empty = CostRows(names, names, np.empty((5, 0)), *[nothing] * 4)
    parts = [empty, *(rows for curve in curves if (rows := _rows(curve, context)) is not None)]
    columns = ([getattr(part, f.name) for part in parts] for f in fields(CostRows))
    return CostRows(*(np.concatenate(column, axis=-1) for column in columns))


def _rows(curve: Curve, context: Context) -> CostRows | None:
    if not len(curve.limits) or not len(curve.unlimited_seconds):
        return None
    try:
        if curve.phase in WHOLES and workload_for(curve, context).overlaps:
            return None
        device = device_for(curve, context)
        found = profile(curve, curve.unlimited_s, context)
    except CannotPredictError:
        return None
    at, count = np.log(curve.limits), len(curve.limits)
    moved = np.array([np.interp(at, found.ln_limit, row) for row in found.moved])
    computing = computing_s(curve, curve.unlimited_s, workload_for(curve, context), device)
    held = device.held_s(moved, computing) / curve.unlimited_s
    moved /= curve.unlimited_s
    return CostRows(
        network=np.full(count, curve.workload_network),
        kind=np.full(count, kind_of(curve)),
        moved=moved,
        held=held,
        depth=np.interp(at, found.ln_limit, found.depth),
        slowdown=curve.medians,
        weight=np.full(count, 1 / np.sqrt(count)),
    )


def fit_costs(rows: CostRows, context: Context, prior: MovementCosts) -> MovementCosts:
    """The costs that meet the rows best, drawn to ``prior``.

    Raises:
        CannotPredictError: there is no calibration, and too few limits slow anything.
    """
    from scipy.optimize import least_squares

    if context.calibration is None:
        _require_slowed(rows)
    spread = _ASSUMED if context.calibration is None else _CALIBRATED
    start = np.array(astuple(prior))
    # What a device without swap never pays for stays 0.
    used = np.flatnonzero(start > 0)
    measured, count = np.log(rows.slowdown), len(rows.slowdown)

    def off(ln_factor: FloatArray) -> FloatArray:
        costs = start.copy()
        costs[used] *= np.exp(ln_factor)
        simulated = rows.simulated(MovementCosts(*costs.tolist()))
        errors = rows.weight * (simulated - measured) / _OFF
        return np.concatenate([errors, ln_factor / spread])

    def soft_for_rows(squares: FloatArray) -> FloatArray:
        # Soft L1 and its derivatives; what draws to the prior keeps its square.
        root = np.sqrt(1 + squares)
        found = np.array([2 * (root - 1), 1 / root, -0.5 * root**-3])
        found[:, count:] = [squares[count:], *np.outer([1.0, 0.0], np.ones(len(used)))]
        return found

    found = least_squares(off, np.zeros(len(used)), loss=soft_for_rows)  # type: ignore[arg-type]
    start[used] *= np.exp(found.x)
    return MovementCosts(*start.tolist())


def _require_slowed(rows: CostRows) -> None:
    if int(np.sum(rows.slowdown >= _LEAST_SLOWDOWN)) < _LEAST_POINTS:
        raise CannotPredictError(
            "the device is not calibrated, and too few limits here slow anything: "
            "edgebench calibrate"
        )


def cost_parameters(costs: MovementCosts) -> tuple[Parameter, ...]:
    """Costs as a fit keeps them."""
    units = ("s", *["s/byte"] * (len(_NAMES) - 1))
    return tuple(
        Parameter(_COST + name, value, unit)
        for name, value, unit in zip(_NAMES, astuple(costs), units, strict=True)
    )


def costs_in(fit: Fit) -> MovementCosts:
    """The costs that a fit keeps."""
    return MovementCosts(*(fit[_COST + name] for name in _NAMES))


def prior_costs(curves: Sequence[Curve], context: Context) -> MovementCosts:
    """The calibrated costs, or assumed ones.

    Raises:
        CannotPredictError: neither are known.
    """
    blank = Curve("", "total", {}, np.empty(0), np.empty(0), np.empty(0))
    return device_for(curves[0] if curves else blank, context).costs


def with_costs(fit: Fit, costs: MovementCosts) -> Fit:
    """A fit with other costs than those that it found."""
    rest = tuple(one for one in fit.parameters if not one.name.startswith(_COST))
    return replace(fit, parameters=(*cost_parameters(costs), *rest))
