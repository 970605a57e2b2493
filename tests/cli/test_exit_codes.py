"""The code that the program exits with: by the error, the signal, or who reads its output."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import click
import pytest

from edgebench import cli, errors
from tests.own_path import python_path

#: A verb with more output than a pipe holds.
_PRINTS = """
import click
from edgebench import cli
cli.cli.main = lambda **_: [click.echo("x" * 1000) for _ in range(1000)]
cli.main()
"""


def exit_of(monkeypatch: pytest.MonkeyPatch, verb: Callable[[Any], None]) -> object:
    monkeypatch.setattr(cli.cli, "main", lambda *, obj, **_: verb(obj))
    with pytest.raises(SystemExit) as end:
        cli.main()
    return end.value.code


@pytest.mark.parametrize(
    ("error", "code", "printed"),
    [
        (errors.EdgebenchError("no", where="f", remedy="do"), 1, ["no", "where: f", "remedy: do"]),
        *((kind("no"), 1, ["no"]) for kind in (
            *(errors.ScenarioError, errors.MachineError, errors.CgroupError, errors.ResultsError),
            *(errors.UnsafePathError, errors.WorkloadError, errors.FleetError),
        )),
        (OSError(errno.ENOSPC, "full", "/f"), 1, ["full", "where: /f", "remedy: free some space"]),
        (errors.UsageError("no"), 2, ["no"]),
        (click.UsageError("no"), 2, ["no"]),
        (errors.SweepIncompleteError("no"), 3, ["no"]),
        (errors.RegressionError("no"), 4, ["no"]),
        (errors.MemoryBudgetError("no"), 4, ["no"]),
        (errors.NotFitError("no"), 5, ["no"]),
        (KeyboardInterrupt(), 130, ["interrupted"]),
        (click.Abort(), 130, ["interrupted"]),
    ],
    ids=lambda one: type(one).__name__,
)  # fmt: skip
def test_each_error_has_its_code(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    code: int,
    printed: list[str],
) -> None:
    def verb(_: object) -> None:
        raise error

    assert exit_of(monkeypatch, verb) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert all(words in line for words, line in zip(printed, err.splitlines(), strict=False))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("error", [None, errors.ResultsError("half"), OSError(5, "gone")])
def test_a_signal_has_its_own_code_whatever_it_led_to(
    monkeypatch: pytest.MonkeyPatch, number: signal.Signals, error: Exception | None
) -> None:
    def verb(signals: Any) -> None:
        signals.begin()
        try:
            signal.raise_signal(number)
        except KeyboardInterrupt:
            if error:
                raise error from None
            raise

    assert exit_of(monkeypatch, verb) == 128 + number

    def goes_on(signals: Any) -> None:
        signals.received = number

    assert exit_of(monkeypatch, goes_on) == 0


@pytest.mark.process
@pytest.mark.quick
def test_a_reader_that_has_ended_is_no_fault() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _PRINTS],
        env={**os.environ, "PYTHONPATH": python_path()},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as run:
        assert run.stdout
        run.stdout.read(1)
        run.stdout.close()
        assert run.stderr
        assert run.stderr.read() == b""
    assert run.returncode == 0
