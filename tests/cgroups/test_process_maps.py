"""What processes map and touch, which files they use, and what of a file lies in memory."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgebench.cgroups import process_files
from edgebench.cgroups.process_files import (
    LEAST_BYTES,
    MappedFiles,
    TouchedPages,
    cached_bytes,
    forget_touched,
    mapped_bytes,
    mapped_in,
    memory_devices,
    named_files,
    touched_in,
    touched_pages,
)

MIB = 1 << 20


def smaps(*mappings: tuple[str, dict[str, int]]) -> str:
    """What the kernel shows: each mapping's rights, place, device, inode and name; KiB."""
    text = ""
    for about, sizes in mappings:
        text += f"7f0000000000-7f0000800000 {about}\nSize: 8 kB\n"
        text += "".join(f"{key}: {kib:>8} kB\n" for key, kib in sizes.items())
    return text


#: One process's libraries, weights and shared memory; the last mapping is anonymous memory.
SMAPS = smaps(
    ("r--p 00000000 fe:00 11   /lib/libm.so", {"Rss": 2048, "Pss": 1024, "Pss_Dirty": 7}),
    ("r-xp 00001000 fe:00 11   /lib/libm.so", {"Rss": 4096, "Pss": 2048, "Anonymous": 0}),
    ("rw-p 00002000 fe:00 11   /lib/libm.so", {"Rss": 1024, "Pss": 1024, "Anonymous": 1024}),
    ("r--p 00000000 fe:00 12   /srv/weights of mine.bin", {"Rss": 10240, "Pss": 5120}),
    ("rw-s 00000000 00:01 13   /dev/zero (deleted)", {"Rss": 3072, "Pss": 1536, "Anonymous": 0}),
    ("r--s 00000000 00:1c 14   /dev/shm/cache", {"Rss": 5120, "Pss": 5120}),
    ("rw-p 00000000 00:00 0    [heap]", {"Rss": 9216, "Pss": 9216, "Anonymous": 9216}),
)
MEMORY = {"00:01", "00:1c"}


def test_maps_are_told_apart_by_what_they_map() -> None:
    assert mapped_in([SMAPS], MEMORY) == MappedFiles(6 * MIB, 10 * MIB, 8 * MIB)


def test_a_page_of_two_processes_counts_once() -> None:
    more = SMAPS.replace("Rss:    10240", "Rss:    20480")
    assert mapped_in([SMAPS, SMAPS], MEMORY) == MappedFiles(6 * MIB, 10 * MIB, 10 * MIB + 3 * MIB)
    assert mapped_in([SMAPS, more], MEMORY).own_bytes == 20 * MIB


def test_what_a_process_maps_is_bytes_of_files_and_shared_memory() -> None:
    """By the kernel's other count of it; memory of its own, of which a test has much, is none."""
    ballast = bytearray(os.urandom(1 << 16)) * 1024
    lines = Path("/proc/self/status").read_text().splitlines()
    sizes = {line.split()[0]: int(line.split()[1]) << 10 for line in lines if line.endswith(" kB")}
    mapped = sizes["RssFile:"] + sizes["RssShmem:"]
    assert mapped_bytes([os.getpid()]) == pytest.approx(mapped, abs=2 * MIB)
    # One that has ended maps nothing.
    assert mapped_bytes([os.getpid(), 4_000_000_000]) == pytest.approx(mapped, abs=2 * MIB)
    assert sizes["RssAnon:"] > len(ballast)


def test_file_systems_in_memory_are_found() -> None:
    mounts = (
        "22 1 254:0 / / rw shared:1 - ext4 /dev/root rw\n"
        "25 22 0:28 / /dev/shm rw,nosuid shared:4 master:2 - tmpfs tmpfs rw\n"
        "26 22 0:300 / /dev rw - devtmpfs devtmpfs rw\n"
    )
    assert memory_devices(mounts) == {"00:1c", "00:12c"}


HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
#: Touch all of 32 MiB and of a file, then on each line as many MiB of each as it says.
PROGRAM = """
import mmap, sys
area = mmap.mmap(-1, 32 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
opened = open(sys.argv[1], "rb")
file = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
area.madvise(getattr(mmap, sys.argv[2]))
def touch(anonymous, mapped):
    for place in range(0, anonymous << 20, mmap.PAGESIZE):
        area[place] = 1
    return sum(file[place] for place in range(0, mapped << 20, mmap.PAGESIZE))
touch(32, 16)
print("ready", flush=True)
for line in sys.stdin:
    print(touch(*map(int, line.split())), flush=True)
"""
TOUCHED = smaps(
    ("r--p 0 08:01 77 /usr/lib/a file.so", {"Rss": 4096, "Referenced": 3072, "Anonymous": 2048}),
    (
        "rw-p 00000000 00:00 0",
        {"Rss": 4096, "Referenced": 1024, "Anonymous": 4096, "AnonHugePages": 2048},
    ),
    ("rw-p 00000000 00:00 0 [heap]", {"Rss": 0, "Referenced": 0, "Anonymous": 0}),
)


