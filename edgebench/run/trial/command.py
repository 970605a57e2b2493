"""Trials without a scenario or a results folder: one of any command, or several in a session."""

from __future__ import annotations

import fcntl
import os
import select
import shlex
import shutil
import stat
import sys
import termios
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from msgspec.structs import replace

from edgebench.boards import parse_storage
from edgebench.cgroups.parent import check_limit
from edgebench.errors import MachineError, UsageError, WorkloadError
from edgebench.layers.names import TORCH
from edgebench.need import need_of
from edgebench.processes import find_program
from edgebench.records import LimitSetting, TrialRecord
from edgebench.run.trial.process import echo_to
from edgebench.run.trial.record import TrialRequest
from edgebench.run.trial.session import Session, open_session
from edgebench.run.trial.trial import TrialFiles, run_trial
from edgebench.safe_files import created
from edgebench.text import AS_IS, parse_duration, parse_share, parse_size, parse_swap

#: How long a pipe's first bytes are waited for.
_INPUT_S = 0.2


@dataclass(frozen=True)
class AskedLimits:
    """Limits of which a share of the demand is not yet resolved.

    ``setting`` has no memory limit where ``share`` (of the workload's own demand) is set.
    """

    setting: LimitSetting
    share: float | None = None

    @property
    def unlimited(self) -> LimitSetting:
        """The same without a memory limit."""
        return replace(self.setting, label="max", memory_bytes=None)

    def resolved(self, unlimited: TrialRecord) -> LimitSetting:
        """Return the limits, a share taken of the demand that the unlimited trial showed.

        Raises:
            WorkloadError: it showed none, since it did not finish.
        """
        if self.share is None:
            return self.setting
        if (need := need_of(unlimited)) is None:
            why = f"{unlimited.outcome}: {unlimited.reason}"
            raise WorkloadError(
                f"demand is unknown, so {self.setting.label} of it can't be resolved: it did not "
                f"finish without a limit ({why})",
                remedy="fix that first, or give a size, as 300M",
            )
        size = max(1, round(self.share * need.total_bytes))
        return replace(self.setting, memory_bytes=size)


def asked_limits(
    memory: str | int | None,
    swap: str | int = "none",
    cores: int | None = None,
    cpu_quota: float | None = None,
    storage: str = AS_IS,
    board: str | None = None,
) -> AskedLimits:
    """Return the limits that these words and numbers ask for; an int is bytes.

    Args:
        memory: ``"300M"``, a number of bytes, ``"75%"`` of the demand, or None: no limit.
        swap: ``"none"``, a size, ``"zram:1G"`` or ``"system"``.
        cores: how many it may use.
        cpu_quota: CPU time it may use, in cores.
        storage: the speed that swap and files are held to.
        board: the board that is emulated, for the record.

    Raises:
        UsageError: not a size, swap, number of cores, quota or storage speed.
    """
    for name, value, kinds in (("cores", cores, (int,)), ("cpu_quota", cpu_quota, (int, float))):
        if value is not None and (type(value) not in kinds or not 0 < value < float("inf")):
            what = f"{name}={value!r} is not possible"
            raise UsageError(what, remedy=f"a number above 0: {name}=2")
    label = "max" if memory is None else str(memory)
    share = parse_share(label)
    kind, swap_bytes = parse_swap(f"{swap}B" if type(swap) is int and swap > 0 else swap)
    setting = LimitSetting(
        label,
        None if share is not None else parse_size(label),
        kind,
        swap_bytes,
        cores,
        cpu_quota,
        parse_storage(str(storage)).label,
        board=board,
    )
    return AskedLimits(setting, share)


