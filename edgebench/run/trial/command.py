"""One trial of any command or Python function, without a scenario or a results folder."""

from __future__ import annotations

import fcntl
import os
import pickle
import select
import shlex
import shutil
import stat
import sys
import termios
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from edgebench.boards.board import AS_IS, parse_storage
from edgebench.errors import MachineError, UsageError, WorkloadError
from edgebench.extras import install
from edgebench.identity import caller_identity
from edgebench.need import need_of
from edgebench.processes import find_program
from edgebench.records import LimitSetting, TrialRecord
from edgebench.run.trial.output_rate import echo_to
from edgebench.run.trial.record import TrialRequest
from edgebench.run.trial.session import open_session
from edgebench.run.trial.trial import TrialFiles, run_trial
from edgebench.safe_files import created, open_empty
from edgebench.units import parse_duration, parse_share, parse_size, parse_swap
from edgebench.workloads import function_call as caller

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
    """Run the command once, without a shell, in a fresh cgroup under the limits.

    Args:
        command: the program and its arguments.
        limits: memory, swap and CPU limits.
        timeout_s: kill it after so many seconds.
        stop_after_s: the same of a program that never ends, which counts as finished then.
        interval_s: the sampler's interval; None: 1 ms while usage changes, longer while it doesn't.
        stat_interval_s: read ``memory.stat`` so often, under a limit too; that can prevent a kill.
        samples: keep the samples in this ``.npz`` file.
        echo: called with what the command prints, as it comes.
        files: evicted from the page cache beforehand, beside those that the command names.
        stdin: file that is its standard input; None: it has none.

    Raises:
        MachineError, CgroupError: no such command, no GNU time, no swap; no cgroup with limits.
    """
    check_command(command)
    if samples and not samples.parent.is_dir():
        raise MachineError(f"no folder {samples.parent} to keep the samples in")
    settings: dict[str, Any] = {"kind": "command", "command": list(command)}
    if stop_after_s is not None:
        settings["stop_after_s"] = stop_after_s
    if stdin is not None:
        settings["stdin"] = stdin
    return measure_once(
        lambda _: settings,
        limits,
        timeout_s=timeout_s,
        interval_s=interval_s,
        stat_interval_s=stat_interval_s,
        samples=samples,
        echo=echo,
        files=files,
    )


def measure_once(
    settings_in: Callable[[Path], Mapping[str, Any]],
    limits: LimitSetting,
    *,
    timeout_s: float | None = None,
    interval_s: float | None = None,
    stat_interval_s: float | None = None,
    samples: Path | None = None,
    echo: Callable[[bytes], None] | None = None,
    files: Sequence[str] = (),
) -> TrialRecord:
    """Run one workload once, in a session of its own.

    ``settings_in`` makes the workload's settings; it gets the session's scratch folder. The rest is
    as for :func:`measure_command`.

    Raises:
        MachineError, CgroupError: as :func:`measure_command` does.
    """
    with open_session(
        interval_s=interval_s,
        stat_interval_s=stat_interval_s,
        echo=echo,
        statistics_always=stat_interval_s is not None,
        starts_cold=False,
    ) as session:
        session.setup.storage.use(limits.swap_kind, limits.swap_bytes, limits.storage)
        files_of_trial = TrialFiles.scratch(session.folder)
        settings = settings_in(session.folder)
        session.setup.files.add_below(files)
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

    if names_network(program):
        raise MachineError(
            f"{program!r} is a network, not a command",
            remedy=f"edgebench minimum {shlex.quote(program)}",
        )
    if Path(program).is_file():
        raise MachineError(
            f"{program} is not executable",
            remedy=f"chmod +x {shlex.quote(program)}, or name what runs it: python3 {program}",
        )
    if " " in program:
        raise MachineError(
            f"no command {program!r} on this machine",
            remedy=f"no shell reads it: write it without quotes, or sh -c {shlex.quote(program)}",
        )
    raise MachineError(
        f"no command {program!r} on this machine",
        remedy="check its spelling, or give its full path",
    )


_BY_REFERENCE = "define it in a module that can be imported, or: {install}"
_NO_PICKLE = (
    "a function is sent to a fresh process: give it no open files, locks, connections or "
    "generators, but what is needed to make them"
)


def function_settings(function: Callable[[], object], folder: Path) -> dict[str, Any]:
    """Return the settings of a trial that calls the function, which is stored in the folder.

    Raises:
        UsageError: it can't be sent to another process.
    """
    file = folder / "function.pickle"
    data = _pickled(function)
    # Readable to nobody but the user that the workload runs as.
    with os.fdopen(open_empty(file, 0o600, owner=caller_identity()), "wb") as opened:
        opened.write(pickle.dumps([entry or str(Path.cwd()) for entry in sys.path]) + data)
    return {
        "kind": "function",
        "function": name_of(function),
        "script": str(Path(caller.__file__)),
        "argument": str(file),
    }


def name_of(function: Callable[..., object]) -> str:
    """``module.function``, as a record calls it; a partial is named by what it calls."""
    inner = getattr(function, "func", function)
    name = getattr(inner, "__qualname__", type(inner).__qualname__)
    module = getattr(inner, "__module__", None)
    return name if module in (None, "__main__") else f"{module}.{name}"


def _pickled(function: Callable[[], object]) -> bytes:
    """Return the function as bytes.

    By name if a module has it, else (in a notebook, say) by value.
    """
    by_value = find_spec("cloudpickle") is not None
    try:
        if by_value:
            return bytes(import_module("cloudpickle").dumps(function))
        data = pickle.dumps(function)
    except Exception as error:
        remedy = _NO_PICKLE
        if not by_value:
            remedy = _BY_REFERENCE.format(install=install("cloudpickle"))
        raise UsageError(
            f"{name_of(function)} can't be sent to another process: {error}", remedy=remedy
        ) from error
    if b"__main__" in data:
        raise UsageError(
            f"{name_of(function)} is defined in this notebook or script, which another process "
            "can't import",
            remedy=_BY_REFERENCE.format(install=install("cloudpickle")),
        )
    return data


_NO_COMMAND = 'give a command, as "python3 train.py" or ["python3", "train.py"], or a function'


def measure_workload(
    workload: str | Sequence[str] | Callable[[], object],
    asked: AskedLimits,
    *,
    timeout: str | float | None,
    interval: str | float | None,
    samples: str | Path | None,
    quiet: bool,
) -> TrialRecord:
    """One trial; for a share of the demand, an unlimited one before it.

    Raises:
        UsageError: neither a command nor a function that can be sent to another process.
        WorkloadError: its demand is unknown, so no share can be taken of it.
        MachineError, CgroupError: as :func:`edgebench.run.trial.command.measure_command` does.
    """
    if callable(workload):
        measure: Callable[..., TrialRecord]
        measure = partial(measure_once, partial(function_settings, workload))
    else:
        words = shlex.split(workload) if isinstance(workload, str) else list(map(str, workload))
        if not words:
            raise UsageError("no command to measure", remedy=_NO_COMMAND)
        measure = partial(measure_command, words)
    measured = partial(
        measure,
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
