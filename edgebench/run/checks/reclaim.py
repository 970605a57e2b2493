"""Checks of what else takes memory back, and of the disks under swap and weights."""

from __future__ import annotations

import os
from pathlib import Path

from edgebench.measures.machine import disks, environment
from edgebench.measures.machine.system_files import SystemFiles, UnreadableError
from edgebench.run.checks.base import CheckTarget, Observation, registered_check
from edgebench.units import format_size

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
#: Driver → what to type where the hypervisor is.
_ON_THE_HOST = {
    "virtio_balloon": "virsh setmem DOMAIN SIZE --live",
    "virtio_mem": "virsh update-memory-device DOMAIN --requested-size SIZE",
    "hv_balloon": "Set-VMMemory NAME -DynamicMemoryEnabled $false",
    "xen_balloon": "xl mem-set DOMAIN SIZE",
    "vmw_balloon": "give the machine a full reservation of its memory",
}


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
    on_the_host = "; or ".join(_ON_THE_HOST[name] for name in drivers)
    return Observation(says, f"fix this machine's memory on its host: {on_the_host}")


def disk_observation(machine: SystemFiles, path: Path) -> Observation:
    """Describe the disk under a path; read-ahead charges a trial for more than it touched."""
    found = disks.disk_of(machine, path)
    says = (
        f"{found['disk']}: read-ahead {found['read_ahead_kb']} KiB, scheduler {found['scheduler']}"
    )
    if found["read_ahead_kb"] <= _FAR_KB:
        return Observation(says)
    return Observation(says, READ_AHEAD_REMEDY.format(disk=disks.top_disk(machine, path)))


@registered_check("disk under weights")
def weights_disk_check(target: CheckTarget) -> Observation:
    """Describe the disk that weights are read from."""
    from edgebench.cache import cache_folder
    from edgebench.identity import caller_identity

    return disk_observation(target.machine, cache_folder(caller_identity()))


@registered_check("disk under swap files")
def swap_disk_check(target: CheckTarget) -> Observation:
    """Describe the disk that swap files of a sweep are on."""
    return disk_observation(target.machine, disks.SWAP_FILES)
