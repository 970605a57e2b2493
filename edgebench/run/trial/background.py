"""What runs in the background of a trial: started before it and ended with it."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from edgebench.errors import MachineError
from edgebench.records import BACKGROUND, INTERVALS

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
