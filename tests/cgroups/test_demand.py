"""What demand counts: each page once, and a trial's own files without libraries."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from edgebench.cgroups import demand
from edgebench.cgroups.demand import Demand, MapsLook, MapsWatch, demand_of
from edgebench.cgroups.interface import Cgroup
from edgebench.cgroups.join import join_command
from edgebench.cgroups.process_files import MappedFiles
from edgebench.cgroups.sampler import SAME_BYTES
from edgebench.cgroups.sampler_process import SamplerProcess
from edgebench.cgroups.v2 import SOURCES

MIB = 1 << 20
#: What the kernel charges in batches, and what a process maps by the way.
SLACK = 3 * MIB


def columns(**sizes: int) -> dict[str, list[int]]:
    """One sample at 100 ns."""
    return {"t_ns": [100], **{f"{name}_bytes": [size] for name, size in sizes.items()}}


@pytest.mark.parametrize(
    ("sizes", "look", "needed"),
    [
        # All of the shared memory is mapped: the kernel counts it in both.
        ({"shmem": 200, "mapped_file": 200, "file": 200}, (0, 0), 10 + 200),
        # A file that is only read is no demand, and isn't taken for a mapped one.
        ({"shmem": 200, "mapped_file": 200, "file": 500}, (0, 0), 10 + 200),
        # None of it is mapped, and weights are.
        ({"shmem": 200, "mapped_file": 100, "file": 300}, (200, 0), 10 + 200 + 100),
        # Some of both, beside cached files.
        ({"shmem": 200, "mapped_file": 190, "file": 900}, (80, 0), 10 + 200 + 70),
        # Fewer were mapped when it was looked: no more than is mapped now, nor than is cached.
        ({"shmem": 50, "mapped_file": 100, "file": 300}, (80, 0), 10 + 50 + 100),
        ({"shmem": 50, "mapped_file": 100, "file": 130}, (80, 0), 10 + 50 + 80),
        # Libraries that the trial is charged for are not its own files.
        ({"shmem": 0, "mapped_file": 160, "file": 160}, (0, 60), 10 + 100),
    ],
)
def test_each_page_counts_once(sizes: dict[str, int], look: tuple[int, int], needed: int) -> None:
    """Shared memory whether it is mapped or not, weights, no libraries."""
    looks = [MapsLook(90, *look)]
    found = demand_of(columns(anon=10, **sizes), looks)
    undroppable = 10 + sizes["shmem"]
    assert found == Demand(needed, undroppable, "sampled anon+shmem+own_files")


def test_the_nearest_look_counts() -> None:
    """What was charged at the beginning says nothing of the end."""
    table = {
        "t_ns": [0, 100],
        "anon_bytes": [1, 1],
        "file_bytes": [0, 90],
        "mapped_file_bytes": [0, 90],
    }
    looks = [MapsLook(1, 0, 0, 0), MapsLook(80, 0, 50, 70)]
    assert demand_of(table, looks).total_bytes == 1 + 40


def test_without_a_look_it_never_exceeds_what_is_charged() -> None:
    """The need may be overstated by libraries, but not by counting pages twice."""
    found = demand_of(columns(anon=10, shmem=200, mapped_file=210, file=210, swap=5, kernel=3))
    source = "sampled anon+shmem+swap+kernel+mapped_file"
    assert found == Demand(10 + 210 + 5 + 3, 10 + 200 + 5 + 3, source)
    assert demand_of(columns(anon=-1)) == Demand()
    # A program that ends at once: the kernel's statistics show nothing of it yet.
    assert demand_of(columns(anon=0, shmem=0, file=0)) == Demand()
    assert demand_of({"t_ns": [], "anon_bytes": []}) == Demand()
    # What is given back later was needed.
    assert demand_of({"t_ns": [0, 9], "anon_bytes": [30, 4]}) == Demand(30, 30, "sampled anon")


def rows(**sizes: list[int]) -> dict[str, list[int]]:
    """Samples of these MiB, 10 ms from each other."""
    count = len(sizes["peak"])
    nothing = {name: [0] * count for name in ("anon", "file", "shmem", "mapped_file")}
    of_mib = {f"{n}_bytes": [size * MIB for size in one] for n, one in (nothing | sizes).items()}
    return {"t_ns": [10_000_000 * n for n in range(count)], **of_mib}


@pytest.mark.parametrize(
    ("sizes", "needed", "undroppable"),
    [
        # 40 MiB come and go between two samples; or the program ends before there is one.
        ({"anon": [5, 6, 0], "peak": [5, 46, 46]}, 46, 46),
        ({"peak": [46]}, 46, 46),
        # A file that was read before or meanwhile is no need, and hides none.
        ({"anon": [6, 6], "file": [100, 200], "peak": [106, 206]}, 6, 6),
        ({"anon": [6, 6], "file": [200, 200], "peak": [206, 226]}, 26, 26),
        # One that was removed meanwhile may have been larger: nothing can be told of the mark.
        ({"anon": [6, 6, 0], "file": [10, 30, 0], "peak": [16, 36, 76]}, 6, 6),
        # Weights that stay mapped count beside it, shared memory once.
        ({"anon": [6, 6], "file": [90, 90], "mapped_file": [90, 90], "peak": [96, 136]}, 136, 46),
        ({"anon": [6, 6], "file": [40, 40], "shmem": [40, 40], "peak": [46, 86]}, 86, 86),
        # Also those that a sample saw before the mark rose, and not after it.
        ({"anon": [6, 6], "file": [90, 90], "mapped_file": [90, 30], "peak": [96, 136]}, 136, 46),
        # A mark that stays says nothing of what was cached when it was set.
        ({"anon": [6, 6], "file": [0, 0], "peak": [46, 46]}, 46, 46),
        ({"anon": [6, 6, 6], "file": [0, 90, 0], "peak": [6, 96, 96]}, 6, 6),
    ],
)
def test_what_comes_and_goes_between_samples_counts(
    sizes: dict[str, list[int]], needed: int, undroppable: int
) -> None:
    """The kernel's mark knows it, and the files among it are no need."""
    found = demand_of(rows(**sizes))
    source = "sampled anon+shmem+mapped_file and peak"
    assert found == Demand(needed * MIB, undroppable * MIB, source)


