"""What demand counts: each page once, and a trial's own files without libraries."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from edgebench.cgroups import demand
from edgebench.cgroups.demand import Demand, MapsLook, MapsWatch, demand_of
from edgebench.cgroups.interface import Cgroup
from edgebench.cgroups.join import join_command
from edgebench.cgroups.process_maps import MappedFiles, mapped_bytes, mapped_in, memory_devices
from edgebench.cgroups.sampler import SAME_BYTES
from edgebench.cgroups.sampler_process import SamplerProcess
from edgebench.cgroups.v2 import SOURCES

MIB = 1 << 20
#: What the kernel charges in batches, and what a process maps by the way.
SLACK = 3 * MIB
#: One process's libraries, weights and shared memory, MiB; the last mapping is anonymous memory.
SMAPS = """\
1000-2000 r--p 00000000 fe:00 11   /usr/lib/libm.so
Rss:                2048 kB
Pss:                1024 kB
Pss_Dirty:             0 kB
Anonymous:             0 kB
2000-3000 r-xp 00001000 fe:00 11   /usr/lib/libm.so
Rss:                4096 kB
Pss:                2048 kB
Anonymous:             0 kB
3000-4000 rw-p 00002000 fe:00 11   /usr/lib/libm.so
Rss:                1024 kB
Pss:                1024 kB
Anonymous:          1024 kB
4000-5000 r--p 00000000 fe:00 12   /srv/weights of mine.bin
Rss:               10240 kB
Pss:                5120 kB
Anonymous:             0 kB
5000-6000 rw-s 00000000 00:01 13   /dev/zero (deleted)
Rss:                3072 kB
Pss:                1536 kB
Anonymous:             0 kB
6000-7000 r--s 00000000 00:1c 14   /dev/shm/cache
Rss:                5120 kB
Pss:                5120 kB
Anonymous:             0 kB
7000-8000 rw-p 00000000 00:00 0    [heap]
Rss:                9216 kB
Pss:                9216 kB
Anonymous:          9216 kB
"""
MEMORY = {"00:01", "00:1c"}


def test_maps_are_told_apart_by_what_they_map() -> None:
    """Code with its other mappings, own files, shared memory; no page that was changed."""
    assert mapped_in([SMAPS], MEMORY) == MappedFiles(6 * MIB, 10 * MIB, 8 * MIB)


def test_a_page_of_two_processes_counts_once() -> None:
    """Both map the same pages, in the same shares or one of them more."""
    more = SMAPS.replace("Rss:               10240 kB", "Rss:               20480 kB")
    assert mapped_in([SMAPS, SMAPS], MEMORY) == MappedFiles(6 * MIB, 10 * MIB, 10 * MIB + 3 * MIB)
    assert mapped_in([SMAPS, more], MEMORY).own_bytes == 20 * MIB


def test_file_systems_in_memory_are_found() -> None:
    """Their devices, as smaps writes them."""
    mounts = (
        "22 1 254:0 / / rw shared:1 - ext4 /dev/root rw\n"
        "25 22 0:28 / /dev/shm rw,nosuid shared:4 master:2 - tmpfs tmpfs rw\n"
        "26 22 0:300 / /dev rw - devtmpfs devtmpfs rw\n"
    )
    assert memory_devices(mounts) == {"00:1c", "00:12c"}


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


class MadeUpGroup:
    """The test's own process, in a group whose statistics are a file."""

    sources = SOURCES

    def __init__(self, stat: Path) -> None:
        self._stat = stat

    def pids(self) -> tuple[int, ...]:
        """The test's own process."""
        return (os.getpid(),)

    def file(self, controller: str, name: str) -> Path:
        """Its statistics."""
        return self._stat


@pytest.fixture
def made_up_group(tmp_path: Path) -> Cgroup:
    """Such a group without shared memory."""
    stat = tmp_path / "memory.stat"
    stat.write_text("anon 100\nfile 50\nshmem 0\nfile_mapped 8\n")
    return cast("Cgroup", MadeUpGroup(stat))


def test_what_maps_nothing_new_is_not_looked_at_again(made_up_group: Cgroup) -> None:
    """The maps of a steady trial are read once."""
    watch = MapsWatch(made_up_group, wanted=True)
    for _ in range(3):
        watch._next_ns = 0
        watch.look()
    assert len(watch.looks) == 1
    assert mapped_bytes(made_up_group.pids()) > 0


def test_below_a_limit_only_libraries_are_looked_at(tmp_path: Path) -> None:
    """No ``memory.stat`` is read, which can prevent a kill: there is none here."""
    watch = MapsWatch(cast("Cgroup", MadeUpGroup(tmp_path / "gone")), wanted=True, is_limited=True)
    watch.look()
    assert watch.looks == []
    assert watch.elsewhere_bytes is None
    assert watch.library_bytes is not None
    assert watch.library_bytes > 2 * MIB
    assert watch.reasons() == {}


