"""A trial that the harness could not make is tried once more, and says nothing of a limit."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from edgebench.cli import cli
from edgebench.errors import MachineError, SweepIncompleteError
from edgebench.records import TrialRecord
from edgebench.results.results import load
from edgebench.run.trial import trial

pytestmark = [pytest.mark.own_cgroup, pytest.mark.quick]

SCENARIO = """
schema = 1
name = "three"
repeats = 3
[workload]
kind = "command"
command = ["{command}"]
[limits]
memory = [{memory}]
"""
Break = Callable[..., None]


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Break:
    made = trial._recorded_trials
    count = 0

    def replace(*numbers: int) -> None:
        nonlocal count
        count = 0

        def fail(*args: object) -> list[TrialRecord]:
            nonlocal count
            count += 1
            if count in numbers:
                b"\xe6".decode()
            return made(*args)  # type: ignore[arg-type]

        monkeypatch.setattr(trial, "_recorded_trials", fail)

    return replace


def call(*words: str) -> tuple[str, BaseException | None]:
    done = CliRunner().invoke(cli, words, standalone_mode=False)
    return done.stdout, done.exception


def outcomes(root: Path) -> list[list[str]]:
    """The outcomes of each sweep below a folder, in the order in which they were made."""
    return [[record.outcome for record in sweep.records] for sweep in load(root).sweeps]


def test_measure_tries_once_more_and_then_fails(broken: Break) -> None:
    broken(1)
    assert "finished" in call("measure", "--", "true")[0]
    broken(1, 2)
    printed, error = call("measure", "--", "true")
    assert isinstance(error, MachineError)
    assert "could not be measured: what was measured can't be read" in str(error)
    assert "UnicodeDecodeError" in str(error)
    assert (printed, error.exit_code) == ("", 1)


def test_a_sweep_makes_the_rest_and_the_next_start_makes_that_trial(
    broken: Break, tmp_path: Path
) -> None:
    (tmp_path / "three.toml").write_text(SCENARIO.format(command="true", memory='"max"'))
    words = ("run", str(tmp_path / "three.toml"), "--results", str(tmp_path / "results"))
    broken(2, 3)
    error = call(*words)[1]
    assert isinstance(error, SweepIncompleteError)
    assert error.exit_code == 3
    assert outcomes(tmp_path / "results") == [["ok", "harness-error", "ok"]]
    broken()
    assert call(*words)[1] is None
    assert outcomes(tmp_path / "results") == [["ok", "ok", "ok"]]


def test_a_search_ends_and_goes_on_at_the_same_trial(broken: Break, tmp_path: Path) -> None:
    """No limit is taken for one at which the program fails."""
    program = f"{sys.executable} -I -S -c b=bytearray(40<<20)"
    words = ("minimum", "--results", str(tmp_path / "results"), "--", *program.split())
    broken(4, 5)
    printed, error = call(*words)
    assert isinstance(error, MachineError)
    assert "trial 0004 could not be made" in str(error)
    assert "edgebench with less" not in printed
    broken()
    assert call(*words)[1] is None
    (found,) = outcomes(tmp_path / "results")
    assert {*found} <= {"ok", "oom-killed"}


def test_where_no_trial_can_tell_the_need_a_new_sweep_begins(tmp_path: Path) -> None:
    """A program that failed without a limit is measured again once it is corrected."""
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\nexit 3\n")
    program.chmod(0o755)
    text = SCENARIO.format(command=program, memory='"max", "90%"')
    (tmp_path / "three.toml").write_text(text)
    words = ("run", str(tmp_path / "three.toml"), "--results", str(tmp_path / "results"))
    for _ in range(2):
        assert "of its demand is unknown" in str(call(*words)[1])
    program.write_text("#!/bin/sh\nexec true\n")
    assert call(*words)[1] is None
    *failed, last = outcomes(tmp_path / "results")
    assert {outcome for sweep in failed for outcome in sweep} == {"failed"}
    assert {*last} <= {"ok", "oom-killed"}
