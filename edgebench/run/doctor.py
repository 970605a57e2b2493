"""Whether this machine is fit to measure on: a row for each thing that a measurement depends on.

A new check is one function here, under ``@registered_check``; rows come in the functions' order.
"""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from edgebench.answers.trials import warned, warning_lines
from edgebench.boards import StorageSpeed, format_speed
from edgebench.errors import CgroupError, EdgebenchError, MachineError
from edgebench.installation import install
from edgebench.measures.machine import environment
from edgebench.measures.machine.noise import NoiseWatch, noise_doubts
from edgebench.measures.machine.system_files import (
    CPU_FREQUENCY,
    PAGE_REPORTING,
    SWAP_FILES,
    SYSTEM_FIGURES,
    SystemFiles,
    UnreadableError,
    disk_of,
    ram_bytes,
    swap_devices,
    usable_ram_bytes,
    whole_disk,
    why_no_cuda,
)
from edgebench.text import format_size

if TYPE_CHECKING:
    from edgebench.cgroups.parent import Finding, ParentCgroup

#: ``fail``: a sweep can't run, or would measure nonsense. ``warn``: its numbers need care.
#: ``absent``: the machine has no such thing to look at.
Status = Literal["ok", "warn", "fail", "absent"]

GPU_REMEDY = (
    'limit it by itself: accelerator = "cuda" in [workload] and accelerator_memory in [limits] '
    "(docs/how-to/accelerators.md)"
)
#: The runtime alone takes a large part of this.
_RAM_WARN_BYTES = 1 << 30

RAM_REMEDY = "end other programs, or keep to limits below what is available"
#: Below these a sweep can't keep its results; or its weights and a swap file of 2 GiB.
_DISK_WARN_BYTES = 4 << 30

SWAP_REMEDY = (
    'run as root for a swap file of its own, or write swap = "system" (or "none") in the scenario'
)
DISK_REMEDY = "free some space, or name a larger disk: edgebench run --results FOLDER SCENARIO"
#: Read-ahead above this reads many times what one fault needs; Linux begins with 128 KiB.
_FAR_KB = 1024

DAMON_REMEDY = (
    "echo off | sudo tee /sys/kernel/mm/damon/admin/kdamonds/*/state\n"
    "echo N | sudo tee /sys/module/damon_*/parameters/enabled"
)
ZSWAP_REMEDY = "echo N | sudo tee /sys/module/zswap/parameters/enabled"
SWAPPINESS_REMEDY = "sudo sysctl vm.swappiness=60"
LRU_GEN_REMEDY = "echo 0 | sudo tee /sys/kernel/mm/lru_gen/min_ttl_ms"
READ_AHEAD_REMEDY = "echo 128 | sudo tee /sys/block/{disk}/queue/read_ahead_kb"
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
#: Slow enough for any disk that a board has, fast enough to be measured soon.
_TRIED = StorageSpeed(read_bps=10_000_000)
_SHOWN_BPS = 5_000_000


@dataclass(frozen=True)
class CheckTarget:
    """The machine to check, and its parent cgroup; None: there is none."""

    machine: SystemFiles = field(default_factory=SystemFiles)
    parent: ParentCgroup | None = None


@dataclass(frozen=True)
class Observation:
    """What a check found, in one line. With a ``remedy`` (a command or an edit) it is a warning."""

    says: str
    remedy: str | None = None


@dataclass(frozen=True)
class CheckResult:
    """One row: what a check found, how serious that is, what mends it."""

    check: str
    status: Status
    says: str
    remedy: str | None = None


@dataclass(frozen=True)
class Check:
    """One thing to look at.

    ``look`` raises UnreadableError where the machine has no such thing, and MachineError where
    something is lacking that every sweep needs.
    """

    name: str
    look: Callable[[CheckTarget], Observation]

    def result(self, target: CheckTarget) -> CheckResult:
        """Return the check's row for that machine."""
        try:
            found = self.look(target)
        except UnreadableError as reason:
            return CheckResult(self.name, "absent", str(reason))
        except MachineError as error:
            return CheckResult(self.name, "fail", error.what, error.remedy)
        return CheckResult(self.name, "warn" if found.remedy else "ok", found.says, found.remedy)


#: All checks, in the order of their rows.
CHECKS: list[Check] = []


def registered_check(name: str) -> Callable[[Callable[[CheckTarget], Observation]], Check]:
    """Make a function a check of that name, and register it."""

    def register(look: Callable[[CheckTarget], Observation]) -> Check:
        check = Check(name, look)
        CHECKS.append(check)
        return check

    return register


@registered_check("CUDA")
def cuda_check(_: CheckTarget) -> Observation:
    """Whether networks can be executed and trained with ``accelerator = "cuda"``."""
    if why := why_no_cuda():
        raise UnreadableError(why[0])
    return Observation('torch is built with it and the driver has a GPU: accelerator = "cuda"')


