"""What each task of a workload moves because it did not stay in memory, at every limit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgebench.slowdown.simulator.memory_group import Memory, MemoryGroup
from edgebench.slowdown.simulator.references import FloatArray, References


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
    held = references.held_bytes
    for column, limit in enumerate(limit_bytes):
        # Where all of it fits nothing is ever reclaimed.
        if limit < held:
            group = MemoryGroup(references, tasks, float(limit), memory)
            group.run()
            found[:, :, column] = group.counts[:, :tasks]
    return Missed(*found)
