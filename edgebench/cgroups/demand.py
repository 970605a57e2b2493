"""What demand counts: memory that only swap can hold, and the files of its own that a trial maps.

Anonymous, shared and kernel memory, swap, and mapped files such as weights. Not cached files that
nothing maps, and not the pages of libraries, which the kernel charges to whoever read them first:
those are recorded beside it, and are added when a board is sized.

The kernel's ``mapped_file`` (version 1) and ``file_mapped`` (version 2) contain mapped shared
memory, which ``shmem`` contains too, and libraries. ``shmem`` also contains shared memory that
nothing maps, such as a file of a tmpfs. How much that is, and how much of libraries is charged,
is looked up in the processes' maps while an unlimited trial runs.

What comes and goes between two samples is in the kernel's high-water mark of the cgroup, which
counts cached files, too. Where the mark has risen since the sample before, it less the files that
either sample saw is a need: cached files stay unless something drops or removes them.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edgebench.cgroups.interface import Cgroup, parse_counters
from edgebench.cgroups.process_files import MappedFiles, mapped_bytes, mapped_files
from edgebench.cgroups.sampler import SAME_BYTES
from edgebench.records import WITH_PEAK

#: The part of a trial's time in which its maps are read at most: the kernel stops changes of a
#: process's maps meanwhile. Seen: 1 ms for a small program, 11 ms for one that imported torch.
_LOOKING_SHARE = 0.02
NOT_LOOKED = "the trial ended before its maps were read"
NOT_SHOWN = "this kernel does not show us what the trial's processes map (smaps, memory.stat)"
#: Columns of what only swap can hold.
HELD = ("anon_bytes", "shmem_bytes", "swap_bytes", "kernel_bytes")
#: That of the cgroup's high-water mark: the kernel's, or the highest usage that was sampled.
PEAK = "peak_bytes"


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


def demand_of(
    columns: Mapping[str, Sequence[int]],
    looks: Sequence[MapsLook] = (),
    resident_bytes: int | None = None,
) -> Demand:
    """Find the largest demand over samples, and over what the high-water mark shows between them.

    Nothing without anonymous memory, or where neither saw any memory. A column whose first value
    is negative is left out. Without a look all shared memory counts as unmapped as far as the
    cached files allow, and libraries that the cgroup is charged for are not told from its own
    files.

    Args:
        columns: the samples' ``t_ns`` and ``…_bytes``, as long as each other, from when the cgroup
            was empty.
        looks: in the order of their times.
        resident_bytes: what its processes had resident at once at most; None: not known.
    """
    known = {name for name, column in columns.items() if column and column[0] >= 0}
    if "anon_bytes" not in known:
        return Demand()
    held = [name for name in HELD if name in known]
    values = zip(*(columns[name] for name in known), strict=True)
    rows = [dict(zip(known, row, strict=True)) for row in values]
    own_files = [_own_files(row, looks) for row in rows]
    undroppable = [sum(row[name] for name in held) for row in rows]
    total = [sum(pair) for pair in zip(undroppable, own_files, strict=True)]
    has_peak = {"file_bytes", PEAK} <= known
    peaks = _needs_at_peaks(rows, own_files, resident_bytes) if has_peak else []
    total_bytes = _larger(max(total), max(map(sum, peaks), default=0))
    if not total_bytes:
        # It ended before a sample or the mark showed anything of its memory.
        return Demand()
    undroppable_bytes = _larger(max(undroppable), max((need for need, _ in peaks), default=0))
    mapped = ["own_files" if looks else "mapped_file"] if "mapped_file_bytes" in known else []
    names = [*(name.removesuffix("_bytes") for name in held), *mapped]
    source = f"sampled {'+'.join(names)}{WITH_PEAK if has_peak else ''}"
    return Demand(total_bytes, undroppable_bytes, source)


def _larger(sampled_bytes: int, peak_bytes: int) -> int:
    """Return the second only where it is more by more than the batches that the kernel charges.

    Of what is no larger than those, samples may have seen nothing at all.
    """
    is_tiny = sampled_bytes <= SAME_BYTES
    explained = sampled_bytes if is_tiny else sampled_bytes + SAME_BYTES
    return peak_bytes if peak_bytes > explained else sampled_bytes


def _needs_at_peaks(
    rows: Sequence[Mapping[str, int]], own_files: Sequence[int], resident_bytes: int | None
) -> list[tuple[int, int]]:
    """Find what was undroppable, and its own files, wherever the mark rose since a sample."""
    empty: Mapping[str, int] = {"t_ns": rows[0]["t_ns"], "file_bytes": 0}
    needs: list[tuple[int, int]] = []
    for index, pair in enumerate(itertools.pairwise([empty, *rows])):
        before, after = pair
        cached = [max(0, row["file_bytes"] - row.get("shmem_bytes", 0)) for row in pair]
        # Where files were dropped or removed meanwhile, more of them may have lain there between.
        if after[PEAK] > before.get(PEAK, 0) and cached[1] >= cached[0] - SAME_BYTES:
            held, swapped = after[PEAK] - max(cached), min(row.get("swap_bytes", 0) for row in pair)
            if resident_bytes is not None:
                # A file that came and went is in neither sample, nor in any process.
                beside = (row.get("shmem_bytes", 0) + row.get("kernel_bytes", 0) for row in pair)
                held = min(held, resident_bytes + max(beside))
            needs.append((held + swapped, max(own_files[max(0, index - 1) : index + 1])))
    return needs


def _own_files(row: Mapping[str, int], looks: Sequence[MapsLook]) -> int:
    """Return the mapped files among a sample's pages, without shared memory and libraries."""
    mapped, shared = row.get("mapped_file_bytes", 0), row.get("shmem_bytes", 0)
    # Mapped files of a disk are among the cached ones.
    cached = max(0, row["file_bytes"] - shared) if "file_bytes" in row else mapped
    if not looks:
        return min(mapped, cached)
    look = min(looks, key=lambda look: abs(look.t_ns - row["t_ns"]))
    files = min(max(0, mapped - shared + look.unmapped_shared_bytes), mapped, cached)
    return max(0, files - look.charged_library_bytes)


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
        #: The most that libraries took at a look; None without a look.
        self.library_bytes: int | None = None
        #: Why there is no look; None if there is one.
        self.missing: str | None = NOT_LOOKED
        self._most_bytes, self._next_ns = -1, 0

    def reasons(self) -> dict[str, str]:
        """Say why the libraries' size is missing, by its key in the record."""
        return {} if self.missing is None else {"library_bytes": self.missing}

    @property
    def elsewhere_bytes(self) -> int | None:
        """The most of its own files that was seen mapped and charged elsewhere.

        0 where it ended before a look; None where nothing of the kind is to be looked at, or shown.
        """
        looks_at_all = self._wanted and not self._is_limited and self.missing == NOT_LOOKED
        most = max((look.elsewhere_bytes for look in self.looks), default=None)
        return 0 if looks_at_all else most

    def look(self) -> None:
        """Look if something new is mapped and it isn't too soon."""
        began_ns = time.monotonic_ns()
        if not self._wanted or began_ns < self._next_ns:
            return
        pids = self._cgroup.pids()
        mapped = mapped_bytes(pids)
        if mapped > self._most_bytes + 2 * SAME_BYTES or self.library_bytes is None:
            self._most_bytes = mapped
            if pids and self._is_limited:
                self._keep(mapped_files(pids))
            elif pids:
                self._look(pids)
        ended_ns = time.monotonic_ns()
        self._next_ns = ended_ns + round((ended_ns - began_ns) / _LOOKING_SHARE)

    def _keep(self, files: MappedFiles | None) -> None:
        if files:
            self.missing = None
            self.library_bytes = max(self.library_bytes or 0, files.library_bytes)

    def _look(self, pids: Sequence[int]) -> None:
        # Between two readings the maps are read: of what grows or shrinks the lesser one counts.
        before, files, after = self._charged(), mapped_files(pids), self._charged()
        if before is None or files is None or after is None:
            self.missing = NOT_SHOWN if not self.looks else None
            return
        mapped, shared = min(before[0], after[0]), min(before[1], after[1])
        self._keep(files)
        charged = max(before[0], after[0])
        # What ended meanwhile may have mapped more than either reading shows.
        beyond = files.own_bytes - (charged - files.shared_bytes) if after[0] >= before[0] else 0
        self.looks.append(
            MapsLook(
                t_ns=time.monotonic_ns(),
                unmapped_shared_bytes=max(0, shared - files.shared_bytes),
                # Which of the charged pages are its own is not shown: all that can be.
                charged_library_bytes=max(0, mapped - files.shared_bytes - files.own_bytes),
                elsewhere_bytes=max(0, beyond),
            )
        )

    def _charged(self) -> tuple[int, int] | None:
        """Read how many bytes of mapped files and of shared memory the cgroup is charged for."""
        stat = self._cgroup.file("memory", "memory.stat")
        if stat is None:
            return None
        values, sources = parse_counters(stat.read_text(errors="replace")), self._cgroup.sources
        mapped = values.get(sources["mapped_file_bytes"].key)
        shared = values.get(sources["shmem_bytes"].key)
        return None if mapped is None or shared is None else (mapped, shared)
