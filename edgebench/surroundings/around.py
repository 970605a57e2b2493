"""Start what goes on around a trial, and end it with the trial."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from edgebench.errors import MachineError

#: Settings of a point that say what goes on around its trials.
BACKGROUND, INTERVALS = "background_bytes", "system_intervals_s"
#: Where a record's notes keep what was read of the system.
SYSTEM_MEMORY = "system_memory"
#: So much of the machine's available memory is left to the trial.
_LEFT_SHARE = 0.2
_PATIENCE_S = 10.0


@dataclass
class Around:
    """What was seen of the whole system while the trial ran: one mapping an interval."""

    system_memory: list[dict[str, Any]] = field(default_factory=list)

    def notes(self) -> dict[str, Any]:
        """What of it the trial's record keeps; nothing where nothing was read."""
        return {SYSTEM_MEMORY: self.system_memory} if self.system_memory else {}


@contextlib.contextmanager
def around(settings: Mapping[str, Any], trial: str) -> Iterator[Around]:
    """The neighbour and the reader that these settings ask for, while the block runs.

    Both are processes of their own outside the trial's cgroup, and end with the harness whatever
    ends that: their stdin closes.

    Args:
        settings: the point's; without :data:`BACKGROUND` and :data:`INTERVALS` nothing is started.
        trial: its id seeds the neighbour's ups and downs: other ones in each trial.

    Raises:
        MachineError: too little memory for the neighbour, or one of them did not start.
    """
    seen = Around()
    with contextlib.ExitStack() as stack:
        if most := settings.get(BACKGROUND):
            _check_room(most)
            stack.enter_context(_program("load.py", most, trial))
        if intervals := settings.get(INTERVALS):
            reader = stack.enter_context(_program("poll.py", *intervals))
            yield seen
            told, _ = reader.communicate(timeout=_PATIENCE_S)
            seen.system_memory = [json.loads(line) for line in told.splitlines()]
        else:
            yield seen


@contextlib.contextmanager
def _program(name: str, *words: object) -> Iterator[subprocess.Popen[str]]:
    """One of this folder's programs, once it says that it is ready."""
    script = str(Path(__file__).with_name(name))
    process = subprocess.Popen(
        [sys.executable, "-I", script, *map(str, words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout
        if process.stdout.readline() != "ready\n":
            _, error = process.communicate(timeout=_PATIENCE_S)
            last = (error.strip().splitlines() or ["no word of why"])[-1]
            raise MachineError(f"{name} did not start: {last}")
        yield process
    finally:
        _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe:
            pipe.close()
    try:
        process.wait(timeout=_PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _check_room(most: int) -> None:
    available = psutil.virtual_memory().available
    if most > available * (1 - _LEFT_SHARE):
        raise MachineError(
            f"a background of {most >> 20} MiB leaves too little of the {available >> 20} MiB "
            "that this machine has available",
            where="key around.background",
            remedy="ask for less, or end other programs",
        )
