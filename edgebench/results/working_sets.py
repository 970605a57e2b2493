"""Working sets in the columns of trials: what of memory a workload's steady rounds need."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgebench.records import WorkingSet, field_kinds
from edgebench.results.spread import Spread, spread_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgebench.results.columns import ColumnTable

#: Columns whose sum it is; what is only cached is no part of it.
COLUMNS = tuple(f"working_set_{name}" for name in field_kinds(WorkingSet) if name != "cached_bytes")


def working_sets(columns: ColumnTable, rows: Sequence[int]) -> Spread | None:
    """Bytes, of those of these trials that were watched; None if none was."""
    parts = [columns.values(name, rows) for name in COLUMNS]
    return spread_of(map(sum, zip(*parts, strict=True)))
