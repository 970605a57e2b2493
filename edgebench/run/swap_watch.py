"""Reads during a trial how much other swap areas than its own grow: a thread of the harness.

The kernel fills areas in the order of their priorities, whoever swaps. So a trial can get its swap
from another area, whose size and speed are not those that were asked for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec.structs import replace

from edgebench.cgroups.interface import HotFiles
from edgebench.records import Doubt, TrialRecord
from edgebench.swap_areas import SwapArea

_INTERVAL_S = 0.1
#: What is in no area's count for a moment: slots that each CPU keeps, pages on their way.
_UNCERTAIN_BYTES = 1 << 20
KEY = "other_swap_bytes"


class SwapWatch:
    """Reads within a ``with`` block; then :meth:`told` completes the trial's record.

    Args:
        own: the trial's own area; None: it has none, and nothing is read.
        read_areas: reads the machine's swap areas; None where they can't be read.
        read_group: reads how much swap the trial's cgroup has in use; None: not known.
    """

    def __init__(
        self,
        own: Path | None,
        read_areas: Callable[[], Mapping[Path, SwapArea] | None],
        read_group: Callable[[], int | None],
    ) -> None:
        self._own, self._read_areas, self._read_group = own, read_areas, read_group
        self._before: Mapping[Path, SwapArea] | None = None
        self._grown_bytes: int | None = None
        self._elsewhere_bytes = 0
        self._where: list[str] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="swap", daemon=True)

    def __enter__(self) -> SwapWatch:
        """Begin."""
        self._before = self._read_areas() if self._own else None
        if self._before is not None:
            self._grown_bytes = 0
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End."""
        self._ended.set()
        if self._before is not None:
            self._thread.join()

    def told(self, record: TrialRecord) -> TrialRecord:
        """Add what was read to the record, and a doubt if the trial's own area was passed over."""
        if self._own is None:
            return record
        if self._grown_bytes is None:
            why = "/proc/swaps can't be read"
            return replace(record, missing={**record.missing, KEY: why})
        doubts = record.doubts
        if self._elsewhere_bytes > _UNCERTAIN_BYTES:
            elsewhere = {"swap_bytes": float(self._elsewhere_bytes)}
            doubts = [*doubts, Doubt("other_swap_area", elsewhere, self._where)]
        return replace(record, other_swap_bytes=self._grown_bytes, doubts=doubts)

    def _run(self) -> None:
        while not self._ended.wait(_INTERVAL_S):
            self.read()

    def read(self) -> None:
        """One reading."""
        group = self._read_group()
        areas = self._read_areas()
        after = self._read_group()
        if self._own is None or areas is None or self._before is None:
            return
        others = {name: area.used_bytes for name, area in areas.items() if name != self._own}
        growth = {name: used - _used(self._before, name) for name, used in others.items()}
        grown = {name: more for name, more in growth.items() if more > 0}
        total = sum(grown.values())
        self._grown_bytes = max(self._grown_bytes or 0, total)
        if group is None or after is None:
            return
        # The lesser of the two: it may swap, or give swap back, between the readings.
        elsewhere = min(total, min(group, after) - _used(areas, self._own))
        if elsewhere > self._elsewhere_bytes:
            self._elsewhere_bytes = elsewhere
            self._where = sorted(map(str, grown))


def _used(areas: Mapping[Path, SwapArea], name: Path) -> int:
    return areas[name].used_bytes if name in areas else 0


def group_swap(hot: HotFiles) -> Callable[[], int | None]:
    """Return a function that reads the cgroup's swap in use without flushing statistics."""

    def read() -> int | None:
        if hot.swap is None:
            return None
        try:
            usage = int(hot.usage.read_text(errors="replace")) if hot.swap_is_memsw else 0
            return int(hot.swap.read_text(errors="replace")) - usage
        except OSError:
            return None

    return read
