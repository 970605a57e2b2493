from __future__ import annotations

import json
import subprocess
import sys
from types import SimpleNamespace

import pytest

from edgebench.checks import Check
from edgebench.checks.tools import Surveyed


def doctor(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the real verb on the real machine."""
    command = [sys.executable, "-m", "edgebench", "doctor", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.cgroup
def test_doctor_finds_this_machine_fit():
    """Where a cgroup can be had every row is told, a limit is proved, and the next step named."""
    done = doctor()
    assert done.returncode == 0, done.stderr
    assert "limit bites" in done.stdout
    assert "next: edgebench run" in done.stdout


def test_doctor_answers_in_json_with_the_right_code():
    """The exit code is 5 just when something failed, and every fail has a remedy."""
    done = doctor("--json")
    told = json.loads(done.stdout)
    assert told["fit"] == (done.returncode == 0)
    assert done.returncode in (0, 5)
    failed = [check for check in told["checks"] if check["status"] == "fail"]
    assert all(check["remedy"] for check in failed)


def test_an_unfit_machine_is_told_why(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """A failing check gives exit code 5, its name on stderr and its remedy in the table."""
    from edgebench import cli

    finding = SimpleNamespace(name="memory controller", ok=False, says="off", remedy="boot with it")

    def checks() -> list[Check]:
        return [Surveyed(finding)]  # type: ignore[arg-type]

    monkeypatch.setattr("edgebench.checks.all_checks", checks)
    monkeypatch.setattr(sys, "argv", ["edgebench", "doctor"])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    told = capsys.readouterr()
    assert stop.value.code == 5
    assert "boot with it" in told.out
    assert "memory controller" in told.err
