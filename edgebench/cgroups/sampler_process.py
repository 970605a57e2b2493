"""The sampler's process, the demand and growth that its rows show, and the file that keeps them."""

from __future__ import annotations

import itertools
import os
import statistics
import subprocess
import sys
import time
import zipfile
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from edgebench.cgroups.interface import Counters, HotFiles
from edgebench.cgroups.sampler import SAME_BYTES
from edgebench.errors import MachineError
from edgebench.records import WITH_PEAK, GrowthReport, SamplerReport, Watching
from edgebench.safe_files import open_empty, remove_file

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

    Demand is anonymous, shared and kernel memory, swap, and mapped files such as weights. It leaves
    out cached files that nothing maps, and pages of libraries, which the kernel charges to whoever
    read them first: those are recorded beside it, and are added when a board is sized.

    ``mapped_file`` (version 1) and ``file_mapped`` (version 2) contain mapped shared memory, which
    ``shmem`` contains too, and libraries. ``shmem`` also contains shared memory that nothing maps,
    such as a file of a tmpfs. ``looks`` tell how much that is.

    What comes and goes between two samples is in the mark, which counts cached files too. Where the
    mark has risen since the sample before, the mark less the files that either sample saw is a
    need: cached files stay unless something drops or removes them.

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


FAST_COLUMNS = ("t_ns", "usage_bytes", "swap_bytes", "cpu_ns")
#: Between two readings, and at most while nothing changes.
INTERVAL_S, QUIET_INTERVAL_S = 0.001, 0.005
#: At most while nothing changes where one core is all there is: each reading then stops the
#: workload.
ONE_CORE_QUIET_INTERVAL_S = 0.05
#: The same of ``memory.stat`` and the other files that change slowly.
STAT_INTERVAL_S, QUIET_STAT_INTERVAL_S = 0.01, 0.05
_JOIN_PATIENCE_S = 5.0
#: Columns of ``memory.stat``, as far as a version has them there.
_STAT_COLUMNS = (
    *("anon_bytes", "file_bytes", "mapped_file_bytes", "shmem_bytes", "swap_bytes"),
    *("page_tables_bytes", "slab_bytes", "major_faults", "refault_anon", "refault_file"),
    "kernel_bytes",
)


@dataclass(frozen=True)
class SampleSummary:
    """What the samples come to; the demand and its parts mean something only without a limit."""

    sampled_peak_bytes: int | None
    swap_peak_bytes: int | None
    demand_bytes: int | None
    demand_source: str | None
    undroppable_bytes: int | None = None


