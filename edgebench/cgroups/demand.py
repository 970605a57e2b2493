"""What demand counts: memory that only swap can hold, and the files of its own that a trial maps.

Anonymous, shared and kernel memory, swap, and mapped files such as weights. Not cached files that
nothing maps, and not the pages of libraries, which the kernel charges to whoever read them first:
those are recorded beside it, and are added when a board is sized.

The kernel's ``mapped_file`` (version 1) and ``file_mapped`` (version 2) contain mapped shared
memory, which ``shmem`` contains too, and libraries. ``shmem`` also contains shared memory that
nothing maps, such as a file of a tmpfs. How much that is, and how much of libraries is charged,
is looked up in the processes' maps while an unlimited trial runs.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edgebench.cgroups.counters import parse_counters
from edgebench.cgroups.interface import Cgroup
from edgebench.cgroups.process_maps import MappedFiles, mapped_bytes, mapped_files
from edgebench.cgroups.sampler import SAME_BYTES

#: The part of a trial's time in which its maps are read at most: the kernel stops changes of a
#: process's maps meanwhile. Seen: 1 ms for a small program, 11 ms for one that imported torch.
_LOOKING_SHARE = 0.02
NOT_LOOKED = "the trial ended before its maps were read"
NOT_SHOWN = "this kernel does not show us what the trial's processes map (smaps, memory.stat)"
#: Columns of what only swap can hold.
HELD = ("anon_bytes", "shmem_bytes", "swap_bytes", "kernel_bytes")


@dataclass(frozen=True)
class MapsLook:
    """What the processes' maps tell at one moment, bytes.

    Args:
        t_ns: when, monotonic.
        unmapped_shared_bytes: shared memory that no process maps.
        charged_library_bytes: mapped pages of libraries that the cgroup is charged for.
        elsewhere_bytes: mapped pages of its own files that another cgroup is charged for: they were
            in the page cache already.
    """

    t_ns: int
    unmapped_shared_bytes: int
    charged_library_bytes: int
    elsewhere_bytes: int = 0


@dataclass(frozen=True)
class Demand:
    """What samples come to, bytes; None: not known.

    Args:
        total_bytes: the largest demand.
        undroppable_bytes: the most that only swap can hold; the rest of the demand are its files,
            which are read again when dropped.
        source: what the demand was computed from.
    """

    total_bytes: int | None = None
    undroppable_bytes: int | None = None
    source: str | None = None


def demand_of(columns: Mapping[str, Sequence[int]], looks: Sequence[MapsLook] = ()) -> Demand:
    """The largest demand over samples.

    Nothing without anonymous memory, or where no sample saw any memory. A column whose first value
    is negative is left out. Without a look all shared memory counts as unmapped as far as the
    cached files allow, and libraries that the cgroup is charged for are not told from its own
    files.

    Args:
        columns: the samples' ``t_ns`` and ``…_bytes``, as long as each other.
        looks: in the order of their times.
    """
    known = {name for name, column in columns.items() if column and column[0] >= 0}
    if "anon_bytes" not in known:
        return Demand()
    held = [name for name in HELD if name in known]
    values = zip(*(columns[name] for name in known), strict=True)
    rows = [dict(zip(known, row, strict=True)) for row in values]
    mapped = ["own_files" if looks else "mapped_file"] if "mapped_file_bytes" in known else []
    names = [*(name.removesuffix("_bytes") for name in held), *mapped]
    undroppable = [sum(row[n] for n in held) for row in rows]
    files = (_own_files(row, _nearest(looks, row)) for row in rows)
    total = max(map(sum, zip(undroppable, files, strict=True)))
    if not total:
        # It ended before a sample saw any of its memory.
        return Demand()
    return Demand(total, max(undroppable), f"sampled {'+'.join(names)}")


def _own_files(row: Mapping[str, int], look: MapsLook | None) -> int:
    """The mapped files among a sample's pages, without shared memory and libraries."""
    mapped, shared = row.get("mapped_file_bytes", 0), row.get("shmem_bytes", 0)
    # Mapped files of a disk are among the cached ones.
    cached = max(0, row["file_bytes"] - shared) if "file_bytes" in row else mapped
    if look is None:
        return min(mapped, cached)
    files = min(max(0, mapped - shared + look.unmapped_shared_bytes), mapped, cached)
    return max(0, files - look.charged_library_bytes)


