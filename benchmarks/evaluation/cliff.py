"""The form ``cliff``: five numbers a loader tell which bytes a round reads again.

A round needs N = W + a + b · workspace + c · layers. Below that it misses a part of its weights,

    misses = min(1, ((N − L) / N / r)^q)

and each execution reads so much of them again. The start also moves the idle runtime once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgebench.slowdown.context import CannotPredictError, Context
from edgebench.slowdown.counted import storage_costs
from edgebench.slowdown.curves import WHOLES, Curve, FloatArray
from edgebench.slowdown.models.unlimited_time import fit_unlimited_times
from edgebench.slowdown.simulator.profile import device_for, workload_for
from edgebench.slowdown.simulator.workload import Workload
from edgebench.slowdown.slowdown_function import SlowdownFunction, never_rising

_MIB = float(1 << 20)
#: MiB beside weights; workspaces; MiB a layer; where nothing is left; how steeply; idle runtime.
_STARTS = ((30.0, 1.0, 0.05, 0.3, 0.7, 0.7), (60.0, 1.0, 0.2, 0.1, 1.0, 1.0))
_LOW, _HIGH = (0.0, 0.0, 0.0, 0.01, 0.1, 0.0), (400.0, 5.0, 2.0, 1.0, 4.0, 3.0)
_LIMITS = np.geomspace(8 << 20, 16 << 30, 500)


@dataclass(frozen=True)
class _Table:
    """What a layer table tells, in MiB."""

    weights: float
    workspace: float
    layers: int
    passes: int


def _table(work: Workload) -> _Table:
    layers = [layer for table in work.tables for layer in table]
    spaces = [
        (layer.live.peak_bytes if layer.live else layer.output_bytes)
        + (sum(layer.live.workspace_bytes) if layer.live else 0)
        for layer in layers
    ]
    again = work.passes - (work.loader == "mmap")
    held = work.weight_bytes if work.schedule == "bulk" else max(one.file_bytes for one in layers)
    return _Table(held / _MIB, max(spaces, default=0) / _MIB, len(layers), max(1, again))


class Cliff:
    """Learnt from curves; asked for any of the same device."""

    def __init__(self, curves: Sequence[Curve], context: Context) -> None:
        self._context = context
        self._times = fit_unlimited_times(curves, context)
        rows: dict[str, list[tuple[Curve, _Table]]] = {}
        self._factor: dict[tuple[object, ...], float] = {}
        for curve in curves:
            if curve.phase in WHOLES and len(curve.limits) and len(curve.unlimited_seconds):
                try:
                    work = workload_for(curve, context)
                    device_for(curve, context)
                except CannotPredictError:
                    continue
                if not work.overlaps:
                    rows.setdefault(work.loader, []).append((curve, _table(work)))
        self._found = {loader: self._fit(own) for loader, own in rows.items()}
        for loader, own in rows.items():
            self._learn_factors(own, self._found[loader])

    def function(self, curve: Curve) -> tuple[float, SlowdownFunction]:
        """Unlimited seconds, and slowdowns.

        Raises:
            CannotPredictError: no table, no constants, or nothing learnt of its loader.
        """
        work = workload_for(curve, self._context)
        found = self._found.get(work.loader)
        if found is None or work.overlaps:
            raise CannotPredictError("nothing was learnt of such a workload")
        unlimited_s = self._times.seconds(curve, self._context)
        added = self._added(curve, _table(work), found, _LIMITS, unlimited_s)
        added *= self._factor.get(_kind(curve), 1.0)
        return unlimited_s, never_rising(np.log(_LIMITS), np.log1p(added / unlimited_s))

    def _added(
        self, curve: Curve, table: _Table, at: FloatArray, limits: FloatArray, unlimited_s: float
    ) -> FloatArray:
        a, b, c, r, q, idle = at
        need = table.weights + a + b * table.workspace + c * table.layers
        size = limits / _MIB
        misses = np.minimum(1.0, (np.maximum(need - size, 0.0) / need / r) ** q)
        calibration = self._context.calibration or self._context.assumed
        assert calibration is not None
        costs = storage_costs(calibration)
        again = misses * table.weights * table.passes * _MIB
        seconds = again * costs.again_s(curve.settings.get("loader"))
        device = device_for(curve, self._context)
        if device.held_in_s and costs.waits:
            # What is not waiting for files is computed while the disk reads.
            loads = table.weights * _MIB * costs.file_s
            seconds = np.maximum(seconds - max(0.0, unlimited_s - loads), 0.0)
        if curve.phase != "total":
            base = device.base.bytes / _MIB
            moved = np.clip(base + need - size, 0.0, base) * _MIB
            seconds = seconds + idle * moved * device.costs.out_s
        return np.asarray(seconds)

    def _fit(self, rows: Sequence[tuple[Curve, _Table]]) -> FloatArray:
        from scipy.optimize import least_squares

        def off(at: FloatArray) -> FloatArray:
            errors = []
            for curve, table in rows:
                added = self._added(curve, table, at, curve.limits, curve.unlimited_s)
                told = np.log1p(added / curve.unlimited_s)
                errors.append((told - np.log(curve.medians)) / np.sqrt(len(told)))
            return np.concatenate(errors) / 0.2

        tried = [
            least_squares(off, start, bounds=(_LOW, _HIGH), loss="soft_l1") for start in _STARTS
        ]
        return np.asarray(min(tried, key=lambda one: one.cost).x)

    def _learn_factors(self, rows: Sequence[tuple[Curve, _Table]], at: FloatArray) -> None:
        shown: dict[tuple[object, ...], list[float]] = {}
        for curve, table in rows:
            if curve.settings.get("threads") == 1:
                continue
            added = self._added(curve, table, at, curve.limits, curve.unlimited_s)
            seen = (curve.medians - 1) * curve.unlimited_s
            known = (curve.medians >= 1.5) & (added > curve.unlimited_s / 4)
            if known.any():
                shown.setdefault(_kind(curve), []).append(
                    float(np.median(seen[known] / added[known]))
                )
        self._factor = {
            **self._factor,
            **{kind: float(np.median(own)) for kind, own in shown.items()},
        }


def _kind(curve: Curve) -> tuple[object, ...]:
    return curve.phase, curve.settings.get("loader"), curve.settings.get("threads")
