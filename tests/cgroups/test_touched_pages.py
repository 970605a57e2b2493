"""Pages that a real process touched, as the kernel marks them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgebench.cgroups.process_maps import (
    TouchedPages,
    forget_touched,
    touched_in,
    touched_pages,
)

MIB = 1 << 20
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
SMAPS = """\
7f0000000000-7f0000800000 r--p 00000000 08:01 77 /usr/lib/a file.so
Size:               8192 kB
Rss:                4096 kB
Referenced:         3072 kB
Anonymous:          2048 kB
7f0000800000-7f0000c00000 rw-p 00000000 00:00 0
Size:               4096 kB
Rss:                4096 kB
Referenced:         1024 kB
Anonymous:          4096 kB
AnonHugePages:      2048 kB
7f0001000000-7f0001400000 rw-p 00000000 00:00 0 [heap]
Size:               4096 kB
Rss:                   0 kB
Referenced:            0 kB
Anonymous:             0 kB
"""


@pytest.fixture
def program(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[str]]:
    """It, when all was touched once; without huge pages if the test asks for no other advice."""
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
    """What it touched after all marks were taken away."""
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
    """What the interpreter itself touches comes on top: a few MiB, whatever the program does."""
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
    """Of 3 MiB touched some do, of all 32 MiB more."""
    whole = told(program, 32, 0).huge_bytes
    if not whole:
        pytest.skip("the kernel found no huge page")
    part = told(program, 3, 0)
    assert part.huge_bytes <= part.anonymous_bytes
    assert 0 < part.huge_bytes < whole


@pytest.mark.process
def test_a_process_that_is_gone_has_none(program: subprocess.Popen[str]):
    """Neither is an error."""
    program.kill()
    program.wait()
    assert not forget_touched([program.pid])
    assert touched_pages([program.pid]) is None


def test_a_mapped_file_s_own_pages_are_told_from_those_written_to():
    """Of 3 MiB touched in a file, 2 MiB are at most its own: so many are not anonymous."""
    assert touched_in(SMAPS) == TouchedPages(2 * MIB, 2 * MIB, MIB)
    assert touched_in("") == TouchedPages()
