"""What else takes memory back on this machine: the kernel's helpers, daemons, a hypervisor."""

from __future__ import annotations

import contextlib
from typing import Any

from edgebench.measures.machine.system_files import SystemFiles, UnreadableError

#: Where DAMON's monitors are set up and switched.
KDAMONDS = "sys/kernel/mm/damon/admin/kdamonds"
ZSWAP = "sys/module/zswap/parameters"
LRU_GEN = "sys/kernel/mm/lru_gen"
#: Daemons that kill, or push memory out, before the kernel would.
DAEMONS = ("earlyoom", "nohang", "oomd", "senpai", "systemd-oomd")
#: Driver of a hypervisor's balloon → what is there for each device that it has.
_DEVICES = {
    "virtio_balloon": "sys/bus/virtio/drivers/virtio_balloon/virtio*",
    "virtio_mem": "sys/bus/virtio/drivers/virtio_mem/virtio*",
    "hv_balloon": "sys/bus/vmbus/drivers/hv_balloon/*-*",
    "xen_balloon": "sys/devices/system/xen_memory/xen_memory*",
    "vmw_balloon": "sys/module/vmw_balloon",
}


def damon(machine: SystemFiles) -> dict[str, list[str]]:
    """What DAMON does: ``running`` (its threads), ``actions`` of its schemes, as ``pageout``.

    Raises:
        UnreadableError: the kernel has none, or it is not for us and no thread of it runs.
    """
    running = [name for name in process_names(machine) if name.startswith("kdamond")]
    if not running:
        # Its files tell that there is none; a kernel without them says why.
        machine.number(f"{KDAMONDS}/nr_kdamonds")
    return {"running": running, "actions": _actions(machine)}


def _actions(machine: SystemFiles) -> list[str]:
    """What the schemes of the monitors that are on do with memory; those we may not read aside."""
    found: set[str] = set()
    for state in machine.each(f"{KDAMONDS}/*/state"):
        folder = state.parent.relative_to(machine.root)
        with contextlib.suppress(UnreadableError):
            if machine.text(f"{folder}/state") != "on":
                continue
            schemes = machine.each(f"{folder}/contexts/*/schemes/*/action")
            found |= {machine.text(str(one.relative_to(machine.root))) for one in schemes}
    return sorted(found)


def zswap(machine: SystemFiles) -> dict[str, Any]:
    """``enabled``, ``compressor``, ``max_pool_percent`` of the compressed pool before swap.

    Raises:
        UnreadableError: the kernel has none.
    """
    return {
        "enabled": machine.text(f"{ZSWAP}/enabled") == "Y",
        "compressor": machine.text(f"{ZSWAP}/compressor"),
        "max_pool_percent": machine.number(f"{ZSWAP}/max_pool_percent"),
    }


def lru_gen(machine: SystemFiles) -> dict[str, Any]:
    """The multi-generation LRU: ``enabled``, and ``min_ttl_ms``, below which it rather kills.

    Raises:
        UnreadableError: the kernel has none.
    """
    return {
        "enabled": machine.number(f"{LRU_GEN}/enabled") != 0,
        "min_ttl_ms": machine.number(f"{LRU_GEN}/min_ttl_ms"),
    }


def memory_daemons(machine: SystemFiles) -> list[str]:
    """Which of :data:`DAEMONS` run."""
    return sorted(set(process_names(machine)) & set(DAEMONS))


def process_names(machine: SystemFiles) -> list[str]:
    """The names of all processes and threads of the kernel, sorted.

    Raises:
        UnreadableError: none can be read.
    """
    names = []
    for path in machine.each("proc/[0-9]*/comm"):
        # It may have ended meanwhile.
        with contextlib.suppress(UnreadableError):
            names.append(machine.text(str(path.relative_to(machine.root))))
    if not names:
        raise UnreadableError("/proc: no process can be read")
    return sorted(names)


def ballooning(machine: SystemFiles) -> dict[str, Any]:
    """``drivers`` that can give memory away, and ``inflated_pages`` that were given since boot.

    ``inflated_pages`` is None where the kernel doesn't count them.
    """
    drivers = [name for name, pattern in _DEVICES.items() if machine.each(pattern)]
    pages = None
    with contextlib.suppress(UnreadableError, ValueError):
        counted = dict(line.split() for line in machine.text("proc/vmstat").splitlines())
        pages = int(counted["balloon_inflate"]) if "balloon_inflate" in counted else None
    return {"drivers": drivers, "inflated_pages": pages}
