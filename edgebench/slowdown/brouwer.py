"""The rung ``brouwer``: linear regression with L1 on engineered features of layers.

Brouwer ("Profiling Deep Networks in Resource-constrained Systems") predicts logarithms of times by
the Lasso from features of layers. Here the same on a network's layers together, with the limit
among the features. It knows no reuse, no schedule's order and no device: what it reaches is what
regression alone can.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgebench.slowdown.data import INFERENCE, Curve, FloatArray
from edgebench.slowdown.landscape import Landscape, never_rising
from edgebench.slowdown.lasso import lasso, strength_by
from edgebench.slowdown.model import (
    CannotTellError,
    Context,
    Fit,
    Parameter,
    SetRung,
    TooFewLimitsError,
)
from edgebench.slowdown.physics import REACH, reach_over, within
from edgebench.slowdown.profile import inference_for
from edgebench.slowdown.splits import workload_network
from edgebench.slowdown.tables import file_bytes, layers_of

#: Beside the weights something else needs memory too: about what a runtime takes.
_BESIDE_BYTES = 256 << 20
_LN_LIMITS = np.log(np.geomspace(16 << 20, 64 << 30, 300))
_WEIGHT, _INTERCEPT = "weight.", "intercept"
_FOLDS = 5
_SCHEDULES, _LOADERS = ("linear", "bulk", "partial", "deepeye"), ("copy", "mmap")
_TYPES = ("Conv", "Linear", "Norm", "ReLU", "Pool")
_OF_TABLE = (
    *("weights", "flops", "outputs", "files", "layers", "largest"),
    *(f"layers.{name}" for name in _TYPES),
)
_OF_LIMIT = ("weights/M", "all/M", "largest/M", "(weights/M)²", "(all/M)²")
NAMES = (
    *INFERENCE,
    *_SCHEDULES,
    *_LOADERS,
    *(f"{phase}.{name}" for phase in INFERENCE for name in _OF_TABLE),
    *(f"{phase}.{load}.{name}" for phase in INFERENCE for load in _LOADERS for name in _OF_LIMIT),
)


class Brouwer(SetRung):
    """ln T = Σ weights · features; S is T(M) against the same without the limit's features."""

    name = "brouwer"
    says = "ln T linear in layers' features and the limit's, with L1"

    def fit(self, curves: Sequence[Curve], context: Context) -> Fit:
        """The Lasso, its strength chosen between networks (within them if there is but one)."""
        rows = [found for curve in curves if (found := _rows(curve, context))]
        if sum(len(one.y) for one in rows) < 2 * _FOLDS:
            raise TooFewLimitsError(f"needs {2 * _FOLDS} points of networks with layer tables")
        alpha = _strength(rows)
        x, y = _stacked(rows)
        own = lasso(x, y, alpha)
        names = sorted({one.network for one in rows})
        others = {
            name: lasso(*_stacked([one for one in rows if one.network != name]), alpha)
            for name in names
            if len(names) > 1
        }
        told = [one.curve for one in rows if one.network in others]
        reach = reach_over(
            told, lambda curve: _landscape(others[workload_network(curve)], curve, context)
        )
        residual = y - own[0] - x @ own[1:]
        return Fit(
            self.name,
            (*_parameters(own), *reach),
            residual=float(np.std(residual)),
            free=max(1, len(y) - int(np.count_nonzero(own))),
        )

    def predict(
        self, fit: Fit, asked: Curve, limit_bytes: FloatArray, context: Context
    ) -> FloatArray:
        """The regression's time against its own without a limit."""
        return _landscape(_weights(fit), asked, context).at(limit_bytes)

    def interval(
        self, fit: Fit, asked: Curve, limit_bytes: FloatArray, context: Context
    ) -> tuple[FloatArray, FloatArray] | None:
        """A conformal band of the errors on networks left out; None of one network alone."""
        return within(fit.get(REACH), _landscape(_weights(fit), asked, context), limit_bytes)

    def unlimited_s(self, fit: Fit, asked: Curve, context: Context) -> float:
        """Measured, else the regression's time without a limit."""
        if len(asked.unlimited_seconds):
            return asked.unlimited_s
        weights = _weights(fit)
        x = _features(asked, np.array([np.inf]), context)
        return float(np.exp(weights[0] + x[0] @ weights[1:]))


