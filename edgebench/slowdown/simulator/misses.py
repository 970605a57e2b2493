"""What each task of a workload moves because it did not stay in memory, at every limit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgebench.slowdown.simulator.memory_group import Memory, MemoryGroup
from edgebench.slowdown.simulator.references import FloatArray, IntArray, References

#: So many references, at all limits together, take as long as some processes take to begin.
_FEW = 200_000
#: Limits are handed out in so many parts; each has tight ones, which take longest.
_PARTS = 8


@dataclass(frozen=True)
class Missed:
    """Bytes that move because they did not stay, for each task and limit.

    Arrays of shape (tasks, limits): ``in_bytes`` come back from swap, ``scattered_bytes`` of them
    not helped by read-ahead; ``out_bytes`` go there; ``file_bytes`` are read from their file again;
    ``reclaimed_bytes`` are what made room, whatever became of it.
    """

    in_bytes: FloatArray
    scattered_bytes: FloatArray
    out_bytes: FloatArray
    file_bytes: FloatArray
    reclaimed_bytes: FloatArray


def missed(references: References, tasks: int, limit_bytes: FloatArray, memory: Memory) -> Missed:
    """What each task misses; the runtime's import is left out.

    Args:
        references: the string.
        tasks: how many tasks there are.
        limit_bytes: the limits.
        memory: what the kind of swap decides.
    """
    found = np.zeros((5, tasks, len(limit_bytes)))
    # Where all of it fits nothing is ever reclaimed.
    tight = np.flatnonzero(limit_bytes < references.held_bytes)
    steps = references.steps()

    def counts(columns: IntArray) -> FloatArray:
        made = np.zeros((5, tasks, len(columns)))
        for place, limit in enumerate(limit_bytes[columns]):
            group = MemoryGroup(references, tasks, float(limit), memory)
            group.run(steps)
            made[:, :, place] = group.counts[:, :tasks]
        return made

    if len(tight) * len(references) < _FEW:
        found[:, :, tight] = counts(tight)
        return Missed(*found)
    from edgebench.parallel import begun_in_parallel

    parts = [part for n in range(_PARTS) if len(part := tight[n::_PARTS])]
    with begun_in_parallel(counts, parts) as counted:
        for part, own in zip(parts, counted(), strict=True):
            found[:, :, part] = own
    return Missed(*found)
