"""What is read from outside while a trial runs, beside its cgroup, and what it leaves behind."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from edgebench.cgroups.interface import Cgroup, Counters
from edgebench.cgroups.swap import swap_ram
from edgebench.records import OutsideReport, TrialRecord
from edgebench.run.trial.record import Measured, TrialRequest
from edgebench.run.trial.round_sources import without_others
from edgebench.run.trial.session import TrialSetup
from edgebench.run.trial.swap_watch import FAST_DISK, SwapCharge, SwapWatch, group_swap
from edgebench.run.trial.used_files import PROGRAMS
from edgebench.swap_areas import read_swap_areas
from edgebench.text import printable

if TYPE_CHECKING:
    from edgebench.run.trial.accelerator_watch import AcceleratorWatch

#: Kinds of workload that calibrate a machine.
_CALIBRATING = ("scan", "hot-base")


class TrialWatch:
    """Reads within a ``with`` block, and then completes the trial's records."""

    def __init__(self, setup: TrialSetup, request: TrialRequest, cgroup: Cgroup) -> None:
        self._accelerator = _accelerator(request, cgroup)
        own = setup.storage.swap.state.device if request.limits.swap_kind != "none" else None
        self._swap = SwapWatch(own, read_swap_areas, group_swap(cgroup.hot_files()))
        self.charge = _charge(setup, request, cgroup)
        is_program = request.settings["kind"] in PROGRAMS
        self.outside = OutsideWatch(cgroup, wanted=is_program and request.strategy is None)
        self._stack = ExitStack()

    def __enter__(self) -> TrialWatch:
        """Begin."""
        self._stack.enter_context(self._swap)
        self._stack.enter_context(self.charge)
        if self._accelerator:
            self._stack.enter_context(self._accelerator)
        return self

    def __exit__(self, *_: object) -> None:
        """End."""
        self._stack.close()

    def told(self, record: TrialRecord, measured: Measured) -> TrialRecord:
        """Return the record with what was read."""
        record = self._with_accelerator(self.charge.told(self._swap.told(record)), measured)
        record = self.outside.told(record, measured.counters)
        return without_others(record, record.other_swap_bytes)

    def told_of_walk(self, records: Sequence[TrialRecord], measured: Measured) -> list[TrialRecord]:
        """Return a walk's records.

        Of swap and an accelerator the first has what was read in all of it.
        """
        first = self._with_accelerator(self.charge.told(self._swap.told(records[0])), measured)
        return [without_others(one, first.other_swap_bytes) for one in (first, *records[1:])]

    def _with_accelerator(self, record: TrialRecord, measured: Measured) -> TrialRecord:
        if self._accelerator is None:
            return record
        from edgebench.run.trial.accelerator_watch import with_accelerator

        return with_accelerator(record, measured.events, self._accelerator.readings)


def _accelerator(request: TrialRequest, cgroup: Cgroup) -> AcceleratorWatch | None:
    """Return what reads the memory of the accelerator that the trial computes on; None: on none."""
    if request.settings.get("accelerator") is None:
        return None
    from edgebench.run.trial.accelerator_watch import AcceleratorWatch

    return AcceleratorWatch(cgroup.pids)


def _charge(setup: TrialSetup, request: TrialRequest, cgroup: Cgroup) -> SwapCharge:
    """Return what counts the RAM of the trial's swap within its limit."""
    limits, state = request.limits, setup.storage.swap.state
    # A calibration measures the swap itself.
    swaps = limits.swap_kind != "none" and request.settings.get("kind") not in _CALIBRATING
    usage = cgroup.hot_files().usage
    return SwapCharge(
        swap_ram(state, setup.parent.version) if swaps else None,
        limits.memory_bytes,
        move=lambda size: cgroup.move_memory_limit(size, limits.swap_bytes, waits=False),
        used=lambda: int(usage.read_text(errors="replace")),
        files=lambda: _files_bytes(cgroup),
        swapped=group_swap(cgroup.hot_files()),
        kill=cgroup.kill,
        not_charged=FAST_DISK if request.walk else None,
    )


def _files_bytes(cgroup: Cgroup) -> int:
    """Pages of files that it is charged for."""
    counters = cgroup.read()
    return max(0, (counters.file_bytes or 0) - (counters.shmem_bytes or 0))


#: So long a process may outlive the command: helpers end a moment after it.
_GRACE_S, _PAUSE_S = 0.1, 0.005
_PROC = Path("/proc")


class OutsideWatch:
    """Looks at a trial's end; then :meth:`told` completes the trial's record.

    Args:
        cgroup: the trial's.
        wanted: whether to look at all.
    """

    def __init__(self, cgroup: Cgroup, *, wanted: bool) -> None:
        self._cgroup, self._wanted = cgroup, wanted
        #: The command's process, once it was seen.
        self.command: int | None = None
        self._left: list[str] = []

    def running(self) -> list[str]:
        """Return the names of the trial's processes that still run."""
        return [_comm(pid) for pid in self._cgroup.pids() if _is_running(pid)]

    def look_at_end(self) -> None:
        """Before all is ended: what outlived the command? Nothing, where it runs itself."""
        if not self._wanted or self.command is None or _is_running(self.command):
            return
        deadline = time.monotonic() + _GRACE_S
        while (alive := self.running()) and time.monotonic() < deadline:
            time.sleep(_PAUSE_S)
        self._left = alive

    def told(self, record: TrialRecord, counters: Counters) -> TrialRecord:
        """Return the record with what was seen.

        ``counters`` are of when its processes were gone.
        """
        if not self._wanted:
            return record
        report = OutsideReport(len(self._left), sorted(set(self._left)), counters.shmem_bytes)
        return replace(record, outside=report)


def _comm(pid: int) -> str:
    try:
        name = (_PROC / str(pid) / "comm").read_bytes()
    except OSError:
        return "unknown"
    return printable(name.decode(errors="replace").strip())


def _is_running(pid: int) -> bool:
    """Whether it exists, and is neither dead nor about to be: it still has memory."""
    try:
        return (_PROC / str(pid) / "statm").read_text(errors="replace").split()[0] != "0"
    except (OSError, IndexError):
        return False