@dataclass(frozen=True)
class _Rows:
    """A curve's points, the unlimited one first: features and logarithms of seconds."""

    curve: Curve
    network: str
    x: FloatArray
    y: FloatArray


def _rows(curve: Curve, context: Context) -> _Rows | None:
    if not len(curve.unlimited_seconds):
        return None
    try:
        x = _features(curve, np.array([np.inf, *curve.limits]), context)
    except CannotTellError:
        return None
    y = np.log(curve.unlimited_s * np.array([1.0, *curve.medians]))
    return _Rows(curve, workload_network(curve), x, y)


def _features(asked: Curve, limit_bytes: FloatArray, context: Context) -> FloatArray:
    """One row a limit; ``inf`` is none."""
    workload = inference_for(asked, context)
    here = [asked.network] if asked.network in workload.networks else list(workload.networks)
    weights, largest, of_table = context.once(
        ("brouwer", *here), lambda: _of_tables(here, context.tables)
    )
    of_limit = np.log1p(
        np.array([weights, weights + _BESIDE_BYTES, largest])[None, :] / limit_bytes[:, None]
    )
    of_limit = np.concatenate([of_limit, of_limit[:, :2] ** 2], axis=1)
    kind = (asked.phase, workload.schedule, workload.loader)
    flags = [float(name in kind) for name in (*INFERENCE, *_SCHEDULES, *_LOADERS)]
    fixed = np.concatenate([flags, *(of_table * (phase == asked.phase) for phase in INFERENCE)])
    moving = [
        of_limit * (phase == asked.phase and load == workload.loader)
        for phase in INFERENCE
        for load in _LOADERS
    ]
    return np.concatenate([np.tile(fixed, (len(limit_bytes), 1)), *moving], axis=1)


def _of_tables(
    names: Sequence[str], tables: Mapping[str, Sequence[Mapping[str, Any]]]
) -> tuple[float, float, FloatArray]:
    """Bytes of all weights, those of the largest part, and the features of networks' tables."""
    rows = [row for name in names for row in tables[name]]
    files = [size for name in set(names) for size in file_bytes(layers_of(tables[name])).values()]
    weights, largest = float(sum(files)), float(max(files, default=0))
    sums = [sum(float(row[key]) for row in rows) for key in ("flops", "output_bytes")]
    counts = [sum(name in str(row["type"]) for row in rows) for name in _TYPES]
    table = [weights / 2**20, sums[0] / 1e9, sums[1] / 2**20, len(files), len(rows)]
    return weights, largest, np.log1p(np.array([*table, largest / 2**20, *counts], dtype=float))


def _strength(rows: Sequence[_Rows]) -> float:
    """By cross-validation, whole networks left out where there are several."""
    from sklearn.model_selection import GroupKFold, KFold

    several = len({one.network for one in rows}) > 1
    groups = [one.network if several else str(n) for n, one in enumerate(rows) for _ in one.y]
    x, y = _stacked(rows)
    count = min(_FOLDS, len(set(groups)))
    folds = GroupKFold(count).split(x, y, groups) if count > 1 else KFold(_FOLDS).split(x)
    return strength_by(x, y, list(folds))


def _stacked(rows: Sequence[_Rows]) -> tuple[FloatArray, FloatArray]:
    return np.concatenate([one.x for one in rows]), np.concatenate([one.y for one in rows])


def _parameters(weights: FloatArray) -> list[Parameter]:
    named = zip((_INTERCEPT, *(_WEIGHT + name for name in NAMES)), weights, strict=True)
    return [Parameter(name, float(value)) for name, value in named if value]


def _weights(fit: Fit) -> FloatArray:
    return np.array([fit.get(n) or 0.0 for n in (_INTERCEPT, *(_WEIGHT + m for m in NAMES))])


def _landscape(weights: FloatArray, asked: Curve, context: Context) -> Landscape:
    x = _features(asked, np.exp(np.append(_LN_LIMITS, np.inf)), context)
    ln_time = x @ weights[1:]
    return never_rising(_LN_LIMITS, ln_time[:-1] - ln_time[-1])