def measure_command(
    command: Sequence[str],
    limits: LimitSetting,
    *,
    timeout_s: float | None = None,
    stop_after_s: float | None = None,
    interval_s: float | None = None,
    stat_interval_s: float | None = None,
    samples: Path | None = None,
    echo: Callable[[bytes], None] | None = None,
    files: Sequence[str] = (),
    stdin: str | None = None,
) -> TrialRecord:
    """Run a command once, without a shell, in a fresh cgroup under the limits.

    Args:
        command: the program and its arguments.
        limits: memory, swap and CPU limits.
        timeout_s: kill it after so many seconds.
        stop_after_s: the same of a program that never ends, which counts as finished then.
        interval_s: the sampler's interval; None: 1 ms while usage changes, longer while it doesn't.
        stat_interval_s: read ``memory.stat`` so often, under a limit too; that can prevent a kill.
        samples: keep the samples in this ``.npz`` file.
        echo: called with what it prints, as it comes.
        files: evicted from the page cache beforehand, beside those that the command names.
        stdin: file that is its standard input; None: it has none.

    Raises:
        MachineError, CgroupError: no such command, no GNU time, no swap; no cgroup with limits.
    """
    check_command(command)
    if samples and not samples.parent.is_dir():
        raise MachineError(f"no folder {samples.parent} to keep the samples in")
    with open_session(
        interval_s=interval_s,
        stat_interval_s=stat_interval_s,
        echo=echo,
        statistics_always=stat_interval_s is not None,
        starts_cold=False,
    ) as session:
        settings: dict[str, Any] = {"kind": "command", "command": list(command)}
        optional = {"stop_after_s": stop_after_s, "stdin": stdin}
        settings |= {name: value for name, value in optional.items() if value is not None}
        session.setup.storage.use(limits.swap_kind, limits.swap_bytes, limits.storage)
        session.setup.files.add_below(files)
        files_of_trial = TrialFiles.scratch(session.folder)
        request = TrialRequest("0000", "measure", 0, 0, settings, limits, timeout_s)
        record = run_trial(session.setup, request, files_of_trial)
        if record.outcome == "harness-error":
            raise MachineError(f"it could not be measured: {record.reason}")
        if samples:
            with files_of_trial.samples.open("rb") as packed, created(samples) as kept:
                shutil.copyfileobj(packed, kept)
        return record


def own_input(words: Sequence[str], command: Sequence[str]) -> str | None:
    """Return the file that is this process's standard input, for a program; None: there is none.

    A terminal is none, for the program has no terminal either. Nor is a pipe in which nothing is.

    Args:
        words: the verb and its flags, for what to type instead.
        command: the program and its arguments.

    Raises:
        UsageError: data in a pipe, or a file that has no name: a second trial can't read it again.
    """
    verb = f"edgebench {shlex.join(words)} --"
    typed = f"{verb} {shlex.join(command)} < FILE"
    try:
        kind = os.fstat(0).st_mode
        if stat.S_ISREG(kind):
            path = Path("/proc/self/fd/0").readlink()
            if path.is_file() and os.path.samestat(os.fstat(0), path.stat()):
                return str(path)
            raise UsageError("its standard input is a file that is gone", remedy=typed)
        if not (stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind)):
            return None
        readable, _, _ = select.select([0], [], [], _INPUT_S)
        waiting = array("i", [0])
        fcntl.ioctl(0, termios.FIONREAD, waiting)
    except (OSError, ValueError):
        return None
    if not (readable and waiting[0]):
        return None
    raise UsageError(
        "its standard input is a pipe, which a second trial could not read again",
        remedy=f"keep it in a file: {typed}; or let each trial make it: {verb} "
        f"sh -c {shlex.quote('PRODUCER | ' + shlex.join(command))}",
    )


def check_command(command: Sequence[str]) -> None:
    """Check that there is such a program, before anything is set up.

    Raises:
        MachineError: there is none, or it is not executable.
    """
    program = command[0]
    if find_program(program):
        return
    from edgebench.layers.references import names_network

    what, typed = f"no command {program!r} on this machine", shlex.quote(program)
    remedy = "check its spelling, or give its full path"
    if names_network(program):
        what, remedy = f"{program!r} is a network, not a command", f"edgebench minimum {typed}"
    elif Path(program).is_file():
        what = f"{program} is not executable"
        remedy = f"chmod +x {typed}, or name what runs it: python3 {program}"
    elif " " in program:
        remedy = f"no shell reads it: write it without quotes, or sh -c {typed}"
    raise MachineError(what, remedy=remedy)


