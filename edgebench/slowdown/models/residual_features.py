"""Features that explain the physical model's errors: of a layer table, a limit and a phase."""

from __future__ import annotations

import numpy as np

from edgebench.slowdown.context import Context
from edgebench.slowdown.curves import Curve, FloatArray
from edgebench.slowdown.simulator.profile import device_for, inference_for, profile
from edgebench.slowdown.simulator.simulation import Device
from edgebench.slowdown.simulator.workload import Workload
from edgebench.slowdown.trial_seconds import INFERENCE

_LOADERS = ("copy", "mmap")
#: Each phase with each loader has weights of its own.
_KINDS = tuple((phase, loader) for phase in INFERENCE for loader in _LOADERS)
_EACH = ("", "depth", "physical")
_ALL = ("physical", "depth", "in", "out", "file")
#: Reclaim costs time even if nothing is missed: for each byte that is charged at the limit.
_LOADING = tuple(f"load.{loader}.weights" for loader in _LOADERS)
_RUNNING = tuple(f"run.{loader}.{what}" for loader in _LOADERS for what in ("weights", "outputs"))
_AGAIN = ("again", "again·depth")
#: A limit this much below the demand counts in full, one above it not at all.
_FULL_DEPTH = 0.05
#: The names of :func:`features`' columns.
NAMES = (
    *_ALL,
    *(".".join(filter(None, (*kind, each))) for kind in _KINDS for each in _EACH),
    *(*_LOADING, *_RUNNING, *_AGAIN),
)


def features(curve: Curve, unlimited_s: float, context: Context) -> FloatArray:
    """One row a limit of the curve's profile, one column a name of :data:`NAMES`.

    All are 0 where the limit is above the demand: nothing is corrected there.

    Raises:
        CannotPredictError: no table or no calibration.
    """
    workload, device = inference_for(curve, context), device_for(curve, context)
    found = profile(curve, unlimited_s, context)
    depth, physical = np.maximum(found.depth, 0.0), np.log1p(found.io_s / unlimited_s)
    own = (np.ones_like(depth), depth, physical)
    kind = curve.phase, workload.loader
    columns = [
        *(physical, depth, *np.log1p([found.in_share, found.out_share, found.file_share])),
        *(value * (kind == other) for other in _KINDS for value in own),
        *_charged(curve.phase, workload, device, unlimited_s, depth),
    ]
    gate = np.clip(found.depth / _FULL_DEPTH, 0.0, 1.0)
    return np.asarray(np.stack(columns, axis=1) * gate[:, None])


def _charged(
    phase: str, workload: Workload, device: Device, unlimited_s: float, depth: FloatArray
) -> list[FloatArray]:
    """Logarithms of 1 + seconds / unlimited seconds, as if each byte took a first touch's time."""
    layers = [layer for table in workload.tables for layer in table]
    weights, outputs = workload.weight_bytes, sum(layer.output_bytes for layer in layers)
    touched = [np.log1p(device.touch_s * size / unlimited_s) for size in (weights, outputs)]
    again = np.log1p(device.mapped_s * weights / unlimited_s)
    ones, loads = np.ones_like(depth), phase == "load"
    here = [workload.loader == loader for loader in _LOADERS]
    return [
        *(ones * touched[0] * (loads and own) for own in here),
        *(ones * size * (own and not loads) for own in here for size in touched),
        *(also * again * (here[1] and not loads) for also in (ones, depth)),
    ]
