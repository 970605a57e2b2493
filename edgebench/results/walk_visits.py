"""Which trials are visits of one walk: the one rule by which tables and frames tell.

A walk's records are written together, that of its first visit, without a limit, before the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

#: The number of what is of no walk.
NO_WALK = -1


def walk_numbers(steps: Iterable[float]) -> list[int]:
    """Each trial's walk, numbered from 0; :data:`NO_WALK` of a fresh one.

    Args:
        steps: of each trial in the order of their records, which of its walk's visits it is; NaN
            of a fresh one.
    """
    found, number = [], NO_WALK
    for step in steps:
        number += step == 0
        found.append(number if step >= 0 else NO_WALK)
    return found


def is_one_walk(walks: Iterable[int]) -> bool:
    """Whether trials that finished are visits of a single walk: then its rounds are the repeats.

    Args:
        walks: their numbers.
    """
    found = set(walks)
    return len(found) == 1 and NO_WALK not in found


def unlimited_around(walks: Sequence[int], around_s: Sequence[float]) -> dict[int, float]:
    """Row of a walk's visit → seconds of a steady round without a limit at that time.

    Where the walk had none afterwards, for it was killed, the one before.

    Args:
        walks: each row's, as :func:`walk_numbers` has them.
        around_s: what its record says of that round; NaN where there was none.
    """
    found: dict[int, float] = {}
    known_s: dict[int, float] = {}
    for row, (walk, own_s) in enumerate(zip(walks, around_s, strict=True)):
        if not math.isnan(own_s):
            known_s[walk] = own_s
        if walk != NO_WALK and known_s.get(walk, 0.0) > 0:
            found[row] = known_s[walk]
    return found
