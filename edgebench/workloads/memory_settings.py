"""How the worker's process keeps memory: garbage collections, the heap's free pages, huge pages.

A full collection walks over every object of the heap, which takes longer where parts of it are
swapped out, and it comes wherever the allocations before it happen to put it. So rounds run without
automatic collections (``gc = "frozen"``), and what they leave is collected between them.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgebench.errors import WorkloadError

if TYPE_CHECKING:
    from edgebench.workloads.recorder import Recorder

FROZEN, DEFAULT = "frozen", "default"
#: What the setting ``gc`` may be.
COLLECTORS = (FROZEN, DEFAULT)
#: A collection of young objects alone is an event if it took this long.
_LONG_NS = 1_000_000
#: The heap is frozen before the first round, and once more with what that round left for good.
#: A later round may leave a cycle that the next one drops, which must not be kept forever.
_FREEZES = 2
_SET_THP_DISABLE = 41
_STATUS = Path("/proc/self/status")


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
    """Collect garbage as the setting ``gc`` says; call what is yielded before each round.

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


def heap_trimmer(settings: Mapping[str, Any]) -> Callable[[], None]:
    """Make a function to call at the end of each round, which trims the heap.

    Freed memory stays in glibc's heap, and under a limit the kernel writes it to swap though nobody
    needs it (malloc_trim(3)). The function does nothing where the setting ``malloc_trim`` is off,
    or the C library has no such function.
    """
    if settings.get("malloc_trim"):
        # Lazy: settings are checked where nothing needs it, and it is no part of a worker's base.
        import ctypes

        if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
            return lambda: trim(0)
    return lambda: None


def refuse_huge_pages(recorder: Recorder) -> None:
    """Give this process and its children pages of the usual size alone; note what the kernel says.

    See prctl(2), PR_SET_THP_DISABLE.

    Raises:
        WorkloadError: the kernel has no such switch.
    """
    import ctypes

    if ctypes.CDLL(None, use_errno=True).prctl(_SET_THP_DISABLE, 1, 0, 0, 0):
        raise WorkloadError("huge pages can't be refused here", remedy="leave huge_pages out")
    lines = _STATUS.read_text(errors="replace").splitlines()
    status = dict(line.partition(":")[::2] for line in lines)
    # Linux before 5.0 doesn't say.
    enabled = status.get("THP_enabled")
    recorder.note(huge_pages=None if enabled is None else enabled.strip() == "1")