@pytest.fixture
def program(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[str]]:
    mapped, advice = tmp_path / "mapped", getattr(request, "param", "MADV_NOHUGEPAGE")
    mapped.write_bytes(bytes(16 * MIB))
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", PROGRAM, str(mapped), advice],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        yield process
        process.kill()


def told(process: subprocess.Popen[str], anonymous: int, mapped: int) -> TouchedPages:
    if not forget_touched([process.pid]):
        pytest.skip("this kernel has no marks (CONFIG_PROC_PAGE_MONITOR)")
    assert process.stdin
    assert process.stdout
    process.stdin.write(f"{anonymous} {mapped}\n")
    process.stdin.flush()
    process.stdout.readline()
    found = touched_pages([process.pid])
    assert found is not None
    return found


@pytest.mark.process
@pytest.mark.parametrize(("anonymous", "mapped"), [(24, 4), (8, 12), (0, 0)])
def test_only_what_was_touched_counts(program: subprocess.Popen[str], anonymous: int, mapped: int):
    # Other programs that use the interpreter's files at this moment add to it.
    found = told(program, anonymous, mapped)
    for _ in range(200):
        if found.file_bytes < (mapped + 4) * MIB:
            break
        found = told(program, anonymous, mapped)
    assert anonymous * MIB <= found.anonymous_bytes < (anonymous + 3) * MIB
    assert mapped * MIB <= found.file_bytes < (mapped + 4) * MIB
    assert found.huge_bytes < 3 * MIB


@pytest.mark.process
@pytest.mark.skipif(
    not HUGE_PAGES.exists() or "[never]" in HUGE_PAGES.read_text(), reason="no huge pages here"
)
@pytest.mark.parametrize("program", ["MADV_HUGEPAGE"], indirect=True)
def test_what_lies_in_huge_pages_is_told(program: subprocess.Popen[str]):
    whole = told(program, 32, 0).huge_bytes
    if not whole:
        pytest.skip("the kernel found no huge page")
    part = told(program, 3, 0)
    assert part.huge_bytes <= part.anonymous_bytes
    assert 0 < part.huge_bytes < whole


@pytest.mark.process
def test_a_process_that_is_gone_has_none(program: subprocess.Popen[str]):
    program.kill()
    program.wait()
    assert not forget_touched([program.pid])
    assert touched_pages([program.pid]) is None


def test_a_mapped_file_s_own_pages_are_told_from_those_written_to():
    """Of 3 MiB touched in a file, 2 MiB are at most its own: so many are not anonymous."""
    assert touched_in(TOUCHED) == TouchedPages(2 * MIB, 2 * MIB, MIB)
    assert touched_in("") == TouchedPages()


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    sizes = dict.fromkeys(("mapped", "read", "both", "changed", "written", "code"), LEAST_BYTES)
    made = {name: tmp_path / name for name in (*sizes, "small")}
    for name, path in made.items():
        path.write_bytes(bytes(sizes.get(name, LEAST_BYTES - 1)))
    return made


def test_the_words_of_a_command_name_files(files: dict[str, Path], tmp_path: Path) -> None:
    words = ["prog", str(files["small"]), f"--model={files['read']}", "mapped", "x" * 300, "a\0b"]
    assert named_files(words, tmp_path) == [files["read"], files["mapped"]]


@pytest.mark.parametrize("mincore", [False, True])
def test_what_lies_in_the_page_cache_is_whole_pages(
    files: dict[str, Path], monkeypatch: pytest.MonkeyPatch, mincore: bool
) -> None:
    """All of a file that was just written, its last page too; before Linux 6.5 piece by piece."""
    if mincore:
        monkeypatch.setattr(process_files, "_CACHESTAT", 100_000)
        monkeypatch.setattr(process_files, "_PIECE_BYTES", 3 * mmap.PAGESIZE)
    with files["small"].open("rb+") as file:
        file.truncate(LEAST_BYTES + 1)
        file.seek(0)
        assert len(file.read()) == LEAST_BYTES + 1
        assert cached_bytes(file.fileno()) == LEAST_BYTES + mmap.PAGESIZE
