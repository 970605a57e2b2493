"""What the physical model's errors are explained by: numbers of a table, a limit and a phase."""

from __future__ import annotations

import numpy as np

from edgebench.slowdown.data import INFERENCE, Curve, FloatArray
from edgebench.slowdown.model import Context
from edgebench.slowdown.profile import device_for, profile, workload_for

#: What a workload is called by, besides its phase; each combination has weights of its own.
_KINDS = tuple(
    (loader, schedule)
    for loader in ("copy", "mmap")
    for schedule in ("linear", "bulk", "partial", "deepeye")
)
#: A limit this much below the demand counts in full, one above it not at all.
_FULL_DEPTH = 0.05
#: Of each combination of loader, schedule and phase.
_EACH = ("", "depth", "physical")
_ALL = (
    *("physical", "depth", "depth²", "in", "out", "file", "weights", "layers", "intensity"),
    *("weights·depth", "layers·depth", "weights·physical", "layers·physical"),
)
#: The names of :func:`features`' columns.
NAMES = (
    *_ALL,
    *(".".join(filter(None, (*k, p, e))) for k in _KINDS for p in INFERENCE for e in _EACH),
)


def features(asked: Curve, unlimited_s: float, context: Context) -> FloatArray:
    """One row a limit of the curve's profile, one column a name of :data:`NAMES`.

    All are 0 where the limit is above the demand: nothing is corrected there.

    Raises:
        CannotTellError: no table or no calibration.
    """
    found = profile(asked, unlimited_s, context)
    workload = workload_for(asked, context)
    layers = [layer for table in workload.tables for layer in table]
    ones = np.ones_like(found.depth)
    depth = np.maximum(found.depth, 0.0)
    physical = np.log1p(found.io_s / unlimited_s)
    weights = np.log(max(workload.weight_bytes, 1) / device_for(asked, context).base.bytes) * ones
    count = np.log(len(layers) / 100) * ones
    moved = max(1, sum(layer.file_bytes + layer.output_bytes for layer in layers))
    intensity = np.log(sum(layer.flops for layer in layers) / moved + 1) * ones
    missed = [np.log1p(s) for s in (found.in_share, found.out_share, found.file_share)]
    every = [physical, depth, depth**2, *missed, weights, count, intensity]
    every += [weights * depth, count * depth, weights * physical, count * physical]
    own = (ones, depth, physical)
    kind = workload.loader, workload.schedule, asked.phase
    each = [
        value if kind == (*named, phase) else 0.0 * ones
        for named in _KINDS
        for phase in INFERENCE
        for value in own
    ]
    gate = np.clip(found.depth / _FULL_DEPTH, 0.0, 1.0)
    return np.asarray(np.stack([*every, *each], axis=1) * gate[:, None])
