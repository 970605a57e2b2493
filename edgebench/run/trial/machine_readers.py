"""Readers of the machine while a trial runs: what disturbs it, and its swap areas."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgebench.cgroups.interface import HotFiles
from edgebench.measures.machine.noise import NoiseWatch
from edgebench.records import Doubt
from edgebench.run.trial.readers import Finished, Reader
from edgebench.swap_areas import SwapArea

_NOISE_INTERVAL_S, _SWAP_INTERVAL_S = 1.0, 0.1
#: What is in no area's count for a moment: slots that each CPU keeps, pages on their way.
_UNCERTAIN_BYTES = 1 << 20
OTHER_SWAP = "other_swap_bytes"


class NoiseReader(Reader[dict[str, Any]]):
    """Reads what disturbs the machine; fills a record's ``noise``."""

    keys = ("noise",)

    def __init__(self) -> None:
        self._watch = NoiseWatch()

    def start(self) -> None:
        """Note how the machine stands."""
        self._watch.start()

    def poll(self) -> float:
        """Look for what shows only while it lasts."""
        self._watch.look()
        return _NOISE_INTERVAL_S

    def stop(self, finished: Finished) -> dict[str, Any]:
        """Return what went on besides the trial."""
        cpu_ns = finished.counters.cpu_ns
        return self._watch.stop(None if cpu_ns is None else cpu_ns / 1e9)


@dataclass(frozen=True)
class SeenSwap:
    """By how much other swap areas grew (None: not known), doubts of that, and what is missing."""

    other_bytes: int | None = None
    doubts: list[Doubt] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)


class SwapReader(Reader[SeenSwap]):
    """Reads whether a trial's swap goes to another area than its own.

    The kernel fills areas in the order of their priorities, whoever swaps. So a trial can get its
    swap from another area, whose size and speed are not those that were asked for.

    Args:
        own: the trial's own area.
        read_areas: reads the machine's swap areas; None where they can't be read.
        read_group: reads how much swap the trial's cgroup has in use; None: not known.
    """

    keys = (OTHER_SWAP,)

    def __init__(
        self,
        own: Path,
        read_areas: Callable[[], Mapping[Path, SwapArea] | None],
        read_group: Callable[[], int | None],
    ) -> None:
        self._own, self._read_areas, self._read_group = own, read_areas, read_group
        self._before: Mapping[Path, SwapArea] | None = None
        self._grown_bytes = self._elsewhere_bytes = 0
        self._where: list[str] = []

    def start(self) -> None:
        """Note what lies in the areas."""
        self._before = self._read_areas()

    def poll(self) -> float:
        """Read the areas, and the trial's swap before and after them."""
        group, areas, after = self._read_group(), self._read_areas(), self._read_group()
        if areas is None or self._before is None:
            return _SWAP_INTERVAL_S
        others = {name: area.used_bytes for name, area in areas.items() if name != self._own}
        growth = {name: used - _used(self._before, name) for name, used in others.items()}
        grown = {name: more for name, more in growth.items() if more > 0}
        total = sum(grown.values())
        self._grown_bytes = max(self._grown_bytes, total)
        if group is not None and after is not None:
            # The lesser of the two: it may swap, or give swap back, between the readings.
            elsewhere = min(total, min(group, after) - _used(areas, self._own))
            if elsewhere > self._elsewhere_bytes:
                self._elsewhere_bytes = elsewhere
                self._where = sorted(map(str, grown))
        return _SWAP_INTERVAL_S

    def stop(self, finished: Finished) -> SeenSwap:
        """Return the growth, and a doubt if the trial's own area was passed over."""
        if self._before is None:
            return SeenSwap(missing={OTHER_SWAP: "/proc/swaps can't be read"})
        doubts = []
        if self._elsewhere_bytes > _UNCERTAIN_BYTES:
            elsewhere = {"swap_bytes": float(self._elsewhere_bytes)}
            doubts = [Doubt("other_swap_area", elsewhere, self._where)]
        return SeenSwap(self._grown_bytes, doubts)


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
