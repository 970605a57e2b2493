"""Set-up and clean-up of what trials share: the parent cgroup, swap, a scratch folder."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgebench.boards import parse_storage
from edgebench.cgroups.leftovers import Ownership, clear_leftovers
from edgebench.cgroups.parent import ParentCgroup, find_parent
from edgebench.cgroups.storage import RamDisk
from edgebench.cgroups.swap import SwapControl
from edgebench.measures.gnu_time import find_gnu_time
from edgebench.measures.machine.system_files import SystemFiles, usable_ram_bytes
from edgebench.processes import Identity, caller_identity
from edgebench.run.trial.storage import StorageControl, StoragePlaces, weights_of
from edgebench.run.trial.used_files import UsedFiles
from edgebench.safe_files import make_private_folder
from edgebench.safe_folders import is_own_place
from edgebench.text import AS_IS

if TYPE_CHECKING:
    from edgebench.scenario.points import Point


@dataclass(frozen=True)
class TrialSetup:
    """What every trial of a sweep is measured with.

    ``interval_s`` is how often the sampler reads usage; None: every millisecond while it changes.
    ``stat_interval_s`` is how often ``memory.stat`` is read where it is; None: every 10 ms while
    usage changes. ``statistics_always`` has it read in timed trials under a memory limit too, which
    can prevent a kill.
    ``storage`` holds disks to the speed that a trial asks for.
    ``files`` of programs are evicted before each trial; with ``starts_cold`` the first one is made
    again where it found them in the page cache, and those under a limit are not looked at.
    """

    parent: ParentCgroup
    gnu_time: Path
    storage: StorageControl
    identity: Identity | None = None
    interval_s: float | None = None
    stat_interval_s: float | None = None
    echo: Callable[[bytes], None] | None = None
    statistics_always: bool = False
    starts_cold: bool = True
    files: UsedFiles = field(default_factory=UsedFiles)


@dataclass(frozen=True)
class Session:
    """What trials share; all of it is removed at the end.

    ``cleared`` says what a crashed sweep had left and was cleaned up.
    """

    setup: TrialSetup
    swap: SwapControl
    folder: Path
    cleared: tuple[str, ...]

    def reserve_ram_disk(self, points: Iterable[Point], manifest: Mapping[str, Any]) -> None:
        """Make the disk in memory for the largest swap and all weights, if a point has it.

        Raises:
            MachineError: there is not enough memory for it; says why.
        """
        own = [point for point in points if parse_storage(point.limits.storage).ram]
        if not own:
            return
        folders = {Path(f) for one in own for f in weights_of(one.settings, manifest).values()}
        every = (file.lstat() for folder in folders for file in folder.rglob("*"))
        files = [found for found in every if stat.S_ISREG(found.st_mode)]
        swap = [one.limits.swap_bytes or 0 for one in own if one.limits.swap_kind == "file"]
        # Each file ends in a page of its own.
        room = sum(found.st_size + 4096 for found in files) + max(swap, default=0)
        self.swap.off()
        self.setup.storage.ram_disk.need(room)

    def prove_storage(
        self, points: Iterable[Point], manifest: Mapping[str, Any], stage: Callable[[str], None]
    ) -> None:
        """Prove each storage speed once, so that one that can't be held is reported at once.

        Raises:
            MachineError, CgroupError: as :meth:`edgebench.run.trial.storage.StorageControl.hold`.
        """
        held = [point for point in points if point.limits.storage != AS_IS]
        kinds = {(p.limits.swap_kind, p.limits.swap_bytes, p.limits.storage): p for p in held}
        for (kind, size_bytes, label), point in kinds.items():
            stage(f"checking that the disk is held to {label}")
            self.setup.storage.use(kind, size_bytes, label)
            weights = self.setup.storage.weights(weights_of(point.settings, manifest), label)
            self.setup.storage.hold(label, StoragePlaces.of(point.settings, weights))


@contextmanager
def open_session(
    *,
    interval_s: float | None = None,
    stat_interval_s: float | None = None,
    echo: Callable[[bytes], None] | None = None,
    statistics_always: bool = False,
    starts_cold: bool = True,
) -> Iterator[Session]:
    """Clean up after crashed sweeps, then set up; what is made is noted first, to be found again.

    The arguments are those of :class:`~edgebench.run.trial.trial.TrialSetup`.

    Raises:
        CgroupError: no cgroup can be made here (says why, and how to fix it).
        MachineError: no GNU time.
    """
    gnu_time = find_gnu_time()
    cleared = clear_leftovers()
    with Ownership() as ownership:
        parent = find_parent(ownership)
        folder, identity = claimed_folder(ownership), caller_identity()
        room = partial(usable_ram_bytes, SystemFiles(), parent.ceiling_bytes)
        # Swap is off before the disk that it may lie on goes.
        with RamDisk(ownership, room) as ram_disk, SwapControl(ownership) as swap:
            storage = StorageControl(parent, swap, ram_disk, ownership)
            setup = TrialSetup(
                *(parent, gnu_time, storage, identity, interval_s, stat_interval_s, echo),
                statistics_always=statistics_always,
                starts_cold=starts_cold,
            )
            yield Session(setup, swap, folder, tuple(cleared))


def claimed_folder(ownership: Ownership) -> Path:
    """Return a new private folder, removed with all else that is owned.

    Under sudo the workload reaches the files in it that are the caller's, and can add none.

    Raises:
        MachineError: what is made can't be recorded.
    """
    place = Path(tempfile.gettempdir())
    if os.geteuid() == 0 and not is_own_place(place):
        # A folder of sudo's caller, who could put a link in the place of ours.
        place = Path("/tmp")  # noqa: S108 - a private folder is made in it
    folder = place / f"edgebench-{os.urandom(6).hex()}"
    ownership.claim("temp-folder", str(folder))
    make_private_folder(folder, reachable=caller_identity() is not None)
    return folder
