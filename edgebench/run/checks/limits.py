"""Checks of memory limits: whether they are enforced, and how much memory there is to limit."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from edgebench.errors import EdgebenchError
from edgebench.measures.machine.disks import swap_devices
from edgebench.measures.machine.system_files import (
    SystemFiles,
    UnreadableError,
    ram_bytes,
    usable_ram_bytes,
)
from edgebench.run.checks.base import CheckTarget, Observation, registered_check
from edgebench.units import format_size

if TYPE_CHECKING:
    from edgebench.cgroups.leftovers import Ownership

#: The runtime alone takes a large part of this.
_RAM_WARN_BYTES = 1 << 30

RAM_REMEDY = "end other programs, or keep to limits below what is available"
OBSERVER_REMEDY = (
    "end monitors that read memory.stat many times a second, and repeat trials near the least "
    "limit (edgebench minimum --confirm 10): docs/explanation/observer-effect.md"
)


@registered_check("limits enforced")
def enforcement_check(target: CheckTarget) -> Observation:
    """Run an allocator under a small limit, which the kernel must kill."""
    from edgebench.cgroups.kernel_checks import check_limit

    if target.parent is None:
        raise UnreadableError("can't be tried without a cgroup")
    proof = check_limit(target.parent)
    limit, touched = format_size(proof.limit_bytes), format_size(proof.touched_bytes)
    return Observation(f"{touched} touched under a limit of {limit}: {proof.outcome}")


@registered_check("observer effect")
def observer_check(target: CheckTarget) -> Observation:
    """Tell whether this kernel kills although swap is free, unless ``memory.stat`` is read."""
    from edgebench.cgroups.kernel_checks import measure_stat_effect

    if target.parent is None:
        raise UnreadableError("can't be tried without a cgroup")
    has_swap = _has_swap(target.machine)
    if not has_swap and os.geteuid() != 0:
        raise UnreadableError("can't be tried without free swap")
    try:
        with _swap_file(None if has_swap else target.parent.ownership):
            seen = measure_stat_effect(target.parent)
    except EdgebenchError as error:
        raise UnreadableError(f"can't be tried: {error.what}") from error
    return Observation(
        f"killed with swap free: {seen.killed_unread} of {seen.tries} unread, "
        f"{seen.killed_read} of {seen.tries} while memory.stat is read",
        OBSERVER_REMEDY if seen.reading_saves else None,
    )


def _has_swap(machine: SystemFiles) -> bool:
    from edgebench.cgroups.kernel_checks import SWAP_BYTES

    try:
        devices = swap_devices(machine)
    except UnreadableError:
        return False
    free: int = sum(swap["size_bytes"] - swap["used_bytes"] for swap in devices)
    return free >= SWAP_BYTES


@contextmanager
def _swap_file(ownership: Ownership | None) -> Iterator[None]:
    """Yield a swap file while the tries run; none without an owner for it."""
    from edgebench.cgroups.kernel_checks import SWAP_BYTES
    from edgebench.cgroups.swap import SwapControl

    if ownership is None:
        yield
        return
    with SwapControl(ownership) as swap:
        # A swap file's first page is not swap.
        swap.use("file", SWAP_BYTES + (1 << 20))
        yield


@registered_check("RAM")
def ram_check(target: CheckTarget) -> Observation:
    """RAM that a trial could have: what is free, below the limits of the cgroups above."""
    total = ram_bytes(target.machine)
    ceiling = target.parent.ceiling_bytes if target.parent else None
    usable = usable_ram_bytes(target.machine, ceiling)
    remedy = RAM_REMEDY if usable < _RAM_WARN_BYTES else None
    return Observation(f"{format_size(usable)} usable of {format_size(total)}", remedy)
