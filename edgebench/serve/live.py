"""The running sweep: started and stopped from the page, and streamed live to its browsers.

The page's sweep is a process that outlives the server, one at a time. Starts and stops are commands
and signals, so what is kept of them lies in the user's own state, never among the results: whoever
can write to a results folder starts and stops nothing.

One reader of the machine and of the running sweep serves any number of browsers. Each first gets
the full state (so a reload loses nothing), then the changes. A browser that reads too slowly is
disconnected; it reconnects by itself and gets the full state again.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import json
import os
import signal
import subprocess
import time
from collections import deque
from collections.abc import AsyncIterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from msgspec import structs

from edgebench.answers.trials import reason_words
from edgebench.errors import EdgebenchError, ResultsError
from edgebench.measures.machine.system_files import read_system
from edgebench.measures.strategies.recorded import STATISTICS_REMEDY
from edgebench.need import needs_explanation
from edgebench.processes import given_environment, own_program
from edgebench.results.layout import open_locked
from edgebench.results.live_file import EndedSpan
from edgebench.results.live_sweep import KINDS, SweepState, SweepTail, TrialTail, newest_running
from edgebench.results.workload_key import settings_columns
from edgebench.safe_files import created, is_own_folder, make_own_folder, state_home, write_whole

#: Exit codes of ``edgebench run``: some trials failed; stopped by the user.
_SOME_FAILED = 3
_STOPPED = (129, 130, 143, -signal.SIGHUP, -signal.SIGINT, -signal.SIGTERM)
_TAIL_BYTES = 2000


@dataclass(frozen=True)
class StartedSweep:
    """The sweep that was started last. ``error``: why it failed, as ``edgebench run`` worded it."""

    name: str
    state: Literal["running", "stopping", "done", "some-failed", "stopped", "failed"]
    error: str | None = None

    @property
    def has_ended(self) -> bool:
        """Whether its process has ended."""
        return self.state not in ("running", "stopping")


def page_folder(results: Path) -> Path:
    """Return the page's own folder, another one for each user and results folder.

    Raises:
        MachineError: the user's home is unknown.
    """
    key = hashlib.sha256(os.fsencode(results.resolve())).hexdigest()[:16]
    return state_home() / "edgebench" / "serve" / key


class PageSweep:
    """Starts and stops the page's sweep, which holds the lock of a file with its pid and name.

    Args:
        root: the folder that holds all results.
        folder: see :func:`page_folder`.

    Raises:
        UnsafePathError: others can write to the page's folder.
    """

    def __init__(self, root: Path, folder: Path) -> None:
        self.root = root
        self.folder = folder
        self.started: StartedSweep | None = None
        self._lock = folder / "sweep.lock"
        self._log = folder / "sweep.log"
        self._process: subprocess.Popen[bytes] | None = None
        is_own_folder(folder)
        self.poll()

    def start(self, name: str, scenario: str) -> None:
        """Start ``edgebench run`` for a scenario that has no faults.

        Raises:
            ResultsError: a sweep runs already, or it can't be started.
            UnsafePathError: something else is where its files belong.
        """
        self.poll()
        path = newest_running(self.root)
        running = path.name if path else None
        if self.started and not self.started.has_ended:
            running = self.started.name
        if running:
            what = f"a sweep is running already: {running}"
            raise ResultsError(what, remedy="wait until it has ended, or stop it")
        file = self.folder / "sweep.toml"
        command = own_program("edgebench", "run", str(file), "--results", str(self.root), "--json")
        try:
            make_own_folder(self.folder)
            lock = open_locked(self._lock, os.O_CREAT)
            try:
                # A server that is killed now must leave no pid of another process.
                os.ftruncate(lock, 0)
                write_whole(file, scenario.encode())
                with created(self._log) as log:
                    self._process = subprocess.Popen(
                        command,
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL,
                        stderr=log,
                        env=given_environment(),
                        pass_fds=(lock,),
                        start_new_session=True,
                    )
                # With a full disk this server alone can stop it.
                with contextlib.suppress(OSError):
                    os.write(lock, f"{self._process.pid} {name}".encode())
            finally:
                os.close(lock)
        except OSError as error:
            raise ResultsError(
                f"the sweep can't be started: {error.strerror}",
                remedy=f"free some space on the disk that holds {self.folder}, then try again",
            ) from error
        self.started = StartedSweep(name, "running")

    def stop(self) -> None:
        """End the sweep's process as Ctrl-C would: finished trials are kept.

        Raises:
            ResultsError: no sweep of the page runs.
        """
        self.poll()
        holder = self._holder()
        pid = self._process.pid if self._process else holder and holder[0]
        if pid is None or self.started is None:
            what = "no sweep that this page started is running"
            raise ResultsError(what, remedy="stop any other one where it was started")
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        self.started = replace(self.started, state="stopping")

    def poll(self) -> None:
        """Look whether the sweep has ended, and for one that another server started."""
        if self._process:
            code = self._process.poll()
            if code is not None and self.started:
                self._process = None
                self.started = self._ended(self.started.name, code)
        elif holder := self._holder():
            if not self.started or self.started.has_ended:
                self.started = StartedSweep(holder[1], "running")
        elif self.started and not self.started.has_ended:
            # How another server's sweep ended is seen in its results.
            self.started = None

    def _holder(self) -> tuple[int, str] | None:
        """Pid and name of the sweep that runs; None if none does, or its pid was not noted."""
        try:
            with self._lock.open() as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    pid, _, name = file.read().partition(" ")
                    return int(pid), name
        except (OSError, ValueError):
            pass
        return None

    def _ended(self, name: str, code: int) -> StartedSweep:
        if code in (0, _SOME_FAILED):
            return StartedSweep(name, "done" if code == 0 else "some-failed")
        if code in _STOPPED:
            return StartedSweep(name, "stopped")
        try:
            said = self._log.read_bytes()[-_TAIL_BYTES:].decode(errors="replace").strip()
        except OSError:
            said = ""
        return StartedSweep(name, "failed", said or "no error message; it may have been killed")


#: A fast network ends thousands of spans a second: the last ones are enough to see.
_MOST_NEW_SPANS = 32
#: A sample is on disk half a second after it was taken; with this, on the page within a second.
_INTERVAL_S = 0.25
#: How often the machine is read and a sweep is looked for.
_SLOW_INTERVAL_S = 1.0
MOST_BROWSERS = 32
_MOST_UNREAD_EVENTS = 64
#: Ten minutes of the machine's memory.
_MOST_SYSTEM_ROWS = 600
#: Of the machine at one moment, after the seconds: in the order that js/system.js reads.
_SYSTEM_COLUMNS = (
    *("total_bytes", "available_bytes", "used_bytes", "used_share", "active_bytes"),
    *("swap_used_bytes", "cpu_share"),
)
_SWEEP_KEYS = ("name", "device", "running", "complete", "total", "done", "outcomes", "warnings")
#: Outcomes that the user can fix, and how many different reasons are shown.
_FAULTS = ("failed", "harness-error")
_MOST_REASONS = 5


def trial_data(trial: TrialTail) -> dict[str, Any]:
    """All that is known of the trial in progress."""
    live = trial.live
    return {
        **{name: getattr(live, name) for name in ("trial", "strategy", "timeout_s")},
        "settings": plain_settings(live.settings),
        "limits": structs.asdict(live.limits),
        "kind_names": KINDS,
        "kinds_missing": STATISTICS_REMEDY if trial.quiet else None,
        **_growing(trial, 0, 0),
        "spans": [_span(ended) for ended in trial.spans],
        "metrics": [asdict(metric) for metric in trial.metrics],
    }


def trial_update(trial: TrialTail) -> dict[str, Any]:
    """Return what the last poll of the trial brought."""
    news = trial.news
    return {
        **_growing(trial, news.changed, news.kinds_changed),
        "spans": [_span(ended) for ended in news.ended[-_MOST_NEW_SPANS:]],
        "metrics": [asdict(metric) for metric in news.metrics],
    }


def plain_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return a workload's settings as one line each."""
    return {k: v for k, v in settings_columns(settings).items() if v is not None}


