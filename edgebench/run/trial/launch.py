"""How each kind of workload is started: its command, environment, open files, and evictions.

A new kind (or framework) joins by one entry in :data:`KINDS`; nothing else changes.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgebench.cgroups.interface import HotFiles
from edgebench.errors import MachineError, WorkloadError
from edgebench.layers.disk import drop_pages, weights_in
from edgebench.measures.view import Descriptors
from edgebench.processes import Identity, own_program, workload_environment
from edgebench.run.trial.round_sources import RoundSources
from edgebench.run.trial.used_files import files_at
from edgebench.safe_files import open_to_read
from edgebench.text import choice_hint, printable
from edgebench.workloads.events import WorkerSpec
from edgebench.workloads.worker import WORKLOADS

if TYPE_CHECKING:
    from edgebench.run.trial.record import TrialRequest

Settings = Mapping[str, Any]
#: Why a trial under a limit has no such samples.
_UNREAD = "reading it makes the kernel flush its statistics, which can prevent a kill"


def worker_settings(request: TrialRequest) -> dict[str, Any]:
    """Return what a trial's worker is told.

    The settings, where things are, what schedules go by.
    """
    return {
        **request.settings,
        "weights": request.weights,
        "code": dict(request.code),
        "limit_bytes": request.limits.memory_bytes,
        "accelerator_bytes": request.limits.accelerator_bytes,
        "swaps": request.limits.swap_kind != "none",
    }


class GoneError(MachineError):
    """What the workload needs was there when the sweep began, and is not there; says what."""


@dataclass(frozen=True)
class Launch:
    """How to start one workload: its words, its surroundings, the files to evict before it.

    ``stdin`` is a file that is its standard input; None: it has none.
    """

    argv: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)
    cwd: Path | None = None
    evict: tuple[Path, ...] = ()
    stdin: Path | None = None


def _worker(settings: Settings, descriptors: Descriptors) -> Launch:
    # All users can read a command line, but only their own processes' variables.
    spec: WorkerSpec = {
        "kind": settings["kind"],
        "settings": {name: value for name, value in settings.items() if name != "env"},
        "descriptors": descriptors,
    }
    argv = own_program("edgebench.workloads.worker", json.dumps(spec))
    cold = settings.get("page_cache") == "cold"
    evict = weights_in(settings.get("weights", {}).values()) if cold else ()
    return Launch(tuple(argv), env=dict(settings.get("env") or {}), evict=evict)


def _command(settings: Settings, descriptors: Descriptors) -> Launch:
    cwd, stdin = settings.get("cwd"), settings.get("stdin")
    evicted: list[Path] = []
    for path in map(Path, settings.get("files", ())):
        if not (found := files_at(path)):
            raise GoneError(f"{path} is gone, which was to be evicted from the page cache")
        evicted += found
    return Launch(
        tuple(settings["command"]),
        env=dict(settings.get("env") or {}),
        cwd=Path(cwd) if cwd else None,
        evict=tuple(evicted),
        stdin=Path(stdin) if stdin else None,
    )


def _function(settings: Settings, descriptors: Descriptors) -> Launch:
    """Return a script of ours that calls it.

    The script's one argument is JSON with what it needs.
    """
    spec = json.dumps({"argument": settings["argument"], "descriptors": descriptors})
    cwd = settings.get("cwd")
    # Unbuffered: what it printed is there even if the kernel kills it.
    return Launch(
        (sys.executable, settings["script"], spec),
        env={"PYTHONUNBUFFERED": "1"},
        cwd=Path(cwd) if cwd else None,
    )


#: Kind → how it is started.
KINDS: dict[str, Callable[[Settings, Descriptors], Launch]] = {
    **dict.fromkeys(WORKLOADS, _worker),
    "command": _command,
    "function": _function,
}


def launch(settings: Settings, descriptors: Descriptors) -> Launch:
    """How the workload of these settings is started.

    Raises:
        WorkloadError: no such kind.
    """
    kind = settings["kind"]
    if kind not in KINDS:
        raise WorkloadError(f"no workload kind {kind!r}", remedy=choice_hint(kind, KINDS))
    return KINDS[kind](settings, descriptors)


def check_start(start: Launch) -> None:
    """Evict the files from the page cache, and look whether the folder is there.

    A trial before may have put anything in their places: root opens them as their owner.

    Raises:
        GoneError: one of them can't be read, or is no file, or the folder is gone.
    """
    for path in start.evict:
        try:
            with open_to_read(path) as file:
                drop_pages(file.fileno())
        except OSError as error:
            what = f"{path} can't be evicted from the page cache: {error.strerror}"
            raise GoneError(what) from None
    if start.cwd and not start.cwd.is_dir():
        raise GoneError(f"the workload's folder {start.cwd} is gone")


def run_reset(settings: Settings, identity: Identity | None) -> None:
    """Run the command that undoes what a trial changed, outside the cgroup, before the next one.

    Raises:
        WorkloadError: it can't be started, or it fails.
    """
    if not (command := settings.get("reset")):
        return
    from edgebench.caller_process import CallError, run_as_caller

    variables = environment_of(Launch((), dict(settings.get("env") or {})), identity)
    try:
        done = run_as_caller(command, identity, variables, cwd=settings.get("cwd"))
    except OSError as error:
        why = error.strerror or str(error)
    except CallError as error:
        why = str(error)
    else:
        if done.returncode == 0:
            return
        output = (done.stderr or done.stdout).decode(errors="replace").strip()
        why = printable(output.splitlines()[-1]) if output else f"exit code {done.returncode}"
    raise WorkloadError(
        f"the command before each trial failed: {why}",
        where=shlex.join(command),
        remedy="try it by hand in this folder; a pipe or && needs a shell: sh -c '…'",
    )


@contextlib.contextmanager
def open_input(start: Launch) -> Iterator[int]:
    """Yield the workload's standard input, from its beginning: a file, or nothing.

    Raises:
        GoneError: the file can't be read.
    """
    if start.stdin is None:
        yield subprocess.DEVNULL
        return
    try:
        file = open_to_read(start.stdin)
    except OSError as error:
        raise GoneError(f"its input {start.stdin} can't be read: {error.strerror}") from None
    with file:
        yield file.fileno()


def environment_of(start: Launch, identity: Identity | None) -> dict[str, str]:
    """Return the variables that the workload's process gets."""
    return {**workload_environment(identity), **start.env}


