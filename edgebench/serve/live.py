"""The live view: one reader of the machine and of the running sweep, any number of browsers.

Each browser first gets all that is known (so a reload loses nothing), then what changed. One that
reads too slowly is cut off; it connects again by itself and gets all that is known once more.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from edgebench.errors import EdgebenchError
from edgebench.live.sweep import SweepState, SweepTail, newest_running
from edgebench.live.system import SystemMemory, read_system
from edgebench.serve.queue import Queue
from edgebench.serve.shown import job_data, sweep_data, system_row, trial_news, trial_whole

#: A sample is written half a second after it was taken at the latest; together within a second.
TICK_S = 0.25
#: How often the machine is read, jobs are tended and a sweep is looked for.
_SLOW_TICK_S = 1.0
MOST_BROWSERS = 32
_MOST_BEHIND = 64
#: Ten minutes of the machine's memory.
_SYSTEM_KEPT = 600
#: Outcomes that a person can mend, and how many different reasons are told.
_FAULTS = ("failed", "harness-error")
_MOST_REASONS = 5


class TooManyBrowsersError(Exception):
    """No further browser can watch."""


class Hub:
    """Reads while somebody watches, and tells all who do.

    Args:
        root: the folder that holds all results.
        queue: the jobs, which are tended also while nobody watches.
        system: reads the machine.
    """

    def __init__(
        self,
        root: Path,
        queue: Queue,
        system: Callable[[], SystemMemory] = read_system,
    ) -> None:
        self._root = root
        self._queue = queue
        self._read_system = system
        self._browsers: set[asyncio.Queue[str | None]] = set()
        self._tail: SweepTail | None = None
        self._state: SweepState | None = None
        self._told: dict[str, Any] = {}
        self._reasons: deque[str] = deque(maxlen=_MOST_REASONS)
        self._system: deque[list[Any]] = deque(maxlen=_SYSTEM_KEPT)
        self._next_slow = 0.0

    @property
    def browsers(self) -> int:
        """How many watch."""
        return len(self._browsers)

    async def run(self) -> None:
        """Read and tell until cancelled."""
        while True:
            # Whatever became of a folder meanwhile: the next round sees it as it is then.
            with contextlib.suppress(OSError, EdgebenchError):
                self.tick()
            await asyncio.sleep(TICK_S if self._browsers else _SLOW_TICK_S)

    def tick(self) -> None:
        """One round of reading and telling."""
        now = time.monotonic()
        slow = now >= self._next_slow
        if slow:
            self._next_slow = now + _SLOW_TICK_S
            self._queue.tend()
        if not self._browsers:
            self._tail = self._state = None
            return
        if slow:
            self._look_for_sweep()
            self._system.append(system_row(self._read_system()))
            self._tell("system", {"rows": [self._system[-1]]})
        self._follow()

    async def watch(self) -> AsyncIterator[str]:
        """What one browser is told, as server-sent events.

        Raises:
            TooManyBrowsersError: so many watch already.
        """
        if len(self._browsers) >= MOST_BROWSERS:
            raise TooManyBrowsersError
        told: asyncio.Queue[str | None] = asyncio.Queue(_MOST_BEHIND)
        if not self._browsers:
            self._look_for_sweep()
            self._system.append(system_row(self._read_system()))
        self._follow()
        self._browsers.add(told)
        try:
            yield _event("whole", self._whole())
            while (message := await told.get()) is not None:
                yield message
        finally:
            self._browsers.discard(told)

    def close(self) -> None:
        """Let every browser go."""
        for browser in list(self._browsers):
            self._drop(browser)

    def _look_for_sweep(self) -> None:
        if self._tail is not None and self._state is not None and self._state.running:
            return
        path = newest_running(self._root)
        # A sweep that has ended stays in sight until another one runs.
        if path is not None and (self._tail is None or self._tail.path != path):
            self._tail = SweepTail(path)
            self._state = None
            self._reasons.clear()

    def _follow(self) -> None:
        """Tell what changed in the sweep, and in its trial."""
        before = self._state.trial if self._state else None
        self._state = self._tail.poll() if self._tail else None
        self._note_reasons()
        trial = self._state.trial if self._state else None
        news = self._progress()
        if news != self._told:
            self._told = news
            self._tell("progress", news)
        if trial is not before:
            self._tell("trial", trial_whole(trial) if trial else None)
        elif trial is not None:
            self._tell("news", trial_news(trial))

    def _note_reasons(self) -> None:
        """Keep why trials failed that ended since: each wording once, the latest ones."""
        for record in self._state.fresh if self._state else ():
            told = record.reason if record.outcome in _FAULTS else None
            if told and told not in self._reasons:
                self._reasons.append(told)

    def _progress(self) -> dict[str, Any]:
        return {
            "sweep": sweep_data(self._state, self._reasons) if self._state else None,
            "jobs": [job_data(job) for job in reversed(self._queue.jobs.values())][:50],
        }

    def _whole(self) -> dict[str, Any]:
        trial = self._state.trial if self._state else None
        return {
            **self._progress(),
            "system": list(self._system),
            "trial": trial_whole(trial) if trial else None,
        }

    def _tell(self, kind: str, data: Any) -> None:
        if not self._browsers:
            return
        message = _event(kind, data)
        for browser in list(self._browsers):
            try:
                browser.put_nowait(message)
            except asyncio.QueueFull:
                self._drop(browser)

    def _drop(self, browser: asyncio.Queue[str | None]) -> None:
        self._browsers.discard(browser)
        while not browser.empty():
            browser.get_nowait()
        browser.put_nowait(None)


def _event(kind: str, data: Any) -> str:
    return f"event: {kind}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n"