def test_no_more_than_processes_held_counts() -> None:
    """A file that came and went between two samples is in the mark, and in no process."""
    table = rows(anon=[6, 6], shmem=[0, 3], file=[0, 3], peak=[6, 90])
    assert demand_of(table, resident_bytes=20 * MIB).total_bytes == (20 + 3) * MIB
    assert demand_of(table, resident_bytes=200 * MIB).total_bytes == 90 * MIB


def test_the_kernels_batches_are_no_need() -> None:
    """The mark is above what is used by as much; a program as small may not be seen otherwise."""
    batch = rows(anon=[6, 6], peak=[6, 6])
    batch["peak_bytes"][1] += SAME_BYTES
    assert demand_of(batch).total_bytes == 6 * MIB
    assert demand_of({**rows(peak=[1]), "anon_bytes": [4096]}).total_bytes == MIB
    # Files that fell by less than that were not dropped: of the mark 30 MiB may be theirs.
    fell = rows(anon=[6, 6], file=[30, 30], peak=[36, 96])
    fell["file_bytes"][1] -= SAME_BYTES
    assert demand_of(fell).total_bytes == 66 * MIB


def test_what_lay_in_swap_before_and_after_a_peak_is_added() -> None:
    """The lesser of both: the rest may have been swapped out since the peak, of which it is part.

    90 MiB without the larger of the files before and after, 50; 3 MiB were in swap all the time.
    """
    table = rows(anon=[6, 7], file=[20, 50], swap=[3, 9], peak=[26, 90])
    assert demand_of(table).total_bytes == (90 - 50 + 3) * MIB
    assert demand_of(table | {"swap_bytes": [-1, -1]}).total_bytes == 40 * MIB


#: Three generations hold memory of every kind until their input ends. Arguments: folders on a disk
#: and in memory.
GENERATIONS = """
import mmap, os, sys
disk, memory = sys.argv[1:]
MIB = 1 << 20
def write(path, size):
    with open(path, "wb") as file:
        for _ in range(size // MIB):
            file.write(b"x" * MIB)
    return path
def mapped(path):
    file = os.open(path, os.O_RDONLY)
    area = mmap.mmap(file, 0, prot=mmap.PROT_READ)
    sum(area[i] for i in range(0, len(area), 4096))
    return area
held = [b"x" * (24 * MIB), mapped(write(disk + "/weights", 40 * MIB))]
if os.fork() == 0:
    shared = mmap.mmap(-1, 20 * MIB)
    for i in range(0, len(shared), 4096):
        shared[i] = 1
    fd = os.memfd_create("made")
    os.write(fd, b"x" * (16 * MIB))
    if os.fork() == 0:
        write(memory + "/unmapped", 12 * MIB)
        held.append(mapped(write(memory + "/mapped", 28 * MIB)))
        write(disk + "/cached", 36 * MIB)
        print("held", flush=True)
sys.stdin.read()
"""
SHARED, WEIGHTS, CACHED = (20 + 16 + 12 + 28) * MIB, 40 * MIB, 36 * MIB


