"""The live memory of a program, against a model that keeps every byte."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from edgebench.measures.strategies.heap_profilers import LiveSet

STEPS = st.lists(
    st.tuples(st.sampled_from(["map", "unmap"]), st.integers(0, 12), st.integers(1, 6))
)


@given(STEPS)
def test_mappings_are_counted_byte_by_byte(steps: list[tuple[str, int, int]]) -> None:
    heap, model = LiveSet(), set[int]()
    for step, start, size in steps:
        if step == "map":
            heap.map(start, size)
            model |= set(range(start, start + size))
        else:
            heap.unmap(start, size)
            model -= set(range(start, start + size))
        assert heap.live_bytes == len(model)


def test_blocks_are_given_back_by_their_address() -> None:
    """A free of what was never seen changes nothing; an address used again replaces its block."""
    heap = LiveSet()
    heap.free(5)
    heap.allocate(5, 100)
    heap.allocate(5, 30)
    heap.allocate(6, 7)
    assert heap.live_bytes == 37
    heap.free(5)
    assert heap.live_bytes == 7
