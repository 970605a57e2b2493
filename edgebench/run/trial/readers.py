"""What looks at a trial while it runs: readers, which one thread polls, the earliest first.

A reader that raises, or that takes longer than :data:`PATIENCE_S` for one look, costs its own keys
of the record and nothing else. What moves a limit is no reader: :mod:`.controllers`.
"""

from __future__ import annotations

import heapq
import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from edgebench.cgroups.interface import Counters
from edgebench.measures.gnu_time import GnuTime
from edgebench.text import printable

#: A reader that takes longer for one look is given up.
PATIENCE_S = 2.0

Fields = TypeVar("Fields")


@dataclass(frozen=True)
class Finished:
    """What a trial ended with.

    Args:
        counters: the cgroup's, when its processes were gone.
        gnu_time: its report; None where GNU time was killed too.
    """

    counters: Counters
    gnu_time: GnuTime | None


class Reader(ABC, Generic[Fields]):
    """Looks at a running trial, and says at its end what it saw."""

    #: Keys of the record that have the reason if it fails.
    keys: tuple[str, ...]

    def start(self) -> None:
        """Begin, before the workload is there."""

    def poll(self) -> float:
        """Look, and return the seconds until the next look."""
        return math.inf

    def end(self, command: int) -> None:
        """Look once more: that process has ended or is about to, and nothing is killed yet."""

    @abstractmethod
    def stop(self, finished: Finished) -> Fields:
        """Return what it saw, once all processes are gone."""

    def close(self) -> None:
        """Give back what it holds, however the trial ended."""


class ReaderLoop:
    """Starts readers, polls them until :meth:`end`, and stops them; a context manager.

    ``missing`` has the reason for each key of a reader that failed.
    """

    def __init__(self, readers: Iterable[Reader[Any] | None]) -> None:
        self.missing: dict[str, str] = {}
        self._readers = [reader for reader in readers if reader is not None]
        self._failed: dict[Reader[Any], str] = {}
        self._poller = _Poller([], self._fail)

    def __enter__(self) -> ReaderLoop:
        for reader in self._readers:
            self._call(reader, reader.start)
        self._poll()
        return self

    def __exit__(self, *_: object) -> None:
        self._poller.ended.set()
        for reader in self._readers:
            self._call(reader, reader.close)

    def check(self) -> None:
        """Give up a reader whose look hangs; call it now and then while the trial runs."""
        looking = self._poller.looking
        if looking and time.monotonic() - looking[1] > PATIENCE_S:
            self._hangs(looking[0])
            # When its look returns after all, that thread ends.
            self._poller.ended.set()
            self._poll()

    def end(self, command: int) -> None:
        """End polling, and have each reader look once more; ``command`` is the first process."""
        self._poller.ended.set()
        self._poller.join(PATIENCE_S)
        if self._poller.is_alive() and (looking := self._poller.looking):
            self._hangs(looking[0])
        for reader in self._left():
            self._call(reader, partial(reader.end, command))

    def stop(self, reader: Reader[Fields] | None, finished: Finished) -> Fields | None:
        """Return what the reader saw; None: there is none, or it failed."""
        if reader is None or reader in self._failed:
            return None
        return self._call(reader, partial(reader.stop, finished))

    def _left(self) -> list[Reader[Any]]:
        return [reader for reader in self._readers if reader not in self._failed]

    def _poll(self) -> None:
        self._poller = _Poller(self._left(), self._fail)
        self._poller.start()

    def _call(self, reader: Reader[Any], call: Callable[[], Fields]) -> Fields | None:
        """Call in a thread of its own, which is left to itself if it hangs."""
        results: list[Fields] = []

        def run() -> None:
            try:
                results.append(call())
            except Exception as error:  # whatever it met costs its own keys alone
                self._fail(reader, f"{type(error).__name__}: {error}")

        thread = threading.Thread(target=run, name="reader", daemon=True)
        thread.start()
        thread.join(PATIENCE_S)
        if thread.is_alive():
            self._hangs(reader)
            return None
        return results[0] if results else None

    def _hangs(self, reader: Reader[Any]) -> None:
        self._fail(reader, f"no answer for {PATIENCE_S:g} s")

    def _fail(self, reader: Reader[Any], reason: str) -> None:
        reason = f"it could not be read: {printable(reason)}"
        if self._failed.setdefault(reader, reason) == reason:
            self.missing |= dict.fromkeys(reader.keys, reason)


class _Poller(threading.Thread):
    """Polls readers until ``ended``; ``looking`` is the one that looks, and since when."""

    def __init__(
        self, readers: Iterable[Reader[Any]], fail: Callable[[Reader[Any], str], None]
    ) -> None:
        super().__init__(name="readers", daemon=True)
        self.ended = threading.Event()
        self.looking: tuple[Reader[Any], float] | None = None
        self._due = [(0.0, number, reader) for number, reader in enumerate(readers)]
        self._fail = fail

    def run(self) -> None:
        while self._due:
            due_s, number, reader = heapq.heappop(self._due)
            if self.ended.wait(max(0.0, due_s - time.monotonic())):
                return
            self.looking = reader, time.monotonic()
            try:
                wait_s = reader.poll()
            except Exception as error:  # whatever it met costs its own keys alone
                self._fail(reader, f"{type(error).__name__}: {error}")
                wait_s = math.inf
            self.looking = None
            if wait_s < math.inf:
                heapq.heappush(self._due, (time.monotonic() + wait_s, number, reader))
