"""What demand counts: each page once, and a trial's own files without libraries."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from edgebench.cgroups.interface import Cgroup
from edgebench.cgroups.join import join_command
from edgebench.cgroups.sampler import SAME_BYTES
from edgebench.cgroups.sampler_process import Demand, MapsLook, SamplerProcess, demand_of
from edgebench.run.trial.readers import Finished, MapsReader

MIB = 1 << 20
#: What the kernel charges in batches, and what a process maps by the way.
SLACK = 3 * MIB


def columns(**sizes: int) -> dict[str, list[int]]:
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
    looks = [MapsLook(90, *look)]
    found = demand_of(columns(anon=10, **sizes), looks)
    undroppable = 10 + sizes["shmem"]
    assert found == Demand(needed, undroppable, "sampled anon+shmem+own_files")


def test_the_nearest_look_counts() -> None:
    table = {
        "t_ns": [0, 100],
        "anon_bytes": [1, 1],
        "file_bytes": [0, 90],
        "mapped_file_bytes": [0, 90],
    }
    looks = [MapsLook(1, 0, 0, 0), MapsLook(80, 0, 50, 70)]
    assert demand_of(table, looks).total_bytes == 1 + 40


def test_without_a_look_it_never_exceeds_what_is_charged() -> None:
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
    found = demand_of(rows(**sizes))
    source = "sampled anon+shmem+mapped_file and peak"
    assert found == Demand(needed * MIB, undroppable * MIB, source)


def test_no_more_than_processes_held_counts() -> None:
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
    sampler, reader = SamplerProcess(cgroup.hot_files(), tmp_path), MapsReader(cgroup)
    disk = tmp_path / "disk"
    disk.mkdir()
    with (
        tempfile.TemporaryDirectory(dir="/dev/shm") as memory,
        generations(cgroup, disk, memory),
    ):
        reader.poll()
        sampler.start()
        deadline = time.monotonic() + 200
        while not sampler._rows(1):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        counters = cgroup.read()
        sampler.stop()
    maps = reader.stop(Finished(counters, None))
    summary = sampler.summary(maps.looks)
    # No sample is as old.
    assert sampler.summary(maps.looks, demand_until_ns=0).demand_bytes is None
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
    assert maps.library_bytes is not None
    assert maps.library_bytes > 2 * MIB
    assert maps.missing == {}