def _nearest(looks: Sequence[MapsLook], row: Mapping[str, int]) -> MapsLook | None:
    return min(looks, key=lambda look: abs(look.t_ns - row["t_ns"]), default=None)


class MapsWatch:
    """Reads the maps of a trial whenever its processes map more than before.

    So steady rounds, which map nothing new, are left alone.

    Args:
        cgroup: the trial's.
        wanted: whether to look at all.
        is_limited: whether its memory is; then only libraries are looked at, as ``memory.stat`` is
            not read.
    """

    def __init__(self, cgroup: Cgroup, *, wanted: bool, is_limited: bool = False) -> None:
        self._cgroup, self._wanted, self._is_limited = cgroup, wanted, is_limited
        self.looks: list[MapsLook] = []
        #: The most of libraries that was seen; None without a look.
        self.library_bytes: int | None = None
        #: Why there is no look; None if there is one.
        self.missing: str | None = NOT_LOOKED
        self._most_bytes, self._next_ns = -1, 0

    def reasons(self) -> dict[str, str]:
        """Why the libraries' size is missing, by its key in the record."""
        return {} if self.missing is None else {"library_bytes": self.missing}

    @property
    def elsewhere_bytes(self) -> int | None:
        """The most of its own files that was seen mapped and charged elsewhere."""
        return max((look.elsewhere_bytes for look in self.looks), default=None)

    def look(self) -> None:
        """Look if something new is mapped and it isn't too soon."""
        began_ns = time.monotonic_ns()
        if not self._wanted or began_ns < self._next_ns:
            return
        pids = self._cgroup.pids()
        mapped = mapped_bytes(pids)
        if mapped > self._most_bytes + 2 * SAME_BYTES or self.library_bytes is None:
            self._most_bytes = mapped
            if self._is_limited:
                self._look_at_libraries(pids)
            else:
                self._look(pids)
        ended_ns = time.monotonic_ns()
        self._next_ns = ended_ns + round((ended_ns - began_ns) / _LOOKING_SHARE)

    def _look_at_libraries(self, pids: Sequence[int]) -> None:
        if pids and (found := mapped_files(pids)):
            self._saw(found)

    def _saw(self, found: MappedFiles) -> None:
        self.missing = None
        self.library_bytes = max(self.library_bytes or 0, found.library_bytes)

    def _look(self, pids: Sequence[int]) -> None:
        # Between two readings the maps are read: of what grows or shrinks the lesser one counts.
        before, found, after = self._charged(), mapped_files(pids), self._charged()
        if not pids:
            return
        if before is None or found is None or after is None:
            self.missing = NOT_SHOWN if not self.looks else None
            return
        mapped, shared = min(before[0], after[0]), min(before[1], after[1])
        self._saw(found)
        files, charged = mapped - found.shared_bytes, max(before[0], after[0])
        # What ended meanwhile may have mapped more than either reading shows.
        beyond = found.own_bytes - (charged - found.shared_bytes) if after[0] >= before[0] else 0
        self.looks.append(
            MapsLook(
                t_ns=time.monotonic_ns(),
                unmapped_shared_bytes=max(0, shared - found.shared_bytes),
                # Which of the charged pages are its own is not shown: all that can be.
                charged_library_bytes=max(0, files - found.own_bytes),
                elsewhere_bytes=max(0, beyond),
            )
        )

    def _charged(self) -> tuple[int, int] | None:
        """Bytes of mapped files and of shared memory that the cgroup is charged for."""
        stat = self._cgroup.file("memory", "memory.stat")
        if stat is None:
            return None
        values, sources = parse_counters(stat.read_text()), self._cgroup.sources
        mapped = values.get(sources["mapped_file_bytes"].key)
        shared = values.get(sources["shmem_bytes"].key)
        return None if mapped is None or shared is None else (mapped, shared)
