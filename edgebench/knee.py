"""The knee of a miss curve: where a workload begins to read its memory again in every round."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

#: Rounds read the same if they differ by no more: as a share, and in bytes (64 pages of 4 KiB,
#: which the kernel charges at once).
EQUAL_SHARE, EQUAL_BYTES = 0.01, 64 * 4096
#: Fewer bytes are no plateau: what a runtime reads now and then.
LEAST_PLATEAU_BYTES = 1 << 20
#: The tightest limit lies on the plateau if the next wider one reads at least this share of it.
FLAT_SHARE = 0.8
#: Where added bytes pass this share of the plateau, the knee is.
KNEE_SHARE = 0.5

#: Why a workload has no knee: nothing was measured at a limit (``no_limits``) or counted
#: (``no_counts``), there are no steady rounds (``no_rounds``), nothing was read again
#: (``never_read``), a kill came before a plateau (``killed``), it still read more at the tightest
#: limit (``rising``), or it read as much at the widest (``wider``).
NoKnee = Literal["no_limits", "no_rounds", "no_counts", "never_read", "killed", "rising", "wider"]


@dataclass(frozen=True)
class Knee:
    """What the added bytes of one direction come to.

    Args:
        plateau_bytes: what a round reads again where a tighter limit hardly adds to it.
        knee_bytes: the limit where the added bytes pass half of the plateau.
        between: the tighter limit, at which they do, and the wider one, at which they don't.
        missing: why there is no knee; None: there is one.
    """

    plateau_bytes: int | None = None
    knee_bytes: int | None = None
    between: tuple[int, int] | None = None
    missing: NoKnee | None = None


def equal_bytes(one: float, other: float) -> bool:
    """Whether two rounds read the same."""
    return abs(one - other) <= max(EQUAL_BYTES, EQUAL_SHARE * max(one, other))


def find_knee(added: Mapping[int, int], killed_bytes: int | None = None) -> Knee:
    """The knee of one direction.

    Args:
        added: limit → bytes that a steady round reads again there.
        killed_bytes: the largest limit at which the workload was killed; None: at none.
    """
    limits = sorted(added)
    if not limits:
        return Knee(missing="killed" if killed_bytes else "no_limits")
    if max(added.values()) < LEAST_PLATEAU_BYTES:
        return Knee(missing="killed" if killed_bytes else "never_read")
    plateau = plateau_of(added)
    if plateau is None:
        return Knee(missing="killed" if killed_bytes else "rising")
    half = KNEE_SHARE * plateau
    low = max(limit for limit in limits if added[limit] > half)
    high = min((limit for limit in limits if limit > low), default=None)
    if high is None:
        return Knee(plateau, missing="wider")
    share = (added[low] - half) / (added[low] - added[high])
    knee = math.exp(math.log(low) + share * math.log(high / low))
    return Knee(plateau, round(knee), (low, high))


def plateau_of(added: Mapping[int, int]) -> int | None:
    """The median bytes of the tightest limits that read alike; None: they don't, or read little."""
    limits = sorted(added)
    tight = added[limits[0]] if limits else 0
    flat = list(itertools.takewhile(lambda limit: added[limit] >= FLAT_SHARE * tight, limits))
    if len(flat) < 2:
        return None
    plateau = int(statistics.median(added[limit] for limit in flat))
    return plateau if plateau >= LEAST_PLATEAU_BYTES else None