def measure_workload(
    workload: str | Sequence[str],
    asked: AskedLimits,
    *,
    timeout: str | float | None,
    interval: str | float | None,
    samples: str | Path | None,
    quiet: bool,
) -> TrialRecord:
    """Run a command as Python's ``measure`` takes it.

    For a share of its demand it is run without a limit first.

    Raises:
        UsageError: no command.
        WorkloadError: its demand is unknown, so no share can be taken of it.
        MachineError, CgroupError: as :func:`measure_command` does.
    """
    measured = partial(
        measure_command,
        command_words(workload),
        timeout_s=None if timeout is None else parse_duration(timeout),
        interval_s=None if interval is None else parse_duration(interval),
        echo=None if quiet else echo_to(sys.stderr),
    )
    limits, files = asked.setting, list[str]()
    if asked.share is not None:
        unlimited = measured(limits=asked.unlimited)
        limits = asked.resolved(unlimited)
        # The share is of a need that counts them.
        files = unlimited.files.paths if unlimited.files else []
    kept = None if samples is None else Path(samples)
    return measured(limits=limits, samples=kept, files=files)


def command_words(command: str | Sequence[str]) -> list[str]:
    """Return a command's words; a text is split as a shell would.

    Raises:
        UsageError: there is none.
    """
    words = shlex.split(command) if isinstance(command, str) else [str(word) for word in command]
    if not words:
        raise UsageError(
            "the command is empty", remedy='as "python3 train.py", or ["python3", "train.py"]'
        )
    return words


class Progress(Protocol):
    """Gets what happens while trials run; the command line shows it."""

    def stage(self, text: str) -> None:
        """Something before or between the trials is under way."""

    def begin(self, folder: Path, total: int, done: int) -> None:
        """Begin: ``total`` trials, ``done`` finished by an earlier start."""

    def trial(self, request: TrialRequest) -> None:
        """Show that a trial starts."""

    def moved(self, limits: LimitSetting) -> None:
        """Show that a walk moved the trial's limit."""

    def finished(self, record: TrialRecord) -> None:
        """Show that a trial is recorded."""

    def planned(self, total: int) -> None:
        """Show that the records led to further trials: ``total`` is the new number of all."""


@dataclass
class TrialLoop:
    """The trials of one session."""

    session: Session
    progress: Progress

    def run(
        self, requests: Iterable[TrialRequest], make: Callable[[TrialRequest], TrialRecord]
    ) -> None:
        """Make each trial, which also keeps its record, and show it as finished."""
        for request in requests:
            self.progress.trial(request)
            self.progress.finished(make(request))

    def unkept(self, request: TrialRequest) -> TrialRecord:
        """Make a trial whose files are not kept."""
        return run_trial(self.session.setup, request, TrialFiles.scratch(self.session.folder))

    def warm(self, engine: str = TORCH) -> TrialRecord:
        """Import the runtime once, so that no trial is charged for reading its files."""
        self.progress.stage("warming the runtime")
        settings = {"kind": "import", "engine": engine}
        return self.unkept(TrialRequest("warm", "warm", 0, 0, settings, LimitSetting()))


@contextmanager
def open_trial_loop(
    progress: Progress, *, interval_s: float | None, stat_interval_s: float | None
) -> Iterator[TrialLoop]:
    """Open a session in which memory limits are known to be enforced.

    Raises:
        CgroupError: no cgroup can be made here, or its limits are not enforced.
        MachineError: no GNU time.
    """
    with open_session(interval_s=interval_s, stat_interval_s=stat_interval_s) as session:
        for sentence in session.cleared:
            progress.stage(f"cleaned up after an earlier sweep: {sentence}")
        progress.stage("checking that memory limits are enforced")
        check_limit(session.setup.parent)
        yield TrialLoop(session, progress)
