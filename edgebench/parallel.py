"""A function called for each of some items in forked processes, one for each core."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from typing import Any, TypeVar

_Item = TypeVar("_Item")
_Found = TypeVar("_Found")
#: What a forked process calls: it has everything that its parent had, so that nothing is sent to it
#: but the item.
_FUNCTIONS: list[Callable[[Any], Any]] = []
#: So many objects are made between two garbage collections: a figure consists of thousands.
_OBJECTS = 20_000
#: prctl(2): the signal that a process gets when its parent ends.
_SET_PDEATHSIG = 1


@contextmanager
def begun_in_parallel(
    function: Callable[[_Item], _Found], items: Sequence[_Item], least: int = 2
) -> Iterator[Callable[[], list[_Found]]]:
    """Begins to call the function for each item; what is given is called for what it returned.

    What the function changes besides is lost. Forked processes have what their parent has at the
    beginning. One core, fewer items than ``least``, or a process that has threads: no process is
    forked, and all is done when it is called for. If one of the processes is killed, as for lack of
    memory, the items are done here.
    """
    cores = len(os.sched_getaffinity(0))
    processes = min(cores, len(items))
    if cores < 2 or len(items) < least or threading.active_count() > 1:
        with _few_collections():
            yield lambda: [function(item) for item in items]
        return
    with (
        _few_collections(),
        ProcessPoolExecutor(processes, get_context("fork"), _begin, (function,)) as pool,
    ):
        try:
            with warnings.catch_warnings():
                # Python 3.12 warns of threads, those of a library for matrices too, which end at a
                # fork.
                warnings.simplefilter("ignore", DeprecationWarning)
                begun = list(_submitted(pool, items))
            yield lambda: _found_by(begun, function, items)
        except BaseException:
            # Waited for: none may still write when the caller has gone on.
            pool.shutdown(cancel_futures=True)
            raise


@contextmanager
def _few_collections() -> Iterator[None]:
    """Garbage collections are rarer, and leave out what there is already, which is no garbage."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def _submitted(pool: ProcessPoolExecutor, items: Sequence[Any]) -> Iterator[Future[Any]]:
    """Fewer than there are items, if a process was killed meanwhile."""
    with suppress(BrokenProcessPool):
        for item in items:
            yield pool.submit(_call, item)


def _found_by(
    begun: Sequence[Future[_Found]], function: Callable[[_Item], _Found], items: Sequence[_Item]
) -> list[_Found]:
    with suppress(BrokenProcessPool):
        if len(begun) == len(items):
            return [one.result() for one in begun]
    return [function(item) for item in items]


def _begin(function: Callable[[Any], Any]) -> None:
    """In a forked process: leave Ctrl-C to the parent, end at once when it says so."""
    # Nor does it outlive a parent that is killed: it would wait for ever for more to do.
    ctypes.CDLL(None).prctl(_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    _FUNCTIONS.append(function)


def _call(item: Any) -> Any:
    return _FUNCTIONS[-1](item)
