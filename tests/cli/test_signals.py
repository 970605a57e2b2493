"""Signals that end the program: it cleans up, says so, and exits with 128 + the number."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from edgebench import cli
from edgebench.cgroups.leftovers import claims, state_folder
from tests.own_path import call, python_path

#: Started and not yet released: it has written to one FIFO and waits for the other.
_WAITS = ("sh", "-c", 'echo up > "$0"; read word < "$1"')
#: The program, interrupted while it is imported.
_INTERRUPTED_IMPORT = """
import os, signal, sys
class Interrupt:
    def find_spec(self, name, *about):
        if name == "click":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupt())
sys.argv = ["edgebench", "--version"]
from edgebench.__main__ import main
main()
"""


class Measured:
    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        (state,) = state_folder().glob(f"{process.pid}-*.claims")
        #: The state file and all that it claims.
        self.made = [state, *(Path(value) for _, value in claims(state))]

    def left(self) -> list[Path]:
        swaps = Path("/proc/swaps").read_text()
        return [path for path in self.made if path.exists() or str(path) in swaps]


@contextmanager
def measured(folder: Path, *swap: str, **options: Any) -> Iterator[Measured]:
    """``edgebench measure`` of a command that waits, in a process of its own."""
    up, go = folder / "up", folder / "go"
    for fifo in (up, go):
        os.mkfifo(fifo)
    (folder / "tmp").mkdir()
    words = ["measure", "--memory", "64M", *swap, "--", *_WAITS, str(up), str(go)]
    process = subprocess.Popen(
        [sys.executable, "-m", "edgebench", *words],
        env={**os.environ, "PYTHONPATH": python_path(), "TMPDIR": str(folder / "tmp")},
        **{"stderr": subprocess.PIPE, "stdout": subprocess.DEVNULL, **options},
    )
    try:
        assert up.read_text() == "up\n"
        yield Measured(process)
    finally:
        if process.poll() is None:
            process.terminate()
            process.communicate()


@pytest.mark.own_cgroup
@pytest.mark.promise("A closed terminal, Ctrl-C and SIGTERM leave nothing behind, in each verb.")
@pytest.mark.parametrize(
    ("number", "swap"),
    [
        (signal.SIGHUP, ()),
        (signal.SIGINT, ()),
        # The kernel uses the area that came last first: another trial's swap would go there.
        pytest.param(signal.SIGTERM, ("--swap", "4M"), marks=[pytest.mark.root, pytest.mark.swap]),
    ],
)
def test_a_signal_ends_it_and_nothing_is_left(
    tmp_path: Path, number: signal.Signals, swap: tuple[str, ...]
) -> None:
    with measured(tmp_path, *swap) as one:
        assert one.left() == one.made
        one.process.send_signal(number)
        _, words = one.process.communicate()
    assert one.process.returncode == 128 + number
    last = words.decode().splitlines()[-1]
    assert last == "edgebench: interrupted; all finished trials are kept"
    assert b"Traceback" not in words
    assert one.left() == []


@pytest.mark.own_cgroup
def test_under_nohup_a_closed_terminal_is_nothing(tmp_path: Path) -> None:
    ignores = {"preexec_fn": lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)}
    with measured(tmp_path, **ignores) as one:
        one.process.send_signal(signal.SIGHUP)
        (tmp_path / "go").write_text("on\n")
        one.process.communicate()
    assert one.process.returncode == 0
    assert one.left() == []


@pytest.mark.own_cgroup
def test_a_terminal_that_is_gone(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()

    def take_terminal() -> None:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    streams = dict.fromkeys(("stdin", "stdout", "stderr"), theirs)
    with measured(tmp_path, **streams, preexec_fn=take_terminal) as one:
        os.close(theirs)
        os.close(ours)
        one.process.wait()
    assert one.process.returncode == 128 + signal.SIGHUP
    assert one.left() == []


@pytest.mark.process
def test_an_interrupted_import_is_no_traceback() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _INTERRUPTED_IMPORT], capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


@pytest.fixture
def signals() -> Iterator[cli._Signals]:
    found = cli._Signals()
    found.begin()
    yield found
    found.end()


def test_signals_of_one_event_interrupt_once(
    signals: cli._Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr("edgebench.cli.time.monotonic", lambda: now[0])
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGHUP)
    signal.raise_signal(signal.SIGTERM)
    now[0] += 10
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGTERM)
    assert signals.received == signal.SIGHUP


@pytest.mark.own_cgroup
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_a_killed_gnu_time_is_named(number: signal.Signals) -> None:
    program = f"kill -{int(number)} $PPID; exec sleep 1000"
    words = ["measure", "--memory", "64M", "--", "sh", "-c", program]
    done = call(*words)
    name = signal.strsignal(number)
    assert f"ended by signal {int(number)} ({name})" in done.stdout
    assert "Traceback" not in done.stderr