def readable_files(hot: HotFiles, flushing: bool) -> tuple[HotFiles, dict[str, str]]:
    """Return what the sampler may read, and why samples are missing.

    In a timed trial under a memory limit nothing is read that makes the kernel flush its
    statistics (``flushing``): there reading can prevent a kill.
    """
    if flushing:
        return hot, {}
    unread = {f"{name}_samples": _UNREAD for name in hot.flushing if getattr(hot, name)}
    return hot.without_flushing(), unread


@contextlib.contextmanager
def open_descriptors(
    kind: str,
    hot: HotFiles,
    rounds: RoundSources,
    events_fd: int,
    records_fd: int,
    control_fd: int | None = None,
) -> Iterator[tuple[Descriptors, list[int]]]:
    """Yield the descriptors a worker inherits, opened as us: it may have no right to open them.

    A function gets the events and the usage, to read, and a command none: with the mark it could
    reset its own peak.

    Args:
        kind: the workload's.
        hot: the files of its cgroup.
        rounds: where its rounds' swapping is counted.
        events_fd: the writing end of the event pipe.
        records_fd: the memory for what is not written yet.
        control_fd: the worker's end of the control of rounds, in a walk.
    """
    is_worker = kind in WORKLOADS
    with contextlib.ExitStack() as stack:

        def opened(path: Path | None, flags: int, wanted: bool = is_worker) -> int | None:
            if path is None or not wanted:
                return None
            fd = os.open(path, flags)
            stack.callback(os.close, fd)
            return fd

        usage = opened(hot.usage, os.O_RDONLY, kind != "command")
        swap = opened(hot.swap, os.O_RDONLY)
        peak = opened(hot.peak, os.O_RDWR if hot.peak_resets else os.O_RDONLY)
        stat, kernel = opened(hot.stat, os.O_RDONLY), opened(hot.kernel, os.O_RDONLY)
        swap_io = opened(rounds.file, os.O_RDONLY)
        descriptors: Descriptors = {
            "events": events_fd,
            "usage": usage,
            "peak": peak,
            "peak_resets": hot.peak_resets,
            "swap": swap,
            "swap_is_memsw": hot.swap_is_memsw,
            "stat": stat,
            "kernel": kernel,
            "control": control_fd,
            "records": records_fd if is_worker else None,
            "swap_io": swap_io,
            "swap_kind": rounds.kind,
        }
        fds = (usage, peak, swap, stat, kernel, swap_io, descriptors["records"], control_fd)
        events = () if kind == "command" else (events_fd,)
        yield descriptors, [*events, *(fd for fd in fds if fd is not None)]
