"""Samples of any length, as the sampler's tables are kept."""

from __future__ import annotations

import random
from array import array
from pathlib import Path

import numpy as np

from edgebench.cgroups.sampler_process import FAST_COLUMNS


def write_samples(path: Path, rows: int) -> array[int]:
    chance = random.Random(5)
    usage = array("q", (chance.randrange(10**6, 10**9) for _ in range(rows)))
    fast = np.zeros(rows, dtype=[(name, "<i8") for name in FAST_COLUMNS])
    fast["t_ns"] = np.arange(rows) * 10**6 + 10**12
    fast["usage_bytes"] = usage
    fast["swap_bytes"] = -1
    stat = np.zeros(max(1, rows // 10), dtype=[("t_ns", "<i8"), ("anon_bytes", "<i8")])
    np.savez_compressed(path, fast=fast, stat=stat)
    return usage
