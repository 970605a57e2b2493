"""The machine's swap areas, as ``/proc/swaps`` lists them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

SWAPS = Path("/proc/swaps")


@dataclass(frozen=True)
class SwapArea:
    """One line; ``kind`` is ``file`` or ``partition``."""

    used_bytes: int
    priority: int
    kind: str = "file"
    size_bytes: int = 0


def parse_swap_areas(text: str) -> dict[Path, SwapArea]:
    """Return the areas in the table's text, by their paths.

    Raises:
        ValueError: it is no such table.
    """
    areas = {}
    for line in text.splitlines()[1:]:
        name, kind, size_kib, used_kib, priority = line.split()
        used, size = int(used_kib) << 10, int(size_kib) << 10
        areas[Path(name)] = SwapArea(used, int(priority), kind, size)
    return areas


def read_swap_areas(file: Path | None = None) -> dict[Path, SwapArea] | None:
    """Return the areas now; None where they can't be read, as in some containers."""
    try:
        return parse_swap_areas((file or SWAPS).read_text(errors="surrogateescape"))
    except (OSError, ValueError):
        return None