class SamplerProcess:
    """A sampler for one cgroup, in a process of its own outside that cgroup.

    Args:
        folder: of its rows, until they are packed; ``hot``: the cgroup's files.
        interval_s: between two readings; None: :data:`INTERVAL_S`, and where the kernel has exact
            peaks up to :data:`QUIET_INTERVAL_S` while usage and swap stay the same, on a single
            core up to :data:`ONE_CORE_QUIET_INTERVAL_S`.
        stat_interval_s: the same of slow files: :data:`STAT_INTERVAL_S` or ``interval_s``, and up
            to :data:`QUIET_STAT_INTERVAL_S`.
    """

    def __init__(
        self,
        hot: HotFiles,
        folder: Path,
        interval_s: float | None = None,
        stat_interval_s: float | None = None,
    ) -> None:
        self.interval_s = INTERVAL_S if interval_s is None else interval_s
        # Without a mark of the kernel's that can be reset, peaks are the samples' own.
        slows = interval_s is None and hot.peak_resets
        is_alone = len(os.sched_getaffinity(0)) == 1
        quiet_s = ONE_CORE_QUIET_INTERVAL_S if is_alone else QUIET_INTERVAL_S
        self._quiet_interval_s = quiet_s if slows else None
        self._stat_interval_s = max(stat_interval_s or STAT_INTERVAL_S, self.interval_s)
        rests = slows and stat_interval_s is None
        self._quiet_stat_interval_s = QUIET_STAT_INTERVAL_S if rests else None
        self._hot = hot
        self._files = (folder / "fast.i64", folder / "stat.i64")
        self._stat_keys = stat_keys(hot)
        self._small = small_files(hot)
        names = (name for _, columns in self._small for name in columns)
        self.stat_columns = ("t_ns", *self._stat_keys, *names)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def watching(self) -> Watching:
        """How it watches, and what of that the kernel is disturbed by."""
        hot = self._hot
        read = (hot.usage, hot.peak, hot.swap, hot.cpu, hot.stat, hot.kernel, hot.pressure, hot.io)
        return Watching(
            usage_interval_s=self.interval_s,
            stat_interval_s=self._stat_interval_s if hot.stat else None,
            slow_interval_s=self._stat_interval_s,
            files=sorted({file.name for file in read if file}),
            flushes=any(getattr(hot, name) for name in hot.flushing),
            marks_reset_at_boundaries=hot.peak_resets,
            quiet_interval_s=self._quiet_interval_s,
            quiet_slow_interval_s=self._quiet_stat_interval_s,
        )

    def start(self) -> None:
        """Start sampling; returns once it has its first row.

        Raises:
            MachineError: the sampler did not start.
        """
        hot, quiet_stat_s = self._hot, self._quiet_stat_interval_s or self._stat_interval_s
        fds = [open_empty(file, 0o644) for file in self._files]
        # The sampler's docstring explains them.
        words = [
            f"usage={hot.usage}",
            f"swap={hot.swap or ''}",
            f"swap_is_memsw={hot.swap_is_memsw}",
            f"cpu={hot.cpu or ''}",
            f"cpu_unit_ns={hot.cpu_unit_ns}",
            f"stat={hot.stat or ''}",
            f"stat_keys={','.join(self._stat_keys.values())}",
            f"interval_ns={round(self.interval_s * 1e9)}",
            f"quiet_interval_ns={round((self._quiet_interval_s or self.interval_s) * 1e9)}",
            f"stat_interval_ns={round(self._stat_interval_s * 1e9)}",
            f"quiet_stat_interval_ns={round(quiet_stat_s * 1e9)}",
            *(f"small={','.join(columns.values())}:{path}" for path, columns in self._small),
            f"fast_fd={fds[0]}",
            f"stat_fd={fds[1]}",
        ]
        script = str(Path(__file__).with_name("sampler.py"))
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", script, *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=fds,
            )
        finally:
            for fd in fds:
                os.close(fd)
        assert self._process.stdout
        if self._process.stdout.readline() != b"ready\n":
            _, error = self._process.communicate()
            lines = error.decode(errors="replace").strip().splitlines()
            reason = lines[-1] if lines else "it gave no reason"
            raise MachineError(f"the sampler did not start: {reason}")

    @property
    def pid(self) -> int | None:
        """The sampler's process; None when it isn't running."""
        return self._process.pid if self._process else None

    def stop(self) -> SamplerReport:
        """End the sampler; report how well it did and what it cost."""
        cost: list[float] = []
        if self._process is not None:
            process, self._process = self._process, None
            try:
                out, _ = process.communicate(timeout=_JOIN_PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                out, _ = process.communicate()
            cost = [float(word) for word in out.split()]
        rows, step = self._rows(0), len(FAST_COLUMNS)
        times, usage = rows[::step], rows[1::step]
        gaps = [(b - a) / 1e9 for a, b in itertools.pairwise(times)]
        # Only after a change is it known that it didn't mean to wait longer.
        moved = (abs(b - a) > SAME_BYTES for a, b in itertools.pairwise(usage))
        fast = (self._quiet_interval_s and list(itertools.compress(gaps[1:], moved))) or gaps
        return SamplerReport(
            interval_s=self.interval_s,
            achieved_s=statistics.median(fast) if fast else None,
            largest_gap_s=max(gaps) if gaps else None,
            samples=len(times),
            cpu_s=cost[0] if cost else None,
            rss_bytes=int(cost[1]) if cost else None,
        )

    def _rows(self, table: int) -> array[int]:
        file, rows = self._files[table], array("q")
        data = file.read_bytes() if file.exists() else b""
        columns = len(FAST_COLUMNS if table == 0 else self.stat_columns)
        # A full disk may have cut the last row.
        rows.frombytes(data[: len(data) // (8 * columns) * 8 * columns])
        return rows

    def summary(
        self,
        looks: Sequence[MapsLook] = (),
        demand_until_ns: int | None = None,
        end: Counters | None = None,
        resident_bytes: int | None = None,
    ) -> SampleSummary:
        """Summarise the samples, after :meth:`stop`.

        Args:
            looks: at maps: they make the demand exact.
            demand_until_ns: what comes later is no demand.
            end: the cgroup's counters when its processes had gone: the last sample.
            resident_bytes: what its processes had resident at once at most; None: not known.
        """
        fast, stat = self._rows(0), self._rows(1)
        step = len(FAST_COLUMNS)
        columns = {
            name: stat[i :: len(self.stat_columns)] for i, name in enumerate(self.stat_columns)
        }
        if end is not None and self._hot.stat:
            for name, column in columns.items():
                value = time.monotonic_ns() if name == "t_ns" else getattr(end, name, None)
                column.append(-1 if value is None else value)
        usage, swap = fast[1::step], fast[2::step]
        if "swap_bytes" in self._stat_keys:
            # Exact: on version 1 the fast one is a difference of two reads.
            swap = stat[self.stat_columns.index("swap_bytes") :: len(self.stat_columns)]
        if self._hot.peak is None:
            # The highest usage that was sampled up to each time; -1: there was no sample.
            highest = array("q", itertools.accumulate(usage, max, initial=-1))
            counts = (bisect_right(fast[::step], t_ns) for t_ns in columns["t_ns"])
            columns[PEAK] = array("q", (highest[count] for count in counts))
        if demand_until_ns is not None:
            count = bisect_right(columns["t_ns"], demand_until_ns)
            columns = {name: column[:count] for name, column in columns.items()}
        demand = demand_of(columns, looks, resident_bytes)
        return SampleSummary(
            sampled_peak_bytes=max(usage, default=None),
            swap_peak_bytes=max((size for size in swap if size >= 0), default=None),
            demand_bytes=demand.total_bytes,
            demand_source=demand.source,
            undroppable_bytes=demand.undroppable_bytes,
        )

    def held_between(self, start_ns: int, end_ns: int) -> tuple[list[float], list[int]]:
        """List seconds, and bytes that only swap can hold, of each sample of ``memory.stat``."""
        names, stat = self.stat_columns, self._rows(1)
        held = [names.index(name) for name in HELD if name in names]
        rows = zip(*(stat[n :: len(names)] for n in (0, *held)), strict=True)
        between = [(t / 1e9, sum(sizes)) for t, *sizes in rows if start_ns <= t <= end_ns]
        return [t for t, _ in between], [size for _, size in between]

    def pack(self, target: BinaryIO) -> None:
        """Write both tables as one ``.npz``: members ``fast`` and ``stat``, int64; -1: missing."""
        tables = {"fast": FAST_COLUMNS, "stat": self.stat_columns}
        with zipfile.ZipFile(target, "w") as archive:
            for number, (name, columns) in enumerate(tables.items()):
                rows = self._rows(number)
                # The head of a structured array in numpy's format 1.0 (numpy.lib.format).
                fields, shape = (
                    [(column, "<i8") for column in columns],
                    (len(rows) // len(columns),),
                )
                text = repr({"descr": fields, "fortran_order": False, "shape": shape})
                length = -(-(10 + len(text) + 1) // 64) * 64 - 10
                head = b"\x93NUMPY\x01\x00" + length.to_bytes(2, "little")
                head += text.encode().ljust(length - 1) + b"\n"
                # With no date: a board without a clock boots in 1970, which no zip file can hold.
                member = zipfile.ZipInfo(f"{name}.npy")
                archive.writestr(member, head + rows.tobytes(), zipfile.ZIP_DEFLATED, 1)
        for file in self._files:
            remove_file(file)


def stat_keys(hot: HotFiles) -> dict[str, str]:
    """Map column → its key in this ``memory.stat``; only version 1 has sums, as ``total_`` keys."""
    if hot.stat is None:
        return {}
    has_sums = "\ntotal_rss " in hot.stat.read_text(errors="replace")
    sources = {name: hot.sources[name] for name in _STAT_COLUMNS if name in hot.sources}
    keys = {name: source.key for name, source in sources.items() if source.file == hot.stat.name}
    return {**keys, "swapcached_bytes": "total_swapcached" if has_sums else "swapcached"}


def small_files(hot: HotFiles) -> list[tuple[Path, dict[str, str]]]:
    """List each small file with its columns and their shapes (see the sampler's ``numbers``)."""
    is_v2 = hot.io is not None and hot.io.name == "io.stat"
    read, written = ("rbytes=", "wbytes=") if is_v2 else ("Read", "Write")
    files = (
        (hot.peak, {PEAK: "bare"}),
        (None if hot.swap_is_memsw else hot.swap, {"swap_bytes": "bare"}),
        (hot.kernel, {"kernel_bytes": "bare"}),
        (hot.pressure, {"pressure_full_us": "full"}),
        (hot.io, {"io_read_bytes": read, "io_write_bytes": written}),
    )
    return [(file, columns) for file, columns in files if file]


#: What comes before this share of the time is the start, which is not looked at.
_START_SHARE = 1 / 3
#: At most this share of it, at its end, is the program's exit.
_EXIT_SHARE = 0.05
#: The rest is cut into this many windows.
_WINDOWS = 8
#: A series that is shorter, or has fewer samples, tells nothing.
_LEAST_S, _LEAST_SAMPLES = 1.0, 12
#: A rise counts from this many bytes on, and from this share of the memory.
_LEAST_BYTES, _LEAST_SHARE = 1 << 20, 0.005
#: This share of all pairs of windows must rise, less those that fall (Kendall's tau).
_RISING_PAIRS = 0.5
#: A rise is cut into this many steps. It has ended where the next one does not come for this share
#: of the time, and for this many times the longest rest between two steps.
_STEPS, _QUIET_SHARE, _QUIET_RESTS = 20, 0.1, 2.0
#: A rise that keeps this share of its pace from one half to the next does not level off; one that
#: does counts where what is still to come is this share of the memory.
_LEVELS_BELOW, _TO_COME_SHARE = 0.6, 0.05


def judge_growth(seconds: Sequence[float], sizes: Sequence[int]) -> GrowthReport | None:
    """Judge whether memory grew at the end of a series; None: it is too short to tell.

    Programs start up, fill caches and collect garbage, so a rise alone says little. What counts is
    the last part of the series, cut into windows of equal time: memory grows if its least values
    rise from window to window, if it still rises at the end, and if it does not level off.

    Args:
        seconds: when each sample was taken, rising.
        sizes: the bytes in use at each; they hold until the next one.
    """
    if sizes:
        # Without the last moments, in which a program that ends gives its memory back.
        half, last = max(sizes) / 2, len(sizes)
        from_s = seconds[-1] - _EXIT_SHARE * (seconds[-1] - seconds[0])
        while last > 1 and sizes[last - 1] < half and seconds[last - 1] >= from_s:
            last -= 1
        seconds, sizes = seconds[:last], sizes[:last]
    if len(seconds) < _LEAST_SAMPLES or seconds[-1] - seconds[0] < _LEAST_S:
        return None
    length_s = seconds[-1] - seconds[0]
    first = bisect_left(seconds, seconds[0] + _START_SHARE * length_s)
    times, tail = seconds[first:], sizes[first:]
    each_s = (times[-1] - times[0]) / _WINDOWS
    cuts = [bisect_left(times, times[0] + n * each_s) for n in range(1, _WINDOWS)]
    # Each window has the size that it begins with, too.
    ends = itertools.pairwise([0, *cuts, len(tail)])
    windows = [tail[max(0, low - 1) : max(high, 1)] for low, high in ends]
    floors, tops = list(map(min, windows)), list(map(max, windows))
    end = tops[-1]
    enough = max(_LEAST_BYTES, _LEAST_SHARE * end)
    slope = min(_slope(floors), _slope(tops))
    grows = (
        slope * (_WINDOWS - 1) >= enough
        and min(_tau(floors), _tau(tops)) >= _RISING_PAIRS
        and not _has_ended(times, tail)
        and not _levels_off(floors, end)
    )
    if grows:
        return GrowthReport(True, slope * _WINDOWS / (times[-1] - times[0]), end, None, length_s)
    reached = next(n for n, size in enumerate(sizes) if size >= max(sizes) - enough)
    return GrowthReport(False, 0.0, end, seconds[reached] - seconds[0], length_s)


def _slope(values: Sequence[int]) -> float:
    """Find the median rise from one window to the next, over all pairs (Theil and Sen)."""
    pairs = itertools.combinations(enumerate(values), 2)
    return statistics.median((high - low) / (n - m) for (m, low), (n, high) in pairs)


def _tau(values: Sequence[int]) -> float:
    """Return the share of pairs that rise, less those that fall (Kendall)."""
    signs = [(high > low) - (high < low) for low, high in itertools.combinations(values, 2)]
    return sum(signs) / len(signs)


def _has_ended(times: Sequence[float], sizes: Sequence[int]) -> bool:
    step = (max(sizes) - sizes[0]) / _STEPS
    rises, level = [times[0]], float(sizes[0])
    for at_s, size in zip(times, sizes, strict=True):
        if size >= level + step:
            rises.append(at_s)
            level = size
    rests = [late - early for early, late in itertools.pairwise(rises)]
    longest = max(_QUIET_SHARE * (times[-1] - times[0]), _QUIET_RESTS * max(rests, default=0.0))
    return times[-1] - rises[-1] > longest


def _levels_off(floors: Sequence[int], end_bytes: int) -> bool:
    middle = len(floors) // 2
    before, after = floors[middle] - floors[0], floors[-1] - floors[middle]
    if before <= 0 or after >= _LEVELS_BELOW * before:
        return False
    ratio = max(0.0, after / before)
    return after * ratio / (1 - ratio) < _TO_COME_SHARE * end_bytes