@registered_check("GPU memory")
def gpu_memory_check(target: CheckTarget) -> Observation:
    """Tell whether a GPU shares the board's RAM: its memory is charged to no cgroup."""

    def first(*patterns: str) -> str | None:
        paths = (path for pattern in patterns for path in target.machine.each(pattern))
        return next(map(str, paths), None)

    jetson, card = first("dev/nvhost-gpu", "dev/nvgpu/igpu0"), first("dev/nvidia0", "dev/kfd")
    board = jetson or first("dev/vchiq")
    if card and not jetson:
        return Observation(f"{card}: no limit covers GPU memory, no peak counts it", GPU_REMEDY)
    if not board:
        raise UnreadableError("no GPU found")
    figures = []
    for name, figure in SYSTEM_FIGURES.items():
        with suppress(UnreadableError, ValueError):
            figures.append(f"{name} {format_size(figure.read(target.machine))}")
    now = f"; now {', '.join(figures)}" if figures else ""
    says = f"{board}: it takes RAM that no limit covers and no peak counts{now}"
    # On a Raspberry Pi nothing here computes on it: only a screen or a camera takes memory.
    return Observation(says, GPU_REMEDY if jetson else None)


@registered_check("limits enforced")
def enforcement_check(target: CheckTarget) -> Observation:
    """Run an allocator under a small limit, which the kernel must kill."""
    from edgebench.cgroups.parent import ABOVE_BYTES, check_limit

    if target.parent is None:
        raise UnreadableError("can't be tried without a cgroup")
    limit = format_size(check_limit(target.parent))
    return Observation(f"{format_size(ABOVE_BYTES)} touched under a limit of {limit}: oom-killed")


@registered_check("RAM")
def ram_check(target: CheckTarget) -> Observation:
    """RAM that a trial could have: what is free, below the limits of the cgroups above."""
    total = ram_bytes(target.machine)
    ceiling = target.parent.ceiling_bytes if target.parent else None
    usable = usable_ram_bytes(target.machine, ceiling)
    remedy = RAM_REMEDY if usable < _RAM_WARN_BYTES else None
    return Observation(f"{format_size(usable)} usable of {format_size(total)}", remedy)


@registered_check("GNU time")
def gnu_time_check(_: CheckTarget) -> Observation:
    """GNU time, under which each trial runs."""
    from edgebench.measures.gnu_time import find_gnu_time

    return Observation(str(find_gnu_time()))


@registered_check("torch")
def torch_check(_: CheckTarget) -> Observation:
    """PyTorch's version, without importing it; without it only commands can be measured."""
    try:
        return Observation(importlib.metadata.version("torch"))
    except importlib.metadata.PackageNotFoundError:
        remedy = f'{install("torch")} (kind = "command" works without)'
        return Observation("not installed", remedy)


@registered_check("swap")
def swap_check(target: CheckTarget) -> Observation:
    """Whether a trial can have swap; without it, a limit below demand is a kill."""
    sbin = os.pathsep.join([os.environ.get("PATH", os.defpath), "/sbin", "/usr/sbin"])
    can_make = os.geteuid() == 0 and shutil.which("mkswap", path=sbin) is not None
    file = "can be made" if can_make else "can't be made (needs root and mkswap)"
    devices: list[dict[str, Any]] = []
    with suppress(UnreadableError):
        devices = swap_devices(target.machine)
    own = ", ".join(f"{swap['kind']} of {format_size(swap['size_bytes'])}" for swap in devices)
    says = f"machine's own: {own or 'none'}; a temporary swap file {file}"
    return Observation(says, None if can_make else SWAP_REMEDY)


@registered_check("disk space")
def disk_space_check(_: CheckTarget) -> Observation:
    """Room for results, weights and a swap file below the working folder."""
    folder = Path.cwd()
    free = shutil.disk_usage(folder).free
    return Observation(
        f"{format_size(free)} free in {folder}",
        DISK_REMEDY if free < _DISK_WARN_BYTES else None,
    )


@registered_check("DAMON")
def damon_check(target: CheckTarget) -> Observation:
    """DAMON's schemes push a trial's pages out, or give them back, whatever its limit is."""
    found = environment.damon(target.machine)
    if not found["running"]:
        return Observation("not running")
    actions = f", with {', '.join(found['actions'])}" if found["actions"] else ""
    return Observation(f"{', '.join(found['running'])} runs{actions}", DAMON_REMEDY)


@registered_check("zswap")
def zswap_check(target: CheckTarget) -> Observation:
    """Zswap keeps swapped pages compressed in RAM instead of writing them to the swap device."""
    found = environment.zswap(target.machine)
    if not found["enabled"]:
        return Observation("off")
    share = found["max_pool_percent"]
    says = f"on ({found['compressor']}): up to {share} % of RAM hold swapped pages"
    return Observation(says, ZSWAP_REMEDY)


@registered_check("swappiness")
def swappiness_check(target: CheckTarget) -> Observation:
    """With a swappiness of 0 the kernel swaps next to nothing, and kills at a limit instead."""
    swappiness = target.machine.number("proc/sys/vm/swappiness")
    cluster = target.machine.number("proc/sys/vm/page-cluster")
    says = f"{swappiness}; page-cluster {cluster}: up to {1 << cluster} pages a swap-in"
    return Observation(says, None if swappiness else SWAPPINESS_REMEDY)


