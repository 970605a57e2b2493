"""What a worker reads of its own process and cgroup, in the shapes that kernels write."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from edgebench.measures.strategies import process
from edgebench.measures.strategies.process import (
    charged,
    code_areas,
    glibc_heap,
    of_process,
    python_arenas,
    split_by_mapping,
)

MIB = 1 << 20
STATUS = """\
Name:	python3
VmPTE:	     212 kB
VmSwap:	      31 kB
RssAnon:	    5000 kB
RssFile:	    7000 kB
RssShmem:	      90 kB
Threads:	3
"""
MAPS = """\
1000-3000 r-xp 00000000 fe:00 11                         /usr/lib/libm.so
4000-9000 rwxp 00000000 00:00 0
9000-a000 rw-p 00000000 00:00 0
a000-d000 r-xp 00000000 00:00 0
d000-e000 r-xp 00000000 00:00 0                          [vdso]
"""
MAPPINGS = ("/usr/lib/a library.so", "", "[heap]", "[stack]", "[anon: of Python]")
SMAPS = "".join(
    f"{n}000-{n}800 rw-p 00000000 fe:00 11 {name}\nRss: 999 kB\nAnonymous: {10 * n} kB\n"
    f"Swap: {n} kB\nTHPeligible: 0\nVmFlags: rd wr\n"
    for n, name in enumerate([*MAPPINGS, MAPPINGS[0]], start=1)
)
LISTS = "inactive_anon 1\nactive_anon 20\nunevictable 300\ninactive_file 4000\nactive_file 50000\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in (("status", STATUS), ("maps", MAPS), ("smaps", SMAPS)):
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(process, "SELF", tmp_path)
    return tmp_path


def test_kib_of_a_process_are_bytes(folder: Path) -> None:
    sizes = {"rss_anon": 5000, "rss_file": 7000, "rss_shmem": 90, "swap": 31, "page_tables": 212}
    assert of_process(folder) == {f"{name}_bytes": kib << 10 for name, kib in sizes.items()}
    assert of_process(folder / "gone") == {}


def test_what_is_anonymous_is_split_by_where_it_lies(folder: Path) -> None:
    """Resident or in swap: n is 11 KiB in the n-th mapping, of which the 1st and 6th are a file's.

    Code of no file: 0x5000 and 0x3000.
    """
    names = ("files", "unnamed", "heap", "stack")
    kib = dict(zip(names, (11 + 66, 22 + 55, 33, 44), strict=True))
    assert split_by_mapping() == {f"in_{name}_bytes": size << 10 for name, size in kib.items()}
    assert code_areas() == {"code_areas_bytes": 0x8000}
    (folder / "smaps").unlink()
    assert split_by_mapping() == {}


def test_what_a_cgroup_is_charged_for(tmp_path: Path) -> None:
    """Of version 1 with all below it; of version 2 the kernel's memory, or its parts' sum."""

    def told(text: str, kernel: str = "") -> dict[str, int]:
        fds = []
        for name, content in (("stat", text), ("kernel", kernel)):
            (tmp_path / name).write_text(content)
            fds.append(os.open(tmp_path / name, os.O_RDONLY))
        found = charged(fds[0], fds[1] if kernel else None)
        for fd in fds:
            os.close(fd)
        return {name.removeprefix("charged_"): size for name, size in found.items()}

    own = "rss 5\nshmem 6\nmapped_file 7\nswap 8\n"
    below = "total_rss 500\ntotal_shmem 600\ntotal_mapped_file 70\ntotal_swap 8000\n"
    lists = "".join(f"total_{line}\n" for line in LISTS.splitlines())
    both = {"anon_lists_bytes": 321, "file_lists_bytes": 54000}
    assert told(own + below + LISTS.replace(" ", " 9") + lists, "77") == both | {
        "anon_bytes": 500,
        "shmem_bytes": 600,
        "mapped_file_bytes": 70,
        "swap_bytes": 8000,
        "kernel_bytes": 77,
    }
    plain = "anon 500\nshmem 600\nfile_mapped 70\npagetables 31\nslab 400\n" + LISTS
    known = both | {"anon_bytes": 500, "shmem_bytes": 600, "mapped_file_bytes": 70}
    known |= {"page_tables_bytes": 31, "slab_bytes": 400}
    assert told(plain + "kernel 900\n") == known | {"kernel_bytes": 900}
    older = "kernel_stack 1\npercpu 20\nsock 5000\n"
    assert told(plain + older) == known | {"kernel_bytes": 1 + 20 + 5000 + 31 + 400}


def test_malloc_counts_what_it_gave_mapped_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    made = SimpleNamespace(uordblks=3000, hblkhd=400, fordblks=50)
    with monkeypatch.context() as patch:
        patch.setattr(process, "_mallinfo", lambda: lambda: made)
        assert glibc_heap() == {"heap_used_bytes": 3400, "heap_free_bytes": 50}
        patch.setattr(process, "_mallinfo", lambda: None)
        assert glibc_heap() == {}
    before = glibc_heap()
    if not before:
        pytest.skip("this C library has no mallinfo")
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, (ctypes.c_void_p,)
    held = libc.malloc(ctypes.c_size_t(64 * MIB))
    grown = glibc_heap()["heap_used_bytes"] - before["heap_used_bytes"]
    libc.free(held)
    assert 64 * MIB <= grown < 65 * MIB


@pytest.mark.process
def test_arenas_of_python_hold_its_small_objects() -> None:
    script = """if True:
        from edgebench.measures.strategies.process import python_arenas

        before = python_arenas()["python_arenas_bytes"]
        held = [object() for _ in range(300_000)]
        print(python_arenas()["python_arenas_bytes"] - before)
    """
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    # An object takes 16 bytes, and an arena has 1 MiB.
    assert 300_000 * 16 - MIB < int(done.stdout) < 300_000 * 16 + 2 * MIB


def test_standard_error_is_what_it_was_before_arenas_were_told() -> None:
    before = os.fstat(2)
    assert python_arenas()["python_arenas_bytes"] > MIB
    assert (os.fstat(2).st_dev, os.fstat(2).st_ino) == (before.st_dev, before.st_ino)
