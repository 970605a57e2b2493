"""Checks of what makes times differ from trial to trial."""

from __future__ import annotations

import os
import time

from edgebench.answers.warnings import warned, warning_lines
from edgebench.measures.machine.noise import NoiseWatch, noise_doubts
from edgebench.measures.machine.system_files import CPU_FREQUENCY, PAGE_REPORTING, UnreadableError
from edgebench.run.checks.base import CheckTarget, Observation, registered_check
from edgebench.units import format_size

_LOOK_S = 0.25
#: The page allocator's largest block (``MAX_PAGE_ORDER``); a larger order reports nothing.
_LARGEST_ORDER = 10
#: The bit among virtio-balloon's features that free pages are reported (virtio 1.2, 5.5.3).
_REPORTING_BIT = 5

GOVERNOR_REMEDY = (
    "echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"
)
THP_REMEDY = "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled"
FREE_PAGES_REMEDY = (
    "echo 11 | sudo tee /sys/module/page_reporting/parameters/page_reporting_order\n"
    "(until the next boot); or set `rounds` to 2 or more and compare the later rounds"
)


@registered_check("CPU governor")
def governor_check(target: CheckTarget) -> Observation:
    """Tell whether the clock rate changes: times depend on what ran before then."""
    setting = target.machine.chosen(f"{CPU_FREQUENCY}/scaling_governor")
    return Observation(setting, None if setting == "performance" else GOVERNOR_REMEDY)


@registered_check("huge pages")
def huge_pages_check(target: CheckTarget) -> Observation:
    """Set to ``always`` they add memory that was never touched to what is resident."""
    setting = target.machine.chosen("sys/kernel/mm/transparent_hugepage/enabled")
    return Observation(setting, THP_REMEDY if setting == "always" else None)


@registered_check("free memory")
def free_memory_check(target: CheckTarget) -> Observation:
    """Tell whether a hypervisor takes free memory back: its next first touch is slower then.

    The guest reports free pages through its balloon device (Linux 5.7, ``mm/page_reporting.c``).
    """
    balloons = target.machine.each("sys/bus/virtio/drivers/virtio_balloon/virtio*/features")
    reports = any(path.read_text(errors="replace")[_REPORTING_BIT:][:1] == "1" for path in balloons)
    order = target.machine.number(PAGE_REPORTING) if reports else 0
    if not order:
        raise UnreadableError("no hypervisor takes it back")
    if order > _LARGEST_ORDER:
        return Observation("stays with this machine")
    size = format_size(os.sysconf("SC_PAGE_SIZE") << order)
    return Observation(
        f"the hypervisor takes back pieces of {size} and more; touching them again is slow",
        FREE_PAGES_REMEDY,
    )


@registered_check("foreign load")
def foreign_load_check(_: CheckTarget) -> Observation:
    """Measure what others and the hypervisor take of all cores' time, in a quarter second."""
    watch = NoiseWatch()
    watch.start()
    time.sleep(_LOOK_S)
    noise = watch.stop(0.0)
    foreign, steal = noise["foreign_cpu_share"], noise["steal_share"]
    warnings = "; ".join(warning_lines(warned(noise_doubts(noise)))) or None
    if foreign is None or steal is None:
        return Observation("unknown: the kernel's CPU times don't advance", warnings)
    return Observation(f"others {foreign:.0%}, hypervisor {steal:.0%} of the CPU", warnings)
