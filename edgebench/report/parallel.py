"""A function called for each of some items in forked processes, one for each core."""

from __future__ import annotations

import os
import signal
import threading
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any, TypeVar

_Item = TypeVar("_Item")
_Found = TypeVar("_Found")
#: What a forked process calls: it has everything that its parent had, so that nothing is sent to it
#: but the item.
_FUNCTIONS: list[Callable[[Any], Any]] = []


def in_parallel(function: Callable[[_Item], _Found], items: Sequence[_Item]) -> list[_Found]:
    """What the function returns of each item, in their order.

    What it changes besides is lost. One core, one item, or a process that has threads: no process
    is forked. If one of the processes is killed, as for lack of memory, the items are done here.
    """
    processes = min(len(os.sched_getaffinity(0)), len(items))
    if processes < 2 or threading.active_count() > 1:
        return [function(item) for item in items]
    try:
        return _forked(function, items, processes)
    except BrokenProcessPool:
        return [function(item) for item in items]


def _forked(
    function: Callable[[_Item], _Found], items: Sequence[_Item], processes: int
) -> list[_Found]:
    with (
        warnings.catch_warnings(),
        ProcessPoolExecutor(processes, get_context("fork"), _begin, (function,)) as pool,
    ):
        # Python 3.12 warns of threads, those of a library for matrices too, which end at a fork.
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            return list(pool.map(_call, items))
        except BaseException:
            # Waited for: none may still write when the caller has gone on.
            pool.shutdown(cancel_futures=True)
            raise


def _begin(function: Callable[[Any], Any]) -> None:
    """In a forked process: leave Ctrl-C to the parent, end at once when it says so."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _FUNCTIONS.append(function)


def _call(item: Any) -> Any:
    return _FUNCTIONS[-1](item)