class EndingGroup(MadeUpGroup):
    """A process ends while its maps are read: at the second reading they are charged to nobody."""

    def file(self, controller: str, name: str) -> Path:
        """Its statistics, which shrink when they were read."""
        text = self._stat.read_text()
        self._stat.write_text("anon 0\nfile 0\nshmem 0\nfile_mapped 0\n")
        read = self._stat.with_name("read")
        read.write_text(text)
        return read


def test_what_ends_while_its_maps_are_read_is_not_charged_elsewhere(tmp_path: Path) -> None:
    """Its maps then hold more than the cgroup is charged for, and no other cgroup is."""
    stat = tmp_path / "memory.stat"
    with (tmp_path / "weights").open("wb+") as file:
        file.truncate(WEIGHTS)
        with mmap.mmap(file.fileno(), WEIGHTS, prot=mmap.PROT_READ) as weights:
            sum(weights[at] for at in range(0, WEIGHTS, mmap.PAGESIZE))
            stat.write_text("anon 100\nfile 50\nshmem 0\nfile_mapped 50\n")
            watch = MapsWatch(cast("Cgroup", EndingGroup(stat)), wanted=True)
            watch.look()
            assert watch.elsewhere_bytes == 0


def test_a_trial_that_is_not_to_be_looked_at_says_nothing(made_up_group: Cgroup) -> None:
    """Under a limit nothing is read."""
    watch = MapsWatch(made_up_group, wanted=False)
    watch.look()
    assert watch.looks == []
    assert watch.library_bytes is None
    assert "library_bytes" in watch.reasons()


class Charged:
    """A cgroup's looks, injected: what it is charged for of mapped files and of shared memory."""

    def __init__(self, *charged: tuple[int, int] | None) -> None:
        self._left = list(charged)

    def watch(self, monkeypatch: pytest.MonkeyPatch, found: MappedFiles | None) -> MapsWatch:
        """A watch of one process that maps this, in MiB, and has looked once."""
        cgroup: Any = SimpleNamespace(pids=lambda: [7])
        watch = MapsWatch(cgroup, wanted=True)
        monkeypatch.setattr(demand, "mapped_bytes", lambda pids: 1)
        monkeypatch.setattr(demand, "mapped_files", lambda pids: found)
        monkeypatch.setattr(watch, "_charged", lambda: self._left.pop(0))
        watch.look()
        return watch


@pytest.mark.parametrize(
    ("before", "after"), [((20, 9), (24, 12)), ((24, 12), (20, 9)), ((20, 12), (24, 9))]
)
def test_of_what_grew_or_shrank_between_two_readings_the_lesser_counts(
    monkeypatch: pytest.MonkeyPatch, before: tuple[int, int], after: tuple[int, int]
) -> None:
    """Libraries are what is charged beside own files and shared memory; the rest nobody maps."""
    found = MappedFiles(library_bytes=3 * MIB, own_bytes=4 * MIB, shared_bytes=6 * MIB)
    charged = [(mapped * MIB, shared * MIB) for mapped, shared in (before, after)]
    watch = Charged(*charged).watch(monkeypatch, found)
    (look,) = watch.looks
    assert look.unmapped_shared_bytes == 3 * MIB
    assert look.charged_library_bytes == (20 - 6 - 4) * MIB
    assert (look.elsewhere_bytes, watch.library_bytes, watch.missing) == (0, 3 * MIB, None)


@pytest.mark.parametrize(("after", "elsewhere"), [(10, 2), (9, 0)])
def test_own_files_that_are_charged_elsewhere_are_what_is_mapped_beyond(
    monkeypatch: pytest.MonkeyPatch, after: int, elsewhere: int
) -> None:
    """Unless the charge shrank meanwhile: what ended may have mapped more."""
    found = MappedFiles(library_bytes=0, own_bytes=6 * MIB, shared_bytes=6 * MIB)
    charged = ((10 * MIB, 6 * MIB), (after * MIB, 6 * MIB))
    watch = Charged(*charged).watch(monkeypatch, found)
    assert watch.elsewhere_bytes == elsewhere * MIB


def test_a_kernel_that_shows_no_maps_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing was seen before; there is no number then."""
    watch = Charged((1, 1), (1, 1)).watch(monkeypatch, None)
    assert (watch.looks, watch.library_bytes) == ([], None)
    assert watch.reasons() == {"library_bytes": demand.NOT_SHOWN}
    assert watch.elsewhere_bytes is None
