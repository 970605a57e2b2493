"""What ``edgebench.measure`` does: one trial of a command, or of a Python function.

A function is called in a fresh interpreter below the limit.
"""

from __future__ import annotations

import os
import pickle
import shlex
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from edgebench.errors import UsageError
from edgebench.extras import install
from edgebench.identity import caller_identity
from edgebench.records import TrialRecord
from edgebench.run.trial.command import AskedLimits, measure_command, measure_once
from edgebench.run.trial.output_rate import echo_to
from edgebench.safe_files import open_empty
from edgebench.units import parse_duration
from edgebench.workloads import function_call as caller

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
