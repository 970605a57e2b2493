"""The live stream: one reader of the machine and of the running sweep, for any number of browsers.

Each browser first gets the full state (so a reload loses nothing), then the changes. A browser that
reads too slowly is disconnected; it reconnects by itself and gets the full state again.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import deque
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from edgebench.errors import EdgebenchError
from edgebench.kills import needs_explanation
from edgebench.measures.machine.system_files import read_system
from edgebench.results.live.sweep import SweepState, SweepTail, newest_running
from edgebench.serve.job_queue import JobQueue
from edgebench.serve.page_data import job_data, sweep_data, system_row, trial_data, trial_update

#: A sample is on disk half a second after it was taken; with this, on the page within a second.
_INTERVAL_S = 0.25
#: How often the machine is read, jobs are advanced and a sweep is looked for.
_SLOW_INTERVAL_S = 1.0
MOST_BROWSERS = 32
_MOST_UNREAD_EVENTS = 64
#: Ten minutes of the machine's memory.
_MOST_SYSTEM_ROWS = 600
#: Outcomes that the user can fix, and how many different reasons are shown.
_FAULTS = ("failed", "harness-error")
_MOST_REASONS = 5
_MOST_JOBS = 50


class LiveStream:
    """Reads while a browser watches, and sends what it reads to all that do.

    Args:
        root: the folder that holds all results.
        queue: the jobs, which are advanced also while nobody watches.
    """

    def __init__(self, root: Path, queue: JobQueue) -> None:
        self._root = root
        self._queue = queue
        self._browsers: set[asyncio.Queue[str | None]] = set()
        self._tail: SweepTail | None = None
        self._state: SweepState | None = None
        self._progress_sent: dict[str, Any] = {}
        self._reasons: deque[str] = deque(maxlen=_MOST_REASONS)
        self._system: deque[list[Any]] = deque(maxlen=_MOST_SYSTEM_ROWS)
        self._next_slow = 0.0

    @property
    def browsers(self) -> int:
        """How many watch."""
        return len(self._browsers)

    async def run(self) -> None:
        """Read and send until cancelled."""
        while True:
            # A folder may change or go meanwhile: the next reading sees it as it is then.
            with contextlib.suppress(OSError, EdgebenchError):
                self._read_and_send()
            await asyncio.sleep(_INTERVAL_S if self._browsers else _SLOW_INTERVAL_S)

    async def watch(self) -> AsyncIterator[str]:
        """The server-sent events for one browser; none if :data:`MOST_BROWSERS` watch already."""
        if self.browsers >= MOST_BROWSERS:
            return
        events: asyncio.Queue[str | None] = asyncio.Queue(_MOST_UNREAD_EVENTS)
        if not self._browsers:
            self._find_sweep()
            self._read_system()
        self._follow()
        self._browsers.add(events)
        try:
            yield _event("state", self._full_state())
            while (event := await events.get()) is not None:
                yield event
        finally:
            self._browsers.discard(events)

    def close(self) -> None:
        """Disconnect every browser."""
        for browser in list(self._browsers):
            self._disconnect(browser)

    def _read_and_send(self) -> None:
        now = time.monotonic()
        slow = now >= self._next_slow
        if slow:
            self._next_slow = now + _SLOW_INTERVAL_S
            self._queue.advance()
        if not self._browsers:
            self._tail = self._state = None
            return
        if slow:
            self._find_sweep()
            self._read_system()
            self._send("system", {"rows": [self._system[-1]]})
        self._follow()

    def _read_system(self) -> None:
        self._system.append(system_row(read_system()))

    def _find_sweep(self) -> None:
        if self._tail is not None and self._state is not None and self._state.running:
            return
        path = newest_running(self._root)
        # A sweep that has ended stays in view until another one runs.
        if path is not None and (self._tail is None or self._tail.path != path):
            self._tail = SweepTail(path)
            self._state = None
            self._reasons.clear()

    def _follow(self) -> None:
        """Send what changed in the sweep and in its trial."""
        before = self._state.trial if self._state else None
        self._state = self._tail.poll() if self._tail else None
        self._keep_reasons()
        trial = self._state.trial if self._state else None
        progress = self._progress()
        if progress != self._progress_sent:
            self._progress_sent = progress
            self._send("progress", progress)
        if trial is not before:
            self._send("trial", trial_data(trial) if trial else None)
        elif trial is not None:
            self._send("update", trial_update(trial))

    def _keep_reasons(self) -> None:
        """Keep why the latest trials failed: each wording once."""
        for record in self._state.fresh if self._state else ():
            shown = record.outcome in _FAULTS or needs_explanation(record)
            if shown and record.reason and record.reason not in self._reasons:
                self._reasons.append(record.reason)

    def _progress(self) -> dict[str, Any]:
        jobs = list(reversed(self._queue.jobs.values()))
        return {
            "sweep": sweep_data(self._state, self._reasons) if self._state else None,
            "jobs": [job_data(job) for job in jobs[:_MOST_JOBS]],
        }

    def _full_state(self) -> dict[str, Any]:
        trial = self._state.trial if self._state else None
        rest = {"system": list(self._system), "trial": trial_data(trial) if trial else None}
        return {**self._progress(), **rest}

    def _send(self, kind: str, data: Any) -> None:
        event = _event(kind, data) if self._browsers else ""
        for browser in list(self._browsers):
            try:
                browser.put_nowait(event)
            except asyncio.QueueFull:
                self._disconnect(browser)

    def _disconnect(self, browser: asyncio.Queue[str | None]) -> None:
        self._browsers.discard(browser)
        while not browser.empty():
            browser.get_nowait()
        browser.put_nowait(None)


def _event(kind: str, data: Any) -> str:
    return f"event: {kind}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n"
