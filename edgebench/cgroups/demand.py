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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edgebench.cgroups.sampler import SAME_BYTES
from edgebench.records import WITH_PEAK

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
