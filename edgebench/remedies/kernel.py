"""Remedies of the whole machine, which root sets: they are tried with ``--kernel`` only."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from edgebench.cache import cache_folder
from edgebench.identity import caller_identity
from edgebench.measures.machine.disks import swap_devices, whole_disk
from edgebench.measures.machine.system_files import SystemFiles, UnreadableError
from edgebench.remedies.base import Remedy, RemedySetting, RemedyTarget
from edgebench.remedies.process import (
    HUGE_PAGES_COSTS,
    HUGE_PAGES_FILE,
    HUGE_PAGES_SOURCE,
    no_unasked_huge_pages,
)

_GENERATIONS_FILE = "/sys/kernel/mm/lru_gen/enabled"
_LESS_KB, _MORE_KB = 32, 4096
_NO_SWAP = "there is no swap"
_READ_AHEAD = "Documentation/ABI/stable/sysfs-block, queue/read_ahead_kb"


def _value(file: str, value: str) -> Callable[[RemedyTarget], RemedySetting]:
    return lambda _: RemedySetting(kernel={file: value})


def _by_hand(_: RemedyTarget) -> RemedySetting:
    """Nothing: a person types a command."""
    return RemedySetting()


def _no_swap(target: RemedyTarget) -> str | None:
    return _NO_SWAP if target.swap_kind == "none" else None


def _no_disk_swap(target: RemedyTarget) -> str | None:
    return "its swap is zram already" if target.swap_kind == "zram" else _no_swap(target)


def _one_swap_area(target: RemedyTarget) -> str | None:
    """Areas of one priority are used in turns, others from the highest priority on."""
    if target.swap_kind == "none":
        return _NO_SWAP
    if target.swap_kind != "system":
        return "edgebench's own swap is one area"
    try:
        return None if len(swap_devices(SystemFiles())) > 1 else "there is one swap area"
    except UnreadableError as reason:
        return str(reason)


def _no_generations(_: RemedyTarget) -> str | None:
    """A kernel before 6.1, or built without CONFIG_LRU_GEN, has none."""
    try:
        now = SystemFiles().number(_GENERATIONS_FILE[1:])
    except UnreadableError:
        return "the kernel has no multi-generation lists (CONFIG_LRU_GEN)"
    return "the kernel has them already" if now else None


def _reads_ahead_at_most(target: RemedyTarget) -> str | None:
    return _read_ahead_unfit(target, lambda now_kb: now_kb <= _LESS_KB)


def _reads_ahead_at_least(target: RemedyTarget) -> str | None:
    return _read_ahead_unfit(target, lambda now_kb: now_kb >= _MORE_KB)


def _read_ahead_unfit(target: RemedyTarget, is_set: Callable[[int], bool]) -> str | None:
    """Already set, or the disk is unknown."""
    try:
        file = _read_ahead_file(target)
        now_kb = SystemFiles().number(file[1:])
    except UnreadableError as reason:
        return str(reason)
    return f"{file} is {now_kb} already" if is_set(now_kb) else None


def _read_ahead(value_kb: int) -> Callable[[RemedyTarget], RemedySetting]:
    return lambda target: RemedySetting(kernel={_read_ahead_file(target): str(value_kb)})


def _read_ahead_file(target: RemedyTarget) -> str:
    """The file of the disk that has the weights, or a program's working folder.

    Raises:
        UnreadableError: the folder lies on no disk, or on several.
    """
    if target.kind == "command":
        folder = Path(target.settings.get("cwd") or ".").absolute()
    else:
        folder = cache_folder(caller_identity()).absolute()
    there = next(path for path in (folder, *folder.parents) if path.exists())
    return f"/sys/block/{whole_disk(SystemFiles(), there).name}/queue/read_ahead_kb"


REMEDIES = (
    # For swap that is faster than the disk of the files.
    Remedy(
        name="swappiness",
        group="kernel",
        title="swaps the heap out before it drops pages of files",
        costs="idle programs are swapped out sooner",
        source="Documentation/admin-guide/sysctl/vm.rst, swappiness",
        unfit=_no_swap,
        setting=_value("/proc/sys/vm/swappiness", "100"),
    ),
    # With 3, as usual, eight pages are read for each that is asked for.
    Remedy(
        name="page-cluster",
        group="kernel",
        title="reads one page from swap for each that is asked for, not eight",
        costs="slower where neighbouring pages are needed next",
        source="Documentation/admin-guide/sysctl/vm.rst, page-cluster",
        unfit=_no_swap,
        setting=_value("/proc/sys/vm/page-cluster", "0"),
    ),
    # With several generations instead of two lists the kernel knows better what is idle.
    Remedy(
        name="page-generations",
        group="kernel",
        title="the kernel keeps several generations of pages, and evicts the oldest",
        costs="the kernel walks page tables: some time of the processor",
        source="Documentation/admin-guide/mm/multigen_lru.rst",
        unfit=_no_generations,
        setting=_value(_GENERATIONS_FILE, "y"),
    ),
    # For programs in which nothing can be set.
    Remedy(
        name="huge-pages-on-request",
        group="kernel",
        title="the kernel gives huge pages to those programs only that ask for them",
        costs=HUGE_PAGES_COSTS,
        source=HUGE_PAGES_SOURCE,
        unfit=no_unasked_huge_pages,
        setting=_value(HUGE_PAGES_FILE, "madvise"),
    ),
    # What is read beside what was asked for takes memory that others need.
    Remedy(
        name="less-read-ahead",
        group="kernel",
        title="reads at most 32 KiB of a file ahead",
        costs="files that are read in order are read more slowly",
        source=_READ_AHEAD,
        unfit=_reads_ahead_at_most,
        setting=_read_ahead(_LESS_KB),
    ),
    # A disk is faster in large pieces, and weights are mostly read in order.
    Remedy(
        name="more-read-ahead",
        group="kernel",
        title="reads up to 4 MiB of a file ahead",
        costs="memory for what is read and not used",
        source=_READ_AHEAD,
        unfit=_reads_ahead_at_least,
        setting=_read_ahead(_MORE_KB),
    ),
    Remedy(
        name="zram-swap",
        group="kernel",
        title="swaps into compressed memory instead of to a disk",
        costs="memory for the compressed pages, and time of the processor",
        source="Documentation/admin-guide/blockdev/zram.rst",
        unfit=_no_disk_swap,
        setting=_by_hand,
        by_hand="edgebench advise --swap zram:1G …",
    ),
    Remedy(
        name="swap-order",
        group="kernel",
        title="fills the fastest swap first: zram before a disk, a disk before a memory card",
        costs="nothing, if there is room: all that is swapped comes back into memory meanwhile",
        source="swapon(8), --priority; swapon(2)",
        unfit=_one_swap_area,
        setting=_by_hand,
        by_hand="sudo swapoff DEVICE && sudo swapon --priority 100 DEVICE   # of the fastest",
    ),
)
