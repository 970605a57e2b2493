"""The model ``brouwer``: linear regression with L1 on engineered features of layers.

Brouwer ("Profiling Deep Networks in Resource-constrained Systems") predicts logarithms of times by
the Lasso from features of layers. Here the same on a network's layers together, with the limit
among the features. It knows no reuse, no schedule's order and no device: its errors are those of
regression alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgebench.slowdown.context import CannotPredictError, Context
from edgebench.slowdown.curves import INFERENCE, Curve, FloatArray
from edgebench.slowdown.models.base import (
    CurvePrediction,
    Fit,
    Model,
    Parameter,
    TooFewLimitsError,
)
from edgebench.slowdown.models.conformal import REACH, conformal_prediction, reach_over
from edgebench.slowdown.simulator.profile import inference_for
from edgebench.slowdown.simulator.workload import file_bytes, layers_of
from edgebench.slowdown.slowdown_function import SlowdownFunction, never_rising
from evaluation.lasso import lasso, lasso_strength

#: Beside the weights something else needs memory too: about what a runtime takes.
_BESIDE_BYTES = 256 << 20
_LN_LIMITS = np.log(np.geomspace(16 << 20, 64 << 30, 300))
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
_PARAMETERS = ("intercept", *(f"weight.{name}" for name in NAMES))


class Brouwer(Model):
    """ln T = Σ weights · features; S is T(M) against the same without the limit's features."""

    name = "brouwer"
    formula = "ln T linear in layers' features and the limit's, with L1"
    rank = 40

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
        reach = reach_over(
            REACH,
            (
                (one.curve, _slowdown_function(others[one.network], one.curve, context))
                for one in rows
                if one.network in others
            ),
        )
        residual = y - own[0] - x @ own[1:]
        named = zip(_PARAMETERS, own, strict=True)
        return Fit(
            self.name,
            (*(Parameter(name, float(value)) for name, value in named if value), *reach),
            residual=float(np.std(residual)),
            free=max(1, len(y) - int(np.count_nonzero(own))),
        )

    def predict(
        self, fit: Fit, curve: Curve, limit_bytes: FloatArray, context: Context
    ) -> CurvePrediction:
        """The regression's time against its own without a limit."""
        weights = np.array([fit.get(name) or 0.0 for name in _PARAMETERS])
        function = _slowdown_function(weights, curve, context)
        if len(curve.unlimited_seconds):
            unlimited_s = curve.unlimited_s
        else:
            x = _features(curve, np.array([np.inf]), context)
            unlimited_s = float(np.exp(weights[0] + x[0] @ weights[1:]))
        return conformal_prediction(unlimited_s, function, limit_bytes, fit.get(REACH))


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
    except CannotPredictError:
        return None
    y = np.log(curve.unlimited_s * np.array([1.0, *curve.medians]))
    return _Rows(curve, curve.workload_network, x, y)


def _features(curve: Curve, limit_bytes: FloatArray, context: Context) -> FloatArray:
    """One row a limit; ``inf`` is none."""
    workload = inference_for(curve, context)
    here = [curve.network] if curve.network in workload.networks else list(workload.networks)
    weights, largest, of_table = context.once(
        ("brouwer", *here), lambda: _of_tables(here, context.tables)
    )
    of_limit = np.log1p(
        np.array([weights, weights + _BESIDE_BYTES, largest])[None, :] / limit_bytes[:, None]
    )
    of_limit = np.concatenate([of_limit, of_limit[:, :2] ** 2], axis=1)
    kind = (curve.phase, workload.schedule, workload.loader)
    flags = [float(name in kind) for name in (*INFERENCE, *_SCHEDULES, *_LOADERS)]
    fixed = np.concatenate([flags, *(of_table * (phase == curve.phase) for phase in INFERENCE)])
    moving = [
        of_limit * (phase == curve.phase and load == workload.loader)
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
    return lasso_strength(x, y, list(folds))


def _stacked(rows: Sequence[_Rows]) -> tuple[FloatArray, FloatArray]:
    return np.concatenate([one.x for one in rows]), np.concatenate([one.y for one in rows])


def _slowdown_function(weights: FloatArray, curve: Curve, context: Context) -> SlowdownFunction:
    x = _features(curve, np.exp(np.append(_LN_LIMITS, np.inf)), context)
    ln_time = x @ weights[1:]
    return never_rising(_LN_LIMITS, ln_time[:-1] - ln_time[-1])
