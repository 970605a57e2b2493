"""The sweep that the page started: one at a time, as a process that outlives the server.

Starts and stops are commands and signals, so what is kept of them lies in the user's own state,
never among the results: whoever can write to a results folder starts and stops nothing.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import signal
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from edgebench.errors import ResultsError
from edgebench.processes import given_environment, own_program
from edgebench.results.layout import open_locked
from edgebench.results.live.sweep import newest_running
from edgebench.safe_files import created, is_own_folder, make_own_folder, write_whole
from edgebench.safe_folders import state_home

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
