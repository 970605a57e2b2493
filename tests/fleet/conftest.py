"""Fleets for tests: the ssh that their controllers find starts each machine's program here.

The machines are one, so no time means anything; which trial is made and kept where does.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest
from click.testing import CliRunner

from edgebench.cli import cli
from edgebench.errors import EdgebenchError
from tests.own_path import python_path

NAMES = ("one", "two", "three")
#: In place of OpenSSH: what it is told runs here.
_SSH = """#!/bin/sh
while [ "$1" != -- ]; do shift; done
[ "$2" != far ] || { echo "ssh: connect to host $2: Connection refused" >&2; exit 255; }
exec sh -c "$3"
"""
#: A machine's Python: it has places of its own, and notes its process.
_PYTHON = """#!/bin/sh
echo $$ > "{place}/pid"
export EDGEBENCH_CACHE="{place}/cache" XDG_STATE_HOME="{place}/state" PYTHONPATH="{path}"
{before}
exec {python} "$@"
"""
_SCENARIO = """
schema = 1
name = "{name}"
repeats = {repeats}
[workload]
kind = "command"
command = {command}
[limits]
memory = ["64M", "32M"]
swap = "none"
"""


class Said(NamedTuple):
    stdout: str
    stderr: str

    @property
    def left_out(self) -> dict[str, str]:
        lines = [line.split(" is left out: ") for line in self.stderr.splitlines()]
        return {line[0]: line[1] for line in lines if len(line) == 2}


class Fleet:
    def __init__(self, folder: Path, names: Sequence[str] = NAMES) -> None:
        self.folder, self.machines, self.lost_after = folder, folder / "machines", "30s"
        self.controllers: list[subprocess.Popen[bytes]] = []
        self._program(folder / "bin" / "ssh", _SSH)
        path = f"{folder}/bin:{os.environ['PATH']}"
        self.environment = {**os.environ, "PYTHONPATH": python_path(), "PATH": path}
        for name in names:
            self.add(name)

    def add(self, name: str, python: str = sys.executable, before: str = "") -> None:
        """List a machine whose Python is this one; ``before``: what its shell does first."""
        place = self.machines / name
        site = Path(pytest.__file__).parents[1]
        about = {"place": place, "path": f"{python_path()}:{site}", "before": before}
        self._program(place / "python", _PYTHON.format(python=python, **about))
        self.write()

    def _program(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def write(self) -> None:
        text = f'schema = 1\nlost_after = "{self.lost_after}"\n'
        for place in sorted(self.machines.iterdir()):
            text += f'[hosts.{place.name}]\nssh = "{place.name}"\npython = "{place}/python"\n'
        (self.folder / "fleet.toml").write_text(text)

    def ask(self, *words: str, code: int = 0) -> Said:
        here = Path.cwd()
        os.chdir(self.folder)
        try:
            done = CliRunner().invoke(cli, ["fleet", *words], env=self.environment)
        finally:
            os.chdir(here)
        error, ended, stderr = done.exception, done.exit_code, done.stderr
        if isinstance(error, EdgebenchError):
            ended, stderr = error.exit_code, f"{stderr}edgebench: {error}"
        elif error and not isinstance(error, SystemExit):
            raise error
        assert ended == code, done.stdout + stderr
        return Said(done.stdout, stderr)

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        with (self.folder / "controller.log").open("ab") as log:
            started = subprocess.Popen(
                [sys.executable, "-m", "edgebench", "fleet", *words],
                cwd=self.folder,
                env=self.environment,
                stdout=log,
                stderr=log,
                # As from a terminal, also where the tests run after nohup.
                preexec_fn=partial(signal.signal, signal.SIGHUP, signal.SIG_DFL),
            )
        self.controllers.append(started)
        return started

    def scenario(self, name: str, repeats: int, command: Sequence[str] = ("true",)) -> str:
        words = json.dumps(list(command))
        text = _SCENARIO.format(name=name, repeats=repeats, command=words)
        (self.folder / f"{name}.toml").write_text(text)
        return f"{name}.toml"

    def lines(self, device: str, name: str) -> list[dict[str, Any]]:
        files = self.folder.glob(f"results/{device}/*-{name}-*/trials.jsonl")
        # The last line may not be written to its end.
        return [json.loads(line) for file in files for line in file.read_text().split("\n")[:-1]]

    def pid(self, name: str) -> int:
        """The program that the controller started last on that machine; 0: none."""
        with contextlib.suppress(OSError, ValueError):
            return int((self.machines / name / "pid").read_text())
        return 0

    def is_making(self, name: str, gate: Gate) -> bool:
        with contextlib.suppress(psutil.Error):
            below = psutil.Process(self.pid(name)).children(recursive=True)
            return any(str(gate.fifo) in " ".join(one.cmdline()[:3]) for one in below)
        return False


class Gate:
    def __init__(self, folder: Path) -> None:
        self.fifo = folder / "gate"
        os.mkfifo(self.fifo)
        # Open to read as well, so that a trial opens it without waiting.
        self._descriptor = os.open(self.fifo, os.O_RDWR)
        self.command = ["sh", "-c", f"read line < '{self.fifo}'"]

    def let_through(self, count: int = 1000) -> None:
        os.write(self._descriptor, b"\n" * count)

    def end(self) -> None:
        self.let_through()
        os.close(self._descriptor)


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def wait_until(holds: Callable[[], object]) -> None:
    ends = time.monotonic() + 240
    while not holds():
        assert time.monotonic() < ends
        time.sleep(0.05)


def once_each(lines: list[dict[str, Any]], count: int) -> bool:
    wanted = {f"{n:04d}": 1 for n in range(1, count + 1)}
    return Counter(line["trial"] for line in lines) == wanted


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    made = Fleet(tmp_path)
    yield made
    for one in made.controllers:
        one.kill()
        one.wait()


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    made = Gate(tmp_path)
    yield made
    made.end()
