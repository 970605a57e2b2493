"""The readers of one trial, by its settings: of the machine, its swap areas, and the processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgebench.cgroups.interface import Cgroup, HotFiles
from edgebench.measures.machine.noise import NoiseWatch
from edgebench.records import Doubt, OutsideReport
from edgebench.run.trial.outcome import KillReader, KillReadings
from edgebench.run.trial.process_readers import (
    AcceleratorReader,
    AcceleratorReadings,
    MapsReader,
    MapsReadings,
    OutsideReader,
)
from edgebench.run.trial.readers import Finished, Reader, ReaderLoop
from edgebench.run.trial.record import TrialRequest
from edgebench.run.trial.session import TrialSetup
from edgebench.run.trial.used_files import PROGRAMS, FilesReader, FilesReadings
from edgebench.swap_areas import SwapArea, read_swap_areas

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
class SwapReadings:
    """By how much other swap areas grew (None: not known), doubts of that, and what is missing."""

    other_bytes: int | None = None
    doubts: list[Doubt] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)


class SwapReader(Reader[SwapReadings]):
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

    def stop(self, finished: Finished) -> SwapReadings:
        """Return the growth, and a doubt if the trial's own area was passed over."""
        if self._before is None:
            return SwapReadings(missing={OTHER_SWAP: "/proc/swaps can't be read"})
        doubts = []
        if self._elsewhere_bytes > _UNCERTAIN_BYTES:
            elsewhere = {"swap_bytes": float(self._elsewhere_bytes)}
            doubts = [Doubt("other_swap_area", elsewhere, self._where)]
        return SwapReadings(self._grown_bytes, doubts)


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


@dataclass(frozen=True)
class Readings:
    """What the readers of a trial saw; ``missing`` has the reasons of those that failed."""

    kills: KillReadings | None
    files: FilesReadings | None
    outside: OutsideReport | None
    accelerator: AcceleratorReadings | None
    maps: MapsReadings = field(default_factory=MapsReadings)
    swap: SwapReadings = field(default_factory=SwapReadings)
    noise: dict[str, Any] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TrialReaders:
    """The readers of one trial; None: it is not looked at so."""

    kills: KillReader
    noise: NoiseReader
    swap: SwapReader | None
    maps: MapsReader | None
    files: FilesReader | None
    outside: OutsideReader | None
    accelerator: AcceleratorReader | None

    @classmethod
    def of(
        cls, setup: TrialSetup, request: TrialRequest, cgroup: Cgroup, *, limited: bool
    ) -> TrialReaders:
        """Return the readers of a trial; ``limited``: its memory is, or will be."""
        limits, settings = request.limits, request.settings
        own_swap = setup.storage.swap.state.device if limits.swap_kind != "none" else None
        swap = cgroup.hot_files()
        is_program = settings["kind"] in PROGRAMS and request.strategy is None
        # One trial of a program on an emulated board: are its libraries too much for that?
        sizes_board = is_program and limits.board is not None and not setup.starts_cold
        reads_maps = request.strategy is None and (not limited or sizes_board)
        reads_files = is_program and not (limited and setup.starts_cold)
        waits = bool(settings.get("stop_after_s"))
        return cls(
            kills=KillReader(cgroup.path.name),
            noise=NoiseReader(),
            swap=SwapReader(own_swap, read_swap_areas, group_swap(swap)) if own_swap else None,
            maps=MapsReader(cgroup, is_limited=limited) if reads_maps else None,
            files=FilesReader(cgroup) if reads_files else None,
            outside=OutsideReader(cgroup, waits=waits) if is_program else None,
            accelerator=AcceleratorReader(cgroup.pids) if settings.get("accelerator") else None,
        )

    def all(self) -> list[Reader[Any] | None]:
        """List them, in the order in which they start."""
        return [
            *(self.kills, self.swap, self.accelerator, self.noise),
            *(self.maps, self.files, self.outside),
        ]

    def stop(self, loop: ReaderLoop, finished: Finished) -> Readings:
        """Stop them, and return what they saw."""
        accelerator = loop.stop(self.accelerator, finished)
        if self.accelerator and accelerator is None:
            accelerator = AcceleratorReadings(missing=dict(loop.missing))
        maps = loop.stop(self.maps, finished) or MapsReadings()
        swap = loop.stop(self.swap, finished) or SwapReadings()
        return Readings(
            kills=loop.stop(self.kills, finished),
            files=loop.stop(self.files, finished),
            outside=loop.stop(self.outside, finished),
            accelerator=accelerator,
            maps=maps,
            swap=swap,
            noise=loop.stop(self.noise, finished) or {},
            missing={**maps.missing, **swap.missing, **loop.missing},
        )
