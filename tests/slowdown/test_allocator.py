"""The allocator's rules, against the C library itself: what a real process holds of the kernel."""

from __future__ import annotations

import ctypes
import json
import platform
import random
import subprocess
import sys
from collections.abc import Sequence

import numpy as np
import pytest

from edgebench.slowdown.simulator.allocator import (
    Heap,
    HeapBlock,
    MallocSettings,
    malloc_settings,
    parse_variables,
)
from edgebench.slowdown.simulator.heap_pages import HeapPages
from edgebench.slowdown.simulator.references import ReferenceRecorder

KIB, MIB = 1 << 10, 1 << 20
#: (number, size): allocate and fill; (number, 0): free.
Calls = Sequence[tuple[int, int]]

#: Makes the calls, and prints after each what the allocator has from the kernel, and what of the
#: process is in RAM: private pages, so that libraries' don't count.
REAL = """
import ctypes, json, sys
libc = ctypes.CDLL(None)
names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
class Info(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in names.split()]
libc.mallinfo2.restype = Info
libc.free.argtypes = [ctypes.c_void_p]
libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
libc.posix_memalign.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t]
calls = [tuple(one) for one in json.loads(sys.stdin.read())]
# All that Python needs is there before the first call: it would lie among the blocks.
places = (ctypes.c_void_p * (max(number for number, _ in calls) + 1))()
found = (ctypes.c_size_t * len(calls))()
width = ctypes.sizeof(ctypes.c_void_p)
def held():
    info = libc.mallinfo2()
    return info.arena + info.hblkhd
def resident():
    with open("/proc/self/status") as file:
        return int(file.read().split("RssAnon:")[1].split()[0]) * 1024
def make(number, size):
    assert not libc.posix_memalign(ctypes.byref(places, number * width), 64, size)
    libc.memset(places[number], 1, size)
# What is cut off to align a block goes to a thread's own list, which a program has long filled.
libc.malloc.restype = ctypes.c_void_p
small = [[libc.malloc(size) for _ in range(16)] for size in range(24, 1024, 16)]
for places_of_size in small:
    for place in places_of_size:
        libc.free(place)
make(0, 1 << 12)
# What Python left free would take the first blocks; how much it is depends on the length of paths.
while libc.mallinfo2().keepcost > 2048:
    libc.malloc(1024)
before = held(), resident()
for at, (number, size) in enumerate(calls):
    if size:
        make(number, size)
    else:
        libc.free(places[number])
    found[at] = held()
print(json.dumps([[one - before[0] for one in found], resident() - before[1]]))
"""

needs_glibc = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc" or not hasattr(ctypes.CDLL(None), "mallinfo2"),
    reason="the C library is not glibc 2.33 or newer, whose mallinfo2 is read",
)


