"""A row of a layer table, and the sizes of a whole table; no torch, for all engines use it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class LayerTableRow:
    """One layer. Bytes at the network's own precision; ``flops`` of one forward pass.

    ``part`` names the module whose weights it uses: two layers may share one. A row of a
    container's own parameters has type ``… (own)`` and no output. ``live_…_bytes`` are the
    tensors alive before, at most during, and after its execution, the network's input among them
    and weights not; ``workspace_bytes`` is what convolutions copy beside the most of these.
    ``tied_bytes``: of its weights those that other parts use too, by name; they are loaded once.
    """

    order: int
    name: str
    type: str
    part: str
    parameter_bytes: int
    buffer_bytes: int
    output_bytes: int
    flops: int
    live_before_bytes: int = 0
    live_peak_bytes: int = 0
    live_after_bytes: int = 0
    workspace_bytes: int = 0
    file: str | None = None
    file_bytes: int = 0
    tied_bytes: dict[str, int] = field(default_factory=dict)


def table_with_sizes(rows: Sequence[LayerTableRow]) -> dict[str, Any]:
    """A network's table and sizes, as a manifest has them; a part used twice counts once."""
    first = {row.part: row for row in reversed(rows)}.values()
    return {
        "table": [asdict(row) for row in rows],
        "parameter_bytes": sum(row.parameter_bytes for row in first),
        "file_bytes": sum(row.file_bytes for row in first),
    }