def _growing(trial: TrialTail, changed: int, kinds_changed: int) -> dict[str, Any]:
    """Return the trial's present values, and its curves from these points on."""
    points = trial.curve.points[changed:]
    return {
        "elapsed_s": trial.elapsed_s,
        "peak_bytes": trial.peak_bytes,
        "now": trial.now,
        "cpu_cores": trial.cpu_cores,
        "open": [asdict(span) for span in trial.open],
        "from": changed,
        "points": [[round(p.t_s, 4), p.low_bytes, p.high_bytes, p.swap_bytes] for p in points],
        "kinds_from": kinds_changed,
        "kinds": trial.kinds.rows[kinds_changed:],
    }


def _span(ended: EndedSpan) -> dict[str, Any]:
    return {**asdict(ended.span), "wall_s": ended.wall_s, "peak_bytes": ended.peak_bytes}


class LiveStream:
    """Reads while a browser watches, and sends what it reads to all that do.

    Args:
        page_sweep: the sweep that the page started; its end is noted also while nobody watches.
    """

    def __init__(self, page_sweep: PageSweep) -> None:
        self._page_sweep = page_sweep
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
        """Return the server-sent events for one browser.

        None if :data:`MOST_BROWSERS` watch already.
        """
        if self.browsers >= MOST_BROWSERS:
            return
        events: asyncio.Queue[str | None] = asyncio.Queue(_MOST_UNREAD_EVENTS)
        if not self._browsers:
            self._find_sweep()
            self._read_system()
        self._follow()
        self._browsers.add(events)
        try:
            trial = self._state.trial if self._state else None
            rest = {"system": list(self._system), "trial": trial_data(trial) if trial else None}
            yield _event("state", {**self._progress(), **rest})
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
            self._page_sweep.poll()
        if not self._browsers:
            self._tail = self._state = None
            return
        if slow:
            self._find_sweep()
            self._read_system()
            self._send("system", {"rows": [self._system[-1]]})
        self._follow()

    def _read_system(self) -> None:
        now = read_system()
        self._system.append([now.t_ns / 1e9, *(getattr(now, name) for name in _SYSTEM_COLUMNS)])

    def _find_sweep(self) -> None:
        if self._tail is not None and self._state is not None and self._state.running:
            return
        path = newest_running(self._page_sweep.root)
        # A sweep that has ended stays in view until another one runs.
        if path is not None and (self._tail is None or self._tail.path != path):
            self._tail = SweepTail(path)
            self._state = None
            self._reasons.clear()

    def _follow(self) -> None:
        """Send what changed in the sweep and in its trial."""
        before = self._state.trial if self._state else None
        self._state = self._tail.poll() if self._tail else None
        # Why the latest trials failed, each wording once.
        for record in self._state.fresh if self._state else ():
            shown = record.outcome in _FAULTS or needs_explanation(record)
            reason = reason_words(record) if shown else None
            if reason and reason not in self._reasons:
                self._reasons.append(reason)
        trial = self._state.trial if self._state else None
        progress = self._progress()
        if progress != self._progress_sent:
            self._progress_sent = progress
            self._send("progress", progress)
        if trial is not before:
            self._send("trial", trial_data(trial) if trial else None)
        elif trial is not None:
            self._send("update", trial_update(trial))

    def _progress(self) -> dict[str, Any]:
        started, state = self._page_sweep.started, self._state
        progress: dict[str, Any] = {"sweep": None, "started": asdict(started) if started else None}
        if state:
            # In whole seconds, the time left doesn't change at each reading.
            left_s = None if state.left_s is None else round(state.left_s)
            own = {name: getattr(state, name) for name in _SWEEP_KEYS}
            progress["sweep"] = {**own, "left_s": left_s, "reasons": list(self._reasons)}
        return progress

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