def real(calls: Calls, **variables: str) -> tuple[list[int], int]:
    """What a real process held after each call, and what of it was in RAM at the end."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", REAL],
        input=json.dumps(calls),
        capture_output=True,
        text=True,
        check=True,
        env=variables,
    )
    held, resident = json.loads(done.stdout)
    return held, resident


def simulated(calls: Calls, **variables: str) -> tuple[list[int], int]:
    """The same of the simulated heap."""
    heap = Heap(malloc_settings(variables))
    script = ReferenceRecorder()
    pages = HeapPages(script, malloc_settings(variables))
    plain: dict[int, HeapBlock] = {}
    paged: dict[int, HeapBlock] = {}
    held = []
    for number, size in calls:
        if size:
            plain[number], paged[number] = heap.allocate(size), pages.allocate(size)
            pages.touch(paged[number], 0, write=True)
        else:
            heap.free(plain.pop(number))
            pages.free(paged.pop(number))
        held.append(heap.held_bytes)
    string = script.done()
    stays = string.freed == len(string)
    return held, int(string.bytes[stays].sum())


def steps(seed: int, count: int = 3) -> Calls:
    """Like a training: activations kept, workspaces freed at once, backward in reverse, state."""
    chance = random.Random(seed)
    sizes = [chance.choice((40 * KIB, 300 * KIB, MIB, 5 * MIB, 9 * MIB)) for _ in range(20)]
    weights = [chance.randrange(8 * KIB, 3 * MIB) for _ in sizes]
    calls: list[tuple[int, int]] = []
    number = 0

    def make(size: int) -> int:
        nonlocal number
        number += 1
        calls.append((number, size))
        return number

    for size in weights:
        make(size)
    for step in range(count):
        kept = []
        for size in sizes:
            kept.append(make(size))
            spaces = [make(size + 4096), make(size // 2 + 4096)]
            calls.extend((one, 0) for one in spaces)
        gradients, passing = [], make(4096)
        for size, weight, held in zip(
            reversed(sizes), reversed(weights), reversed(kept), strict=True
        ):
            gradient, space = make(size), make(2 * size)
            calls.extend([(space, 0), (passing, 0), (held, 0)])
            gradients.append(make(weight))
            passing = gradient
        calls.append((passing, 0))
        if step == 0:
            for weight in weights:
                make(weight)
        calls.extend((one, 0) for one in gradients)
    return calls


OTHER_VARIABLES = (
    "MALLOC_MMAP_THRESHOLD_=131072",
    "MALLOC_MMAP_THRESHOLD_=4194304",
    "MALLOC_TRIM_THRESHOLD_=67108864",
    "MALLOC_MMAP_MAX_=0",
)


@pytest.mark.process
@needs_glibc
@pytest.mark.parametrize(
    "words", ["", *(pytest.param(w, marks=pytest.mark.long) for w in OTHER_VARIABLES)]
)
def test_a_real_process_holds_what_the_rules_say(words: str):
    """Certified: heap and mappings after every call of three trainings' kinds.

    Small memory that Python leaves among the blocks can split what would merge, which then changes
    all that follows: most sequences are exact, and the others near.
    """
    variables, exact = parse_variables(words), 0
    for seed in range(3):
        calls = steps(seed)
        truth, resident = real(calls, **variables)
        told, stays = simulated(calls, **variables)
        apart = np.abs(np.array(told) - np.array(truth))
        exact += bool(np.median(apart) <= 64 * KIB)
        assert max(told) == pytest.approx(max(truth), rel=0.06, abs=MIB)
        if max(apart) <= 64 * KIB:
            assert stays == pytest.approx(resident, rel=0.02, abs=2 * MIB)
    assert exact >= 1


@pytest.mark.process
@needs_glibc
def test_the_real_threshold_rises_to_what_was_freed():
    """A second block of the size that was freed comes from the heap, and then stays there."""
    calls = [(1, 8 * MIB), (1, 0), (2, 8 * MIB), (3, MIB), (2, 0)]
    for held, _ in (real(calls), simulated(calls)):
        assert held[1] < MIB
        assert held[4] > 9 * MIB


def test_a_constant_threshold_gives_all_back():
    """Each block has a mapping of its own, and nothing stays."""
    heap = Heap(MallocSettings(adapts=False))
    for _ in range(3):
        blocks = [heap.allocate(size * MIB) for size in (1, 5, 40)]
        assert heap.held_bytes >= 46 * MIB
        for block in blocks:
            heap.free(block)
        assert heap.held_bytes == 0


def test_neighbours_merge_and_the_top_is_trimmed():
    """Two free neighbours serve one larger block; freed at the top, they go back."""
    heap = Heap(MallocSettings(mmap_threshold=64 * MIB, adapts=False))
    first, second, last = (heap.allocate(4 * MIB) for _ in range(3))
    held = heap.held_bytes
    heap.free(first)
    heap.free(second)
    large = heap.allocate(7 * MIB)
    assert large.start == 0
    assert heap.held_bytes == held
    heap.free(large)
    heap.free(last)
    assert heap.held_bytes < MIB


def test_a_hole_of_the_same_size_is_too_small():
    """As aligned memory is looked for with room to align it, between two blocks nothing fits."""
    heap = Heap(MallocSettings(mmap_threshold=64 * MIB, adapts=False))
    _, hole, _ = (heap.allocate(MIB) for _ in range(3))
    heap.free(hole)
    again = heap.allocate(MIB)
    assert again.start is not None
    assert hole.start is not None
    assert again.start > hole.start
    assert heap.allocate(MIB - 4096).start == hole.start


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("", MallocSettings()),
        ("MALLOC_ARENA_MAX=1", MallocSettings()),
        ("MALLOC_MMAP_THRESHOLD_=131072", MallocSettings(adapts=False)),
        ("MALLOC_MMAP_THRESHOLD_=many", MallocSettings()),
        ("MALLOC_TOP_PAD_=0", MallocSettings(top_pad=0, adapts=False)),
        (
            "MALLOC_TRIM_THRESHOLD_=1 MALLOC_MMAP_MAX_=2",
            MallocSettings(trim_threshold=1, mmap_max=2, adapts=False),
        ),
    ],
)
def test_the_environment_sets_the_parameters(words: str, told: MallocSettings):
    """Each variable sets its parameter and keeps the threshold where it is; others say nothing."""
    assert malloc_settings(parse_variables(words)) == told


def test_freed_memory_is_the_same_pages_again():
    """What stays in the heap is written again where it was; a mapping's pages are new ones."""
    seen = []
    for settings in (MallocSettings(mmap_threshold=64 * MIB), MallocSettings(adapts=False)):
        script = ReferenceRecorder()
        pages = HeapPages(script, settings)
        pinned = [pages.allocate(2 * MIB), pages.allocate(2 * MIB), pages.allocate(MIB)]
        pages.touch(pinned[1], 0, write=True)
        before = set(script.piece)
        pages.free(pinned[1])
        pages.touch(pages.allocate(MIB), 0, write=True)
        seen.append(bool(before & set(script.piece[len(before) :])))
    assert seen == [True, False]


def test_pages_beyond_the_heap_s_end_are_gone():
    """After a trim they are given back; where the heap grows again they are new."""
    script = ReferenceRecorder()
    pages = HeapPages(script, MallocSettings(mmap_threshold=64 * MIB, adapts=False))
    block = pages.allocate(8 * MIB)
    pages.touch(block, 0, write=True)
    pages.free(block)
    again = pages.allocate(8 * MIB)
    pages.touch(again, 0, write=True)
    string = script.done()
    assert string.alive.max() <= 9 * MIB
    assert len(set(script.piece)) > len(script.piece) // 2 + 1
