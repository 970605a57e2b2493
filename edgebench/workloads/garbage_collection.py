"""Python's garbage collector in the worker: when it may run, and an event of each time it did.

A full collection walks over every object of the heap, which takes longer where parts of it are
swapped out, and it comes wherever the allocations before it happen to put it. So rounds run without
automatic collections (``gc = "frozen"``), and what they leave is collected between them.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgebench.workloads.recorder import Recorder

FROZEN, DEFAULT = "frozen", "default"
#: What the setting ``gc`` may be.
COLLECTORS = (FROZEN, DEFAULT)
#: A collection of the young alone is an event if it took as long.
_LONG_NS = 1_000_000
#: So often the heap is frozen: before the first round, and once more with what that left for good.
#: What a later round leaves may be a cycle that the next one drops, and must not be kept forever.
_FREEZES = 2


def record_collections(recorder: Recorder) -> Callable[[], None]:
    """Record full and long collections as events; call the returned function to stop."""
    began_ns = 0

    def seen(phase: str, info: Mapping[str, int]) -> None:
        nonlocal began_ns
        now_ns = time.monotonic_ns()
        if phase == "start":
            began_ns = now_ns
        elif info["generation"] == 2 or now_ns - began_ns >= _LONG_NS:
            recorder.collection(began_ns, now_ns, info["generation"], info["collected"])

    gc.callbacks.append(seen)
    return lambda: gc.callbacks.remove(seen)


@contextmanager
def collected_rounds(settings: Mapping[str, Any]) -> Iterator[Callable[[], None]]:
    """Rounds as the setting ``gc`` wants them; what is yielded is to be called before each.

    ``frozen``: it collects, and no collection comes by itself until the block ends. ``default``,
    and settings without the key: the collector is left as Python has it.
    """
    if settings.get("gc", DEFAULT) != FROZEN:
        yield lambda: None
        return
    rounds, was_on = 0, gc.isenabled()

    def before_round() -> None:
        nonlocal rounds
        gc.collect()
        if rounds < _FREEZES:
            gc.freeze()
        rounds += 1

    gc.disable()
    try:
        yield before_round
    finally:
        gc.unfreeze()
        if was_on:
            gc.enable()
