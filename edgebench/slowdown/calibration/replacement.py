"""Which part of a cyclic scan is missed under known replacement policies."""

from __future__ import annotations

import numpy as np

from edgebench.slowdown.simulator.references import FloatArray

#: From above Newton's method comes to the share steadily, slowest where it is near 0.
_NEWTON_STEPS = 60


def lru(distance: FloatArray, room: FloatArray) -> FloatArray:
    """Miss share under least recently used: all or nothing, M being enough for D or not."""
    return np.asarray(distance > room, dtype=np.float64)


def optimal(distance: FloatArray, room: FloatArray) -> FloatArray:
    """Miss share of a cyclic scan under optimal replacement (Belady, 1966): max(0, 1 − M/D)."""
    return np.asarray(1 - np.minimum(1.0, room / np.maximum(distance, 1.0)))


def random_replacement(distance: FloatArray, room: FloatArray) -> FloatArray:
    """Miss share m of a cyclic scan under random replacement: m = 1 − exp(−m·D/M)."""
    ratio = np.maximum(distance, 1.0) / np.maximum(room, 1e-9)
    above = np.maximum(ratio, 1.0)
    share = np.ones_like(above)
    for _ in range(_NEWTON_STEPS):
        gone = np.exp(-above * share)
        share = share - (share - 1 + gone) / np.maximum(1 - above * gone, 1e-12)
    return np.asarray(np.where(ratio > 1, share, 0.0))


def mixed(distance: FloatArray, room: FloatArray, lru_share: float) -> FloatArray:
    """Miss share θ·LRU + (1 − θ)·optimal; θ is the device's ``lru_share``."""
    return lru_share * lru(distance, room) + (1 - lru_share) * optimal(distance, room)
