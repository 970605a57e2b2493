"""How many bytes of weights a limit leaves room for, beside what a forward pass needs besides."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from edgebench.layers.page_advice import PageRange

#: Left free: page tables, the command's other processes, and what reclaim needs to work on.
MARGIN_BYTES = 4 << 20
#: The first pass touches what is needed only once, too; the next two what each needs.
_WATCHED, _FIRST = 3, 1
_SWAPS = Path("/proc/swaps")
_CLEAR, _MAPS = Path("/proc/self/clear_refs"), Path("/proc/self/smaps")
_MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) ")


@dataclass
class MemoryRoom:
    """What a cgroup's limit leaves for weights.

    The runtime's idle pages may go to swap, where there is some; those that a pass touches must
    stay. Which these are the kernel tells: it marks each page that is touched (Linux,
    Documentation/admin-guide/mm/pagemap.rst; ``clear_refs`` needs CONFIG_PROC_PAGE_MONITOR).

    Args:
        limit_bytes: the cgroup's limit; None: unlimited.
        swaps: whether its idle pages can be swapped out.
        free: what the limit leaves beside what is in use now, bytes; None if that is unknown.
    """

    limit_bytes: int | None
    swaps: bool
    free: Callable[[], int | None]
    _hot_bytes: int | None = field(default=None, init=False)
    _watched: int = field(default=0, init=False)

    def for_weights(self) -> int | None:
        """Bytes; None: any number. Before a pass was watched it is what is free now."""
        if self.limit_bytes is None:
            return None
        known = self.swaps and self._hot_bytes is not None
        free = self.limit_bytes - (self._hot_bytes or 0) if known else self.free()
        return max(0, (free or 0) - MARGIN_BYTES)

    @contextmanager
    def watching(self, weights: Callable[[], Sequence[PageRange]]) -> Iterator[None]:
        """Watch a pass; ``weights``: where all of its weights lie, kept or not.

        The first passes only: marking every page takes milliseconds.
        """
        useful = self.swaps and self.limit_bytes is not None and self._watched < _WATCHED
        self._watched += 1
        watched = useful and _forget_touched()
        yield
        found = _touched_bytes(weights()) if watched else None
        if found is not None:
            # Of the later ones the highest counts: a kernel that looks for pages to evict takes
            # marks away, and with too little room the cgroup is killed.
            later = self._watched > _FIRST + 1
            self._hot_bytes = max(found, self._hot_bytes or 0) if later else found


def can_swap() -> bool:
    """Whether the machine has swap (proc(5))."""
    try:
        return len(_SWAPS.read_text().splitlines()) > 1
    except OSError:
        return False


def _forget_touched() -> bool:
    try:
        _CLEAR.write_text("1")
    except OSError:
        return False
    return True


def _touched_bytes(left_out: Sequence[PageRange]) -> int | None:
    """Pages of this process in memory that were touched since, but for mappings with these pages.

    Weights that are still being dropped look touched, too.
    """
    touched, counted = 0, True
    try:
        with _MAPS.open() as lines:
            for line in lines:
                if found := _MAPPING.match(line):
                    start, end = (int(word, 16) for word in found.groups())
                    counted = not any(one.address < end and start < one.end for one in left_out)
                elif counted and line.startswith("Referenced:"):
                    touched += int(line.split()[1]) * 1024
    except OSError:
        return None
    return touched
