"""Misses by reuse distance, against hand-made strings and memory simulated page by page."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pages_by_force import lru_pages, optimal_share, random_share

from edgebench.slowdown.misses import Memory, Missed, at_random, lru, missed, mixed, optimal
from edgebench.slowdown.patterns import cyclic, last_in_first_out
from edgebench.slowdown.references import References, Script
from edgebench.slowdown.reuse import CACHE_KEPT_BYTES, reuse_of

PAGE = 4096
LRU = Memory(lru_share=1.0)


def misses(string: References, *room: float, memory: Memory = LRU) -> Missed:
    """What each task of a string misses where it has so many bytes."""
    tasks = int(string.task.max()) + 1
    return missed(
        string,
        reuse_of(string),
        tasks,
        np.array(room, dtype=float),
        memory,
    )


def written(*pieces: tuple[str, int]) -> tuple[Script, dict[str, list[int]]]:
    """A script and its tensors of so many pages, each written once by task 0."""
    script = Script()
    tensors = {name: script.new(pages * PAGE) for name, pages in pieces}
    for pieces_of in tensors.values():
        script.touch(pieces_of, 0, write=True)
    return script, tensors


def test_reuse_distances_by_hand():
    """Of a b c a b, a comes back after a, b, c; b after b, c, a; c never."""
    script, t = written(("a", 1), ("b", 2), ("c", 4))
    script.touch(t["a"], 1)
    script.touch(t["b"], 1)
    found = reuse_of(script.done())
    assert found.distance[:3].tolist() == [7 * PAGE, 7 * PAGE, 7 * PAGE]
    assert found.is_used[:3].tolist() == [1, 1, 0]
    assert found.end[:2].tolist() == [3, 4]


def test_what_is_freed_makes_room():
    """Between two uses of a, b came and went before c came: a needs only the larger beside it."""
    script, t = written(("a", 1))
    for name, pages in (("b", 3), ("c", 2)):
        t[name] = script.new(pages * PAGE)
        script.touch(t[name], 0, write=True)
        script.free(t[name])
    script.touch(t["a"], 1)
    assert reuse_of(script.done()).distance[0] == 4 * PAGE


def test_a_scan_is_missed_whole_or_not_at_all():
    """A cyclic scan under LRU: nothing missed where it fits, all of it one page below."""
    string = cyclic([PAGE] * 10, passes=3)
    back = misses(string, 10 * PAGE, 9 * PAGE, 2 * PAGE).in_bytes
    assert back[1:].tolist() == [[0, 10 * PAGE, 10 * PAGE]] * 2


def test_activations_come_back_in_reverse():
    """Uniform activations miss what does not fit; whole tensors overshoot: MODEL's shares."""
    shares = (0.95, 0.75, 0.5, 0.25)
    fine = last_in_first_out([PAGE] * 100, steps=1)
    back = misses(fine, *(100 * PAGE * share for share in shares)).in_bytes[1]
    assert back / (100 * PAGE) == pytest.approx([0.05, 0.25, 0.5, 0.75])
    coarse = last_in_first_out([PAGE * n for n in (8, 23, 28, 26, 15)], steps=2)
    back = misses(coarse, *(100 * PAGE * share for share in shares)).in_bytes[3]
    assert back / (100 * PAGE) == pytest.approx([0.08, 0.31, 0.59, 0.85])


def test_large_tensors_are_cut_into_pieces():
    """A tensor of many pieces is half in memory, and all its bytes are there."""
    script = Script()
    pieces = script.new(25 << 20)
    assert len(pieces) == 7
    assert sum(script.bytes) == 25 << 20
    assert script.new(0) == []


@settings(max_examples=80, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=7),
    order=st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=1, max_size=40),
    frames=st.integers(1, 20),
)
def test_any_string_misses_what_lru_misses(
    sizes: list[int], order: list[tuple[int, bool]], frames: int
):
    """Certified: bytes back of each task are LRU's page by page; those out, but for the last stay.

    What is never used again counts as a whole piece, of which LRU still holds a part at the end.
    """
    script = Script()
    tensors = [script.new(pages * PAGE) for pages in sizes]
    for tensor in tensors:
        script.touch(tensor, 0, write=True)
    for number, (which, write) in enumerate(order):
        script.touch(tensors[which % len(tensors)], 1 + number, write=write)
    string = script.done()
    found, truth = misses(string, frames * PAGE), lru_pages(string, PAGE, frames)
    counted = [truth.back.get(task, 0) for task in range(len(order) + 1)]
    assert found.in_bytes[:, 0].tolist() == [pages * PAGE for pages in counted]
    assert 0 <= found.out_bytes.sum() / PAGE - truth.out <= sum(sizes)


