"""Slowdown on a walk's way up, where the way down left its traces; no model is fitted to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from edgebench.slowdown.curves import Curve, FloatArray
from edgebench.slowdown.trial_seconds import seconds_by_trial
from edgebench.storage_speed import AS_IS

if TYPE_CHECKING:
    import pandas as pd

    from edgebench.results.results import Results


def upward_seconds(results: Results) -> pd.DataFrame | None:
    """One row per limit, network and phase of the way up; None where nothing was walked."""
    if not any(len(sweep.upward_records) for sweep in results.sweeps):
        return None
    return seconds_by_trial(results.upward)


def upward_slowdown(curve: Curve, upward: pd.DataFrame) -> tuple[FloatArray, FloatArray]:
    """Limits in bytes and slowdowns of the way up of a curve's workload, one a visit."""
    own = (upward["network"] == curve.network) & (upward["phase"] == curve.phase)
    for name, value in {"storage": AS_IS, **curve.settings}.items():
        if name in upward:
            own &= upward[name] == value
    rows = upward[own].sort_values("memory_bytes")
    seconds = rows["seconds"].to_numpy(dtype=np.float64)
    return rows["memory_bytes"].to_numpy(dtype=np.float64), seconds / curve.unlimited_s
