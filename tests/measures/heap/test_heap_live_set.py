"""The live memory of a program, against a model that keeps every byte."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from edgebench.measures.strategies.memray import LiveSet

PLACES = st.integers(0, 12)
STEPS = st.lists(
    st.tuples(st.sampled_from(["map", "unmap"]), PLACES, st.integers(1, 6), st.integers(0, 3))
)


@given(STEPS)
def test_mappings_are_counted_byte_by_byte(steps: list[tuple[str, int, int, int]]) -> None:
    heap: LiveSet[int] = LiveSet()
    model: dict[int, int] = {}
    for step, start, size, caller in steps:
        if step == "map":
            heap.map(start, size, caller)
            model |= dict.fromkeys(range(start, start + size), caller)
        else:
            heap.unmap(start, size)
            model = {at: who for at, who in model.items() if not start <= at < start + size}
        assert heap.live_bytes == len(model)
        assert {who: size for who, size in heap.largest(9) if size} == Counter(model.values())


def test_blocks_are_given_back_by_their_address() -> None:
    """A free of what was never seen changes nothing; an address used again replaces its block."""
    heap: LiveSet[str] = LiveSet()
    heap.free(5)
    heap.allocate(5, 100, "load")
    heap.allocate(5, 30, "execute")
    heap.allocate(6, 0, "load")
    assert (heap.live_bytes, heap.largest(1)) == (30, [("execute", 30)])
    heap.free(5)
    assert heap.live_bytes == 0