@settings(max_examples=80, deadline=None)
@given(
    steps=st.lists(st.tuples(st.integers(0, 9), st.booleans()), min_size=1, max_size=60),
    frames=st.integers(1, 8),
)
def test_frees_are_as_lru_sees_them(steps: list[tuple[int, bool]], frames: int):
    """Certified with frees: pages come, are used again, and are given back at any time."""
    script = Script()
    alive: list[list[int]] = []
    for task, (which, free) in enumerate(steps):
        if which >= len(alive):
            alive.append(script.new(PAGE))
            script.touch(alive[-1], task, write=True)
        else:
            script.touch(alive[which], task)
            if free:
                script.free(alive.pop(which))
    string = script.done()
    found, truth = misses(string, frames * PAGE), lru_pages(string, PAGE, frames)
    assert found.in_bytes.sum() == sum(truth.back.values()) * PAGE
    assert found.out_bytes.sum() == truth.out * PAGE


@pytest.mark.parametrize("share", [0.9, 0.6, 0.3])
def test_optimal_replacement_of_a_scan(share: float):
    """Certified: 1 − M/D is what Belady's rule misses of a long cyclic scan."""
    string = cyclic([PAGE] * 60, passes=12)
    frames = int(60 * share)
    truth = optimal_share(string, PAGE, frames)
    told = optimal(np.array([60.0]), np.array([float(frames)]))[0]
    assert told == pytest.approx(truth, abs=0.03)


@pytest.mark.parametrize("share", [0.95, 0.8, 0.5])
def test_random_replacement_of_a_scan(share: float):
    """Certified: m = 1 − exp(−m·D/M) is what random replacement misses of a cyclic scan."""
    string = cyclic([PAGE] * 500, passes=40)
    frames = int(500 * share)
    truth = random_share(string, PAGE, frames, skip=5000)
    told = at_random(np.array([500.0]), np.array([float(frames)]))[0]
    assert told == pytest.approx(truth, abs=0.03)


def test_mixtures_lie_between():
    """θ mixes LRU and optimal; a knee takes LRU's edge off and leaves the far end."""
    distance, room = np.array([100.0]), np.array([50.0])
    assert mixed(distance, room, 1.0) == lru(distance, room) == 1
    assert mixed(distance, room, 0.0) == optimal(distance, room) == pytest.approx(0.5)
    assert mixed(distance, room, 0.4)[0] == pytest.approx(0.4 + 0.6 * 0.5)
    soft = lru(np.array([50.0, 51.0, 80.0]), np.full(3, 50.0), knee=2.0)
    assert soft == pytest.approx([0, 1 - np.exp(-0.5), 1], abs=1e-6)
    assert at_random(np.array([40.0]), room)[0] == 0


def test_anonymous_memory_sees_little_of_the_page_cache():
    """However large a file is read between two uses, only what the cache keeps counts."""
    script, t = written(("a", 1))
    file = script.new(64 << 20, is_file=True)
    script.touch(file, 0)
    script.touch(t["a"], 1)
    assert reuse_of(script.done()).distance[0] == PAGE + CACHE_KEPT_BYTES


def mapped(base: int, weights: int, passes: int) -> References:
    """A mapped file scanned again and again beside idle memory."""
    script = Script()
    script.touch(script.new(base), 0, write=True)
    file = script.new(weights, is_file=True)
    for number in range(passes):
        script.touch(file, number)
    return script.done()


def test_the_page_cache_has_what_anonymous_memory_leaves():
    """A mapped scan fits beside the base or is read again; what is idle gives way in the end."""
    mib = 1 << 20
    string = mapped(100 * mib, 60 * mib, passes=6)
    again = misses(string, 170 * mib, 140 * mib, 50 * mib).file_bytes / (60 * mib)
    assert again[1:, 0].tolist() == [0] * 5
    # 20 MiB are lacking: after two scans that missed, 32 MiB of the base have gone.
    assert again[1, 1] == pytest.approx(1)
    assert again[3:, 1].tolist() == [0] * 3
    # It could never fit, so nothing gives way.
    assert again[1:, 2] == pytest.approx([1] * 5)


def test_without_swap_nothing_gives_way():
    """Nothing anonymous comes back or goes out, and the cache is the only thing that shrinks."""
    mib = 1 << 20
    string = mapped(100 * mib, 60 * mib, passes=6)
    found = misses(string, 140 * mib, memory=Memory(1.0, swaps=False))
    assert found.file_bytes[1:, 0] == pytest.approx([60 * mib] * 5)
    assert found.in_bytes.sum() == found.out_bytes.sum() == 0


def test_zram_writes_what_came_back_again():
    """A disk keeps what it gave back; where it must be written anew, each pass writes all of it."""
    script, t = written(*((str(n), 1) for n in range(4)))
    for number in range(3):
        for name in t:
            script.touch(t[name], 1 + number)
    string = script.done()
    kept = misses(string, 2 * PAGE).out_bytes.sum()
    anew = misses(string, 2 * PAGE, memory=Memory(1.0, rewrites=True)).out_bytes.sum()
    assert kept == 4 * PAGE
    assert anew == 14 * PAGE