@registered_check("multi-gen LRU")
def lru_gen_check(target: CheckTarget) -> Observation:
    """Tell whether the kernel kills rather than push out what was used within ``min_ttl_ms``."""
    found = environment.lru_gen(target.machine)
    says = f"{'on' if found['enabled'] else 'off'}, min_ttl_ms {found['min_ttl_ms']}"
    disturbs = found["enabled"] and found["min_ttl_ms"]
    return Observation(says, LRU_GEN_REMEDY if disturbs else None)


@registered_check("memory daemons")
def memory_daemons_check(target: CheckTarget) -> Observation:
    """Name the daemons that kill or push out a trial when memory is short."""
    found = environment.memory_daemons(target.machine)
    if not found:
        return Observation("none runs")
    return Observation(f"{', '.join(found)} runs", f"sudo systemctl stop {' '.join(found)}")


@registered_check("ballooning")
def ballooning_check(target: CheckTarget) -> Observation:
    """Tell whether a hypervisor takes memory away: trials differ then."""
    found = environment.ballooning(target.machine)
    drivers, pages = found["drivers"], found["inflated_pages"]
    if not drivers:
        raise UnreadableError("no driver can give memory away")
    taken = "the kernel does not count what was taken"
    if pages is not None:
        size = format_size(pages * os.sysconf("SC_PAGE_SIZE")) if pages else "nothing"
        taken = f"{size} taken since boot"
    says = f"{', '.join(drivers)}: {taken}"
    if drivers == ["virtio_balloon"] and pages == 0:
        # A balloon that never took anything disturbs nothing.
        return Observation(says)
    return Observation(says, "fix this machine's memory on its host: no ballooning, no hot-plug")


def disk_observation(machine: SystemFiles, path: Path) -> Observation:
    """Describe the disk under a path; read-ahead charges a trial for more than it touched."""
    found = disk_of(machine, path)
    says = (
        f"{found['disk']}: read-ahead {found['read_ahead_kb']} KiB, scheduler {found['scheduler']}"
    )
    if found["read_ahead_kb"] <= _FAR_KB:
        return Observation(says)
    return Observation(says, READ_AHEAD_REMEDY.format(disk=found["disk"]))


@registered_check("disk under weights")
def weights_disk_check(target: CheckTarget) -> Observation:
    """Describe the disk that weights are read from."""
    from edgebench.processes import cache_folder, caller_identity

    return disk_observation(target.machine, cache_folder(caller_identity()))


@registered_check("disk under swap files")
def swap_disk_check(target: CheckTarget) -> Observation:
    """Describe the disk that swap files of a sweep are on."""
    return disk_observation(target.machine, SWAP_FILES)


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


@registered_check("storage")
def storage_check(target: CheckTarget) -> Observation:
    """Whether the disk of swap files can be held to a speed, and how fast it is by itself."""
    from edgebench.cgroups.files import DiskLimit
    from edgebench.cgroups.storage import prove_storage
    from edgebench.run.trial.session import proof_file

    parent = target.parent
    if parent is None or parent.ownership is None:
        raise UnreadableError("can't be tried without a cgroup")
    if os.geteuid() != 0:
        raise UnreadableError("only root can hold storage to a speed")
    disk = whole_disk(target.machine, Path(SWAP_FILES))
    limit = DiskLimit(disk.number, disk.name, _TRIED)
    try:
        own_file = parent.ownership, disk.number, SWAP_FILES, [SWAP_FILES]
        with proof_file(target.machine, *own_file, writes=False) as file:
            seen = prove_storage(parent, limit, file)
    except EdgebenchError as error:
        raise UnreadableError(f"{disk.name} can't be held to a speed: {error.what}") from error
    own = {proof.pattern: proof.own for proof in seen}
    most = format_speed(max(1, int(own["sequential"].bps // _SHOWN_BPS)) * _SHOWN_BPS)
    return Observation(
        f"reads of {disk.name} can be held, to {most} and {own['random'].iops:.0f} requests "
        "of 4 KiB a second at most"
    )


def check_machine() -> Iterator[CheckResult]:
    """Yield the result of every check of this machine, one by one; those of cgroups come first."""
    from edgebench.cgroups.leftovers import Ownership
    from edgebench.cgroups.parent import check_support, find_parent

    yield from map(finding_result, check_support())
    with Ownership() as ownership:
        parent = None
        with suppress(CgroupError):
            # Without one, the findings above say why.
            parent = find_parent(ownership)
        target = CheckTarget(parent=parent)
        yield from (check.result(target) for check in CHECKS)


def finding_result(finding: Finding) -> CheckResult:
    """One finding about cgroups as a check's result; unknown with a remedy is a warning."""
    status: Status = "ok"
    if finding.ok is False:
        status = "fail"
    elif finding.ok is None and finding.remedy:
        status = "warn"
    remedy = None if status == "ok" else finding.remedy or "see docs/verbs/doctor.md"
    return CheckResult(finding.name, status, finding.says, remedy)


def is_fit(results: Sequence[CheckResult]) -> bool:
    """Whether nothing failed."""
    return all(result.status != "fail" for result in results)
