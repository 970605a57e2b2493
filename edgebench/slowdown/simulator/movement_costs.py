"""What a limit's consequences cost: seconds a byte and a fault."""

from __future__ import annotations

from dataclasses import astuple, dataclass

import numpy as np

from edgebench.slowdown.simulator.references import FloatArray


@dataclass(frozen=True)
class MovementCosts:
    """Seconds that each thing takes which a limit makes necessary.

    Attributes:
        fault_s: a fault that brings something back.
        in_s, out_s, file_s: a byte that comes back from swap, goes there, or is read again from a
            mapped file, beyond what faults cost.
        reclaim_s: a byte of memory that is reclaimed for new pages.
    """

    fault_s: float
    in_s: float
    out_s: float
    file_s: float
    reclaim_s: float

    def seconds(self, moved: FloatArray) -> FloatArray:
        """The seconds of what moved: of shape (5, …), in the order of the attributes."""
        return np.asarray(np.tensordot(np.array(astuple(self)), moved, axes=1))


#: Nothing costs anything: for what only moves.
FREE = MovementCosts(0.0, 0.0, 0.0, 0.0, 0.0)
