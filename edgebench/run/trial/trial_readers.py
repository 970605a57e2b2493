"""The readers of one trial, by its settings, and what all of them saw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from edgebench.cgroups.interface import Cgroup
from edgebench.records import OutsideReport
from edgebench.run.trial.machine_readers import NoiseReader, SeenSwap, SwapReader, group_swap
from edgebench.run.trial.outcome import KillReader, SeenKills
from edgebench.run.trial.process_readers import (
    FilesReader,
    MapsReader,
    OutsideReader,
    SeenFiles,
    SeenMaps,
)
from edgebench.run.trial.readers import Finished, Reader, ReaderLoop
from edgebench.run.trial.record import TrialRequest
from edgebench.run.trial.session import TrialSetup
from edgebench.run.trial.used_files import PROGRAMS
from edgebench.swap_areas import read_swap_areas

if TYPE_CHECKING:
    from edgebench.run.trial.accelerator_reader import AcceleratorReader, AcceleratorReadings


@dataclass(frozen=True)
class Seen:
    """What the readers of a trial saw; ``missing`` has the reasons of those that failed."""

    kills: SeenKills | None
    files: SeenFiles | None
    outside: OutsideReport | None
    accelerator: AcceleratorReadings | None
    maps: SeenMaps = field(default_factory=SeenMaps)
    swap: SeenSwap = field(default_factory=SeenSwap)
    noise: Mapping[str, Any] = field(default_factory=dict)
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
        accelerator = None
        if settings.get("accelerator") is not None:
            from edgebench.run.trial.accelerator_reader import AcceleratorReader

            accelerator = AcceleratorReader(cgroup.pids)
        return cls(
            kills=KillReader(cgroup.path.name),
            noise=NoiseReader(),
            swap=SwapReader(own_swap, read_swap_areas, group_swap(swap)) if own_swap else None,
            maps=MapsReader(cgroup, is_limited=limited) if reads_maps else None,
            files=FilesReader(cgroup) if reads_files else None,
            outside=OutsideReader(cgroup, waits=waits) if is_program else None,
            accelerator=accelerator,
        )

    def all(self) -> list[Reader[Any] | None]:
        """List them, in the order in which they start."""
        return [
            *(self.kills, self.swap, self.accelerator, self.noise),
            *(self.maps, self.files, self.outside),
        ]

    def stop(self, loop: ReaderLoop, finished: Finished) -> Seen:
        """Stop them, and return what they saw."""
        noise, kills = loop.stop(self.noise, finished), loop.stop(self.kills, finished)
        maps, files = loop.stop(self.maps, finished), loop.stop(self.files, finished)
        swap, outside = loop.stop(self.swap, finished), loop.stop(self.outside, finished)
        accelerator = loop.stop(self.accelerator, finished)
        if self.accelerator and accelerator is None:
            from edgebench.run.trial.accelerator_reader import AcceleratorReadings

            accelerator = AcceleratorReadings(missing=dict(loop.missing))
        maps, swap = maps or SeenMaps(), swap or SeenSwap()
        missing = {**maps.missing, **swap.missing, **loop.missing}
        return Seen(kills, files, outside, accelerator, maps, swap, noise or {}, missing)