@contextmanager
def generations(cgroup: Cgroup, disk: Path, memory: str) -> Iterator[None]:
    """The three hold their memory while the block runs."""
    words = [sys.executable, "-I", "-S", "-c", GENERATIONS, str(disk), memory]
    command = join_command(cgroup, words, None, None)
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield


@pytest.mark.own_cgroup
@pytest.mark.v2_core
def test_every_kind_of_memory_counts_once(cgroup: Cgroup, tmp_path: Path) -> None:
    """Of a child of a child too; a tmpfs file that nothing maps counts, a cached file does not."""
    sampler, watch = SamplerProcess(cgroup.hot_files(), tmp_path), MapsWatch(cgroup, wanted=True)
    disk = tmp_path / "disk"
    disk.mkdir()
    with (
        tempfile.TemporaryDirectory(dir="/dev/shm") as memory,
        generations(cgroup, disk, memory),
    ):
        watch.look()
        sampler.start()
        deadline = time.monotonic() + 200
        while not sampler._rows(1):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        counters = cgroup.read()
        sampler.stop()
    summary = sampler.summary(watch.looks)
    # No sample is as old.
    assert sampler.summary(watch.looks, demand_until_ns=0).demand_bytes is None
    sampler.pack(tmp_path / "samples.npz")
    last = np.load(tmp_path / "samples.npz")["stat"][-1]
    # Where the test's own folder lies in memory, its files are shared memory.
    in_memory = last["shmem_bytes"] > SHARED + CACHED
    own = sum(max(0, int(last[f"{name}_bytes"])) for name in ("anon", "kernel", "swap"))
    known = own + SHARED + WEIGHTS + (CACHED if in_memory else 0)
    assert summary.demand_bytes is not None
    assert abs(summary.demand_bytes - known) < SLACK
    peak, swap = counters.peak_bytes or summary.sampled_peak_bytes, summary.swap_peak_bytes
    assert peak is not None
    assert summary.demand_bytes <= peak + (swap or 0)
    assert summary.undroppable_bytes is not None
    assert abs(summary.demand_bytes - summary.undroppable_bytes - WEIGHTS) < SLACK or in_memory
    # Python and the C library, at least.
    assert watch.library_bytes is not None
    assert watch.library_bytes > 2 * MIB
    assert watch.missing is None


class Group:
    """A group of one process; at each reading its ``memory.stat`` has the next MiB in its list.

    They are of mapped files and of shared memory. Without any there is no such file.
    """

    sources = SOURCES

    def __init__(self, folder: Path, *charged: tuple[int, int]) -> None:
        self._file, self._left = folder / "memory.stat", list(charged)

    def pids(self) -> tuple[int, ...]:
        """The test's own process."""
        return (os.getpid(),)

    def file(self, controller: str, name: str) -> Path | None:
        """The statistics."""
        if not self._left:
            return None
        mapped, shared = self._left.pop(0)
        sizes = f"shmem {shared * MIB}\nfile_mapped {mapped * MIB}\n"
        self._file.write_text(f"anon 100\nfile 50\n{sizes}")
        return self._file


class Watched:
    """A watch of such a group, of which the test says what is mapped when; a look takes 1 ms."""

    def __init__(self, patch: pytest.MonkeyPatch, group: Group, **how: bool) -> None:
        self.watch = MapsWatch(cast("Cgroup", group), **{"wanted": True, **how})
        self._now_ms, self._found, self._mapped = 0.0, MappedFiles(), 0
        patch.setattr(demand, "mapped_bytes", lambda pids: self._mapped)
        patch.setattr(demand, "mapped_files", lambda pids: self._found)
        patch.setattr(demand.time, "monotonic_ns", self._clock)

    def _clock(self) -> int:
        self._now_ms += 0.5
        return round(self._now_ms * 1e6)

    def look(self, found: tuple[int, int, int] | None, mapped: int, after_ms: float = 100) -> None:
        """Look when this much of libraries, own files and shared memory is mapped, MiB."""
        self._now_ms += after_ms
        self._found = MappedFiles(*(size * MIB for size in found)) if found else None  # type: ignore[assignment]
        self._mapped = mapped
        self.watch.look()


