"""Checks of what makes times unsteady or memory hard to account for on this machine."""

from __future__ import annotations

import os
import time
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgebench.checks.base import Advice, Check
from edgebench.machine.machine import (
    CPU_FREQUENCY,
    PAGE_REPORTING,
    Machine,
    UnreadableError,
    ram_bytes,
)
from edgebench.machine.noise import NoiseWatch, noise_warnings
from edgebench.units import format_size

if TYPE_CHECKING:
    from edgebench.cgroups.place import Place

#: The runtime alone takes a good part of this.
_RAM_WARN_BYTES = 1 << 30
_LOOK_S = 0.25
#: The page allocator's largest block (``MAX_PAGE_ORDER``); a larger order reports nothing.
_LARGEST_ORDER = 10

RAM_REMEDY = "end other programs, or keep to limits below what is available"
GOVERNOR_REMEDY = (
    "echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"
)
THP_REMEDY = "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled"
FREE_PAGES_REMEDY = (
    "echo 11 | sudo tee /sys/module/page_reporting/parameters/page_reporting_order  "
    "(until the next boot), or take `rounds` of 2 and more and look at the later ones"
)
GPU_REMEDY = "measure on the CPU, and take no memory of the GPU for measured"


class Ram(Check):
    """RAM that is free to use, and what holds us below it."""

    name = "RAM"

    def __init__(self, place: Place | None, machine: Machine) -> None:
        self._place = place
        self._machine = machine

    @cached_property
    def _usable_bytes(self) -> int:
        available = self._machine.field("proc/meminfo", ["MemAvailable"])
        ceiling = self._place.ceiling_bytes if self._place else None
        return min(int(available.split()[0]) * 1024, ceiling or ram_bytes(self._machine))

    def show(self) -> str:
        """What a trial could have."""
        total = format_size(ram_bytes(self._machine))
        return f"{format_size(self._usable_bytes)} usable of {total}"

    def advise(self) -> Advice | None:
        """Little is not none: a warning."""
        return Advice("warn", RAM_REMEDY) if self._usable_bytes < _RAM_WARN_BYTES else None


class _OneFile(Check):
    """A setting of the kernel that is read from one file."""

    path: str
    remedy: str

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def available(self) -> str | None:
        """Whether the kernel has the file."""
        try:
            self._machine.text(self.path)
        except UnreadableError as reason:
            return str(reason)
        return None

    def show(self) -> str:
        """The setting."""
        return self._machine.chosen(self.path)

    def advise(self) -> Advice | None:
        """The command that mends it."""
        return None if self._good(self.show()) else Advice("warn", self.remedy)

    def _good(self, setting: str) -> bool:
        raise NotImplementedError


class Governor(_OneFile):
    """A governor that changes the clock rate makes times depend on what ran before."""

    name = "CPU governor"
    path = f"{CPU_FREQUENCY}/scaling_governor"
    remedy = GOVERNOR_REMEDY

    def _good(self, setting: str) -> bool:
        return setting == "performance"


class HugePages(_OneFile):
    """Transparent huge pages for all inflate resident memory by what was never touched."""

    name = "huge pages"
    path = "sys/kernel/mm/transparent_hugepage/enabled"
    remedy = THP_REMEDY

    def _good(self, setting: str) -> bool:
        return setting != "always"


class FreePages(Check):
    """A hypervisor that takes free memory back makes its next first touch several times slower.

    The guest reports free pages through its balloon device (Linux 5.7,
    ``mm/page_reporting.c``; bit 5 of virtio-balloon's features, virtio 1.2 section 5.5.3).
    """

    name = "free memory"
    _FEATURE = 5

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    @cached_property
    def _reports(self) -> bool:
        balloons = self._machine.each("sys/bus/virtio/drivers/virtio_balloon/virtio*/features")
        return any(path.read_text()[self._FEATURE : self._FEATURE + 1] == "1" for path in balloons)

    @cached_property
    def _order(self) -> int:
        return self._machine.number(PAGE_REPORTING)

    def available(self) -> str | None:
        """Whether a balloon reports free pages."""
        if not self._reports:
            return "no hypervisor takes it back"
        try:
            return None if self._order else "no hypervisor takes it back"
        except UnreadableError as reason:
            return str(reason)

    def show(self) -> str:
        """From which size on."""
        if self._order > _LARGEST_ORDER:
            return "stays with this machine"
        size = format_size(os.sysconf("SC_PAGE_SIZE") << self._order)
        return f"the hypervisor takes pieces of {size} and more back; touching them again is slow"

    def advise(self) -> Advice | None:
        """Until the next boot."""
        return None if self._order > _LARGEST_ORDER else Advice("warn", FREE_PAGES_REMEDY)


class ForeignLoad(Check):
    """What other programs and the hypervisor take of the CPU, watched for a quarter second."""

    name = "foreign load"

    @cached_property
    def _noise(self) -> dict[str, Any]:
        watch = NoiseWatch()
        watch.start()
        time.sleep(_LOOK_S)
        return watch.stop(0.0)

    def show(self) -> str:
        """Shares of all cores' time."""
        foreign, steal = self._noise["foreign_cpu_share"], self._noise["steal_share"]
        if foreign is None or steal is None:
            return "can't be told: the kernel's CPU times stand still"
        return f"others {foreign:.0%}, hypervisor {steal:.0%} of the CPU"

    def advise(self) -> Advice | None:
        """The noise's own warnings."""
        warnings = noise_warnings(self._noise)
        return Advice("warn", "; ".join(warnings)) if warnings else None


class GpuMemory(Check):
    """A GPU's memory is charged to no cgroup, least noticed where it shares the board's RAM."""

    name = "GPU memory"
    _SIGNS = ("dev/nvidia0", "dev/nvhost-gpu", "dev/nvgpu/igpu0", "dev/kfd")

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    @cached_property
    def _found(self) -> list[Path]:
        return [path for sign in self._SIGNS for path in self._machine.each(sign)]

    def available(self) -> str | None:
        """Whether there is a GPU to speak of."""
        return None if self._found else "no GPU is seen"

    def show(self) -> str:
        """Say it loudly."""
        return f"{self._found[0]}: no limit holds a GPU's memory, no peak counts it"

    def advise(self) -> Advice | None:
        """Nothing mends it; it must be known."""
        return Advice("warn", GPU_REMEDY)
