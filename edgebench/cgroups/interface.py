"""What a cgroup is to the rest of edgebench, whatever the kernel's interface.

A value the kernel doesn't offer is ``None``, never a guessed 0. Which files are
there is asked of the file system, never concluded from a version number.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Limits:
    """What a cgroup may use. ``None`` is unlimited.

    ``swap_bytes`` is swap alone, on top of ``memory_bytes`` (v1's memsw is derived from it);
    ``cpu_quota`` is in cores (1.5 is one and a half).
    """

    memory_bytes: int | None = None
    swap_bytes: int | None = None
    cores: tuple[int, ...] | None = None
    cpu_quota: float | None = None
    pids: int | None = None


@dataclass(frozen=True)
class Counters:
    """One reading of a cgroup's accounting. Bytes, or nanoseconds, or counts."""

    usage_bytes: int | None = None
    peak_bytes: int | None = None
    swap_bytes: int | None = None
    swap_peak_bytes: int | None = None
    anon_bytes: int | None = None
    file_bytes: int | None = None
    mapped_file_bytes: int | None = None
    shmem_bytes: int | None = None
    kernel_bytes: int | None = None
    page_tables_bytes: int | None = None
    slab_bytes: int | None = None
    minor_faults: int | None = None
    major_faults: int | None = None
    swapped_in_bytes: int | None = None
    swapped_out_bytes: int | None = None
    refault_anon: int | None = None
    refault_file: int | None = None
    cpu_ns: int | None = None
    user_ns: int | None = None
    system_ns: int | None = None
    throttled_ns: int | None = None
    io_read_bytes: int | None = None
    io_write_bytes: int | None = None
    pressure_some_us: int | None = None
    pressure_full_us: int | None = None
    oom_kills: int | None = None
    limit_hits: int | None = None


@dataclass(frozen=True)
class HotFiles:
    """Files that the sampler and the worker keep open; ``None`` where the kernel has no such file.

    ``swap`` holds memory + swap together when ``swap_is_memsw`` (v1), else swap alone (v2).
    ``kernel`` holds the kernel's memory alone where ``stat`` has no line for it (v1).
    ``cpu_unit_ns`` is how many nanoseconds one unit in ``cpu`` is (v1: a bare number of ns;
    v2: ``usage_usec`` of ``cpu.stat``). ``peak_resets``: a write to ``peak`` resets it.
    """

    usage: Path
    peak: Path | None = None
    peak_resets: bool = False
    swap: Path | None = None
    swap_is_memsw: bool = False
    swap_peak: Path | None = None
    stat: Path | None = None
    kernel: Path | None = None
    cpu: Path | None = None
    cpu_unit_ns: int = 1
    pressure: Path | None = None
    io: Path | None = None


@dataclass(frozen=True)
class Missing:
    """Why a value is ``None`` here: key of :class:`Counters` → reason."""

    reasons: dict[str, str] = field(default_factory=dict)


class Cgroup(ABC):
    """One cgroup of ours, made by a :class:`~edgebench.cgroups.place.Place`."""

    version: int
    #: The folder whose memory files count.
    path: Path

    @abstractmethod
    def apply(self, limits: Limits) -> Limits:
        """Set the limits and read them back as the kernel rounded them.

        Raises:
            CgroupError: the kernel refused one, or it didn't take (names file and value).
        """

    @abstractmethod
    def read(self) -> Counters:
        """Everything the kernel tells at this moment."""

    @abstractmethod
    def missing(self) -> Missing:
        """Which counters this kernel lacks, and why."""

    @abstractmethod
    def reset_peak(self) -> bool:
        """Set the kernel's high-water mark back to current usage; False if it can't be."""

    @abstractmethod
    def hot_files(self) -> HotFiles:
        """The files to keep open for sampling."""

    @abstractmethod
    def join_files(self) -> tuple[Path, ...]:
        """The ``cgroup.procs`` files a process writes its pid into to join."""

    @abstractmethod
    def pids(self) -> tuple[int, ...]:
        """Processes in it now."""

    @abstractmethod
    def kill(self) -> None:
        """Kill all that runs in it and wait until nothing does. Safe to call twice."""

    @abstractmethod
    def remove(self) -> None:
        """Kill, then take the cgroup away. Safe to call twice."""
