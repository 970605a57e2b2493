"""Whether a trial finishes: memory that can't be dropped needs a place below the limit or in swap.

``limit + swap >= needs`` decides, but for a margin on both sides in which it is not known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edgebench.slowdown.workload import Tables, table_key

#: Edges that were measured lie within the first of what unlimited trials needed, and within the
#: second of what follows from layer tables (validation-edge, validation).
MEASURED_MARGIN, TABLE_MARGIN = 0.03, 0.08


@dataclass(frozen=True)
class Room:
    """What a workload needs beside clean file pages, and the swap that it has.

    Args:
        need_bytes: memory that can't be dropped.
        swap_bytes: what swap can take of it.
        margin: how far off the need may be, as a share.
    """

    need_bytes: float
    swap_bytes: float
    margin: float

    def finishes(self, limit_bytes: float) -> bool | None:
        """Return whether a trial finishes at a limit; None: too near to tell."""
        room = limit_bytes + self.swap_bytes
        if room >= self.need_bytes * (1 + self.margin):
            return True
        return None if room >= self.need_bytes * (1 - self.margin) else False

    @property
    def least_bytes(self) -> float:
        """The limit at which the need just fits; 0 where swap takes all of it."""
        return max(0.0, self.need_bytes - self.swap_bytes)


def mapped_bytes(tables: Tables, pipeline: str, settings: Mapping[str, Any]) -> float:
    """Return the mapped weights that are held at once: the kernel can drop them without swap."""
    held = max if settings.get("schedule") == "linear" else sum
    keys = (table_key(name, settings.get("image")) for name in pipeline.split("+"))
    tables_of = [tables[key] for key in keys if key in tables]
    files = [{row["part"]: row["file_bytes"] or 0 for row in table} for table in tables_of]
    return float(max((held(parts.values()) for parts in files if parts), default=0))
