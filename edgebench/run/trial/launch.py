"""What a trial starts: its workload, a strategy's profiler around it, a load in the background.

A new kind of workload (or framework) joins by one entry in :data:`KINDS`. A profiler that is not
there, crashes or leaves nothing costs its own figures and nothing else.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from edgebench.caller_process import CallError, call_as_caller, run_as_caller
from edgebench.cgroups.interface import HotFiles
from edgebench.errors import MachineError, WorkloadError
from edgebench.layers.disk import drop_pages, weights_in
from edgebench.measures.strategies import Reading, Strategy, StrategyOptions, with_own_trial
from edgebench.measures.view import Descriptors
from edgebench.processes import Identity, own_program, workload_environment
from edgebench.records import BACKGROUND, INTERVALS, TrialRecord
from edgebench.run.trial.record import RoundSources, TrialRequest
from edgebench.run.trial.session import files_at
from edgebench.safe_files import make_folder, open_to_read, remove_folder, write
from edgebench.text import choice_hint, printable
from edgebench.workloads.events import WorkerSpec
from edgebench.workloads.worker import WORKLOADS

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
        if not (files := files_at(path)):
            raise GoneError(f"{path} is gone, which was to be evicted from the page cache")
        evicted += files
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


_READ = "edgebench.measures.strategies:read_own_trial"


@dataclass(frozen=True)
class StrategyTrial:
    """One strategy with the folder it may write to, for one trial.

    Args:
        strategy: which; one with a trial of its own.
        options: what it is to do.
        folder: made new, and removed after :meth:`keep_reading`.
        target: where its reading is kept (``.json.gz``).
    """

    strategy: Strategy
    options: StrategyOptions
    folder: Path
    target: Path

    @classmethod
    def of(cls, request: TrialRequest, folder: Path, target: Path) -> StrategyTrial:
        """Return the trial of the request's strategy, its folder made."""
        remove_folder(folder)
        make_folder(folder, exist_ok=False)
        options = StrategyOptions(
            request.dump_every_bytes or StrategyOptions.dump_every_bytes, request.timeout_s
        )
        strategy = with_own_trial()[str(request.strategy)].configured(options)
        return cls(strategy, options, folder, target)

    def wrap(self, start: Launch) -> Launch:
        """Return the workload's command line as the strategy needs it.

        ``env`` sets the strategy's variables past GNU time, which must not be profiled too.
        """
        command, env = self.strategy.wrap(start.argv, {}, self.folder)
        if env:
            command = ["env", *(f"{name}={value}" for name, value in env.items()), *command]
        return replace(start, argv=tuple(command))

    def keep_reading(
        self, record: TrialRecord, events: Sequence[dict[str, Any]], identity: Identity | None
    ) -> str:
        """Keep the strategy's reading, made as that user; return why there is none, else ``""``."""
        kind = type(self.strategy)
        request = {
            "strategy": f"{kind.__module__}:{kind.__qualname__}",
            "options": asdict(self.options),
            "folder": str(self.folder),
            "record": record.to_json(),
            "events": events,
            "cpus": record.limits.cores or len(os.sched_getaffinity(0)),
        }
        try:
            answer = call_as_caller(
                _READ,
                request,
                identity,
                imports=["edgebench.records", "edgebench.spans", kind.__module__],
            )
            reading = msgspec.convert(answer, Reading)
        except (CallError, msgspec.ValidationError) as error:
            return str(error)
        finally:
            remove_folder(self.folder)
        data = json.dumps(reading.to_json(), separators=(",", ":")).encode()
        write(self.target, gzip.compress(data, compresslevel=6))
        return ""


#: Where a record's notes keep what was read of the system.
SYSTEM_MEMORY = "system_memory"
#: So much of the machine's available memory is left to the trial.
_LEFT_SHARE = 0.2
_WAIT_S = 10.0


@contextlib.contextmanager
def background_activity(settings: Mapping[str, Any], trial: str) -> Iterator[dict[str, Any]]:
    """Run the background load and the memory poll of these settings while the block runs.

    Both are processes of their own outside the trial's cgroup, and end with the harness whatever
    ends that: their stdin closes. Yields what the trial's record keeps of them, filled at the
    block's end: readings of the system's memory, one mapping per interval.

    Args:
        settings: the point's; without :data:`BACKGROUND` and :data:`INTERVALS` nothing is started.
        trial: its id seeds the load's amounts, which so differ in each trial.

    Raises:
        MachineError: too little memory for the load, or one of them did not start.
    """
    notes: dict[str, Any] = {}
    with contextlib.ExitStack() as stack:
        if most := settings.get(BACKGROUND):
            import psutil

            available = psutil.virtual_memory().available
            if most > available * (1 - _LEFT_SHARE):
                raise MachineError(
                    f"a background of {most >> 20} MiB leaves too little of the "
                    f"{available >> 20} MiB that this machine has available",
                    where="key around.background",
                    remedy='write a smaller one, as background = "64M", or end other programs',
                )
            stack.enter_context(_program("load", most, trial))
        if intervals := settings.get(INTERVALS):
            reader = stack.enter_context(_program("poll", *intervals))
            yield notes
            output, _ = reader.communicate(timeout=_WAIT_S)
            notes[SYSTEM_MEMORY] = [json.loads(line) for line in output.splitlines()]
        else:
            yield notes


@contextlib.contextmanager
def _program(name: str, *words: object) -> Iterator[subprocess.Popen[str]]:
    """Yield a program of ``background_programs.py``, once it says that it is ready."""
    script = str(Path(__file__).with_name("background_programs.py"))
    process = subprocess.Popen(
        [sys.executable, "-I", script, name, *map(str, words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout
        if process.stdout.readline() != "ready\n":
            _, error = process.communicate(timeout=_WAIT_S)
            last = (error.strip().splitlines() or ["no reason given"])[-1]
            raise MachineError(f"the background's {name} did not start: {last}")
        yield process
    finally:
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe:
                pipe.close()
        try:
            process.wait(timeout=_WAIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
