"""Threads of a schedule waiting for one another; a failure in one ends them all."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Hashable, Iterable


class StoppedError(Exception):
    """Another thread of the schedule failed; its error is the one that counts."""


class ThreadOrder:
    """Things that are done, and waiting for them."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._done: set[Hashable] = set()
        self._failure: BaseException | None = None

    def done(self, thing: Hashable) -> None:
        """Mark a thing done and wake those who wait for it."""
        with self._condition:
            self._done.add(thing)
            self._condition.notify_all()

    def wait(self, thing: Hashable) -> None:
        """Wait until it is done.

        Raises:
            StoppedError: another thread failed meanwhile.
        """
        with self._condition:
            self._condition.wait_for(lambda: self._failure or thing in self._done)
            if self._failure:
                raise StoppedError

    def is_done(self, thing: Hashable) -> bool:
        """Whether it is done already."""
        with self._condition:
            return thing in self._done

    def claim(self, thing: Hashable) -> bool:
        """Take a thing to do; False if somebody has it already.

        Raises:
            StoppedError: another thread failed meanwhile.
        """
        with self._condition:
            if self._failure:
                raise StoppedError
            claimed = ("claimed", thing)
            if claimed in self._done:
                return False
            self._done.add(claimed)
            return True

    def run(self, works: Iterable[Callable[[], None]]) -> None:
        """Run each in a thread of its own, to the end of all; raises the first failure."""
        # Daemons: should one fail to start, those that wait for it don't hold up the exit.
        threads = [threading.Thread(target=self._guarded, args=(w,), daemon=True) for w in works]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self._failure:
            raise self._failure

    def _guarded(self, work: Callable[[], None]) -> None:
        if torch := sys.modules.get("torch"):
            # Until it is asked, a new thread convolves on all cores, whatever was set.
            torch.get_num_threads()
        try:
            work()
        except StoppedError:
            pass
        except BaseException as error:
            with self._condition:
                self._failure = self._failure or error
                self._condition.notify_all()