@pytest.mark.parametrize(
    ("before", "after"), [((20, 9), (24, 12)), ((24, 12), (20, 9)), ((20, 12), (24, 9))]
)
def test_of_what_grew_or_shrank_between_two_readings_the_lesser_counts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, before: tuple[int, int], after: tuple[int, int]
) -> None:
    """Libraries are what is charged beside own files and shared memory; the rest nobody maps."""
    watched = Watched(monkeypatch, Group(tmp_path, before, after))
    watched.look((3, 4, 6), 1)
    (look,) = watched.watch.looks
    assert (look.unmapped_shared_bytes, look.elsewhere_bytes) == (3 * MIB, 0)
    assert look.charged_library_bytes == (20 - 6 - 4) * MIB
    assert (watched.watch.library_bytes, watched.watch.missing) == (3 * MIB, None)


@pytest.mark.parametrize(
    ("before", "after", "elsewhere"),
    [
        # 6 MiB of own files are mapped, and beside shared memory 4 are charged at most.
        (10, 10, 2),
        (9, 10, 2),
        # The charge shrank meanwhile: what ended may have mapped more.
        (10, 9, 0),
        (10, 0, 0),
        (14, 14, 0),
    ],
)
def test_own_files_that_are_charged_elsewhere_are_what_is_mapped_beyond(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, before: int, after: int, elsewhere: int
) -> None:
    """Another cgroup read them first."""
    watched = Watched(monkeypatch, Group(tmp_path, (before, 6), (after, 6)))
    watched.look((0, 6, 6), 1)
    assert watched.watch.elsewhere_bytes == elsewhere * MIB


def test_the_most_of_all_looks_counts_and_looks_are_few(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Only where more is mapped than before, and for a fiftieth of the time."""
    watched = Watched(monkeypatch, Group(tmp_path, *[(20, 0)] * 8))
    watched.look((3, 22, 0), 10 * SAME_BYTES)
    # No more is mapped; then more, but too soon: the look before took 1 ms.
    watched.look((9, 20, 0), 12 * SAME_BYTES)
    assert len(watched.watch.looks) == 1
    watched.look((5, 23, 0), 20 * SAME_BYTES)
    watched.look((9, 29, 0), 30 * SAME_BYTES, after_ms=45)
    assert len(watched.watch.looks) == 2
    watched.look((4, 21, 0), 40 * SAME_BYTES)
    found = [look.elsewhere_bytes // MIB for look in watched.watch.looks]
    assert found == [2, 3, 1]
    assert watched.watch.elsewhere_bytes == 3 * MIB
    assert watched.watch.library_bytes == 5 * MIB
    assert watched.watch.reasons() == {}


def test_why_nothing_is_told_of_maps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Not wanted, ended before, not shown; below a limit, where reading statistics saves, none."""
    unwanted = Watched(monkeypatch, Group(tmp_path), wanted=False)
    unwanted.look((1, 1, 1), 1)
    assert (unwanted.watch.looks, unwanted.watch.elsewhere_bytes) == ([], None)
    assert "library_bytes" in unwanted.watch.reasons()
    ended = Watched(monkeypatch, Group(tmp_path)).watch
    assert (ended.library_bytes, ended.elsewhere_bytes) == (None, 0)
    for group in (Group(tmp_path, (1, 1), (1, 1)), Group(tmp_path)):
        blind = Watched(monkeypatch, group)
        blind.look(None, 1)
        assert blind.watch.reasons() == {"library_bytes": demand.NOT_SHOWN}
        assert (blind.watch.library_bytes, blind.watch.elsewhere_bytes) == (None, None)
    limited = Watched(monkeypatch, Group(tmp_path), is_limited=True)
    limited.look((5, 1, 1), 1)
    assert (limited.watch.looks, limited.watch.elsewhere_bytes) == ([], None)
    assert (limited.watch.library_bytes, limited.watch.reasons()) == (5 * MIB, {})
