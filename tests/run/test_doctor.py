from __future__ import annotations

import json
import sys

import pytest

from edgebench.cgroups.parent import Finding
from edgebench.run.doctor import CheckResult, finding_result
from tests.own_path import call


# Where root can have swap, the doctor tries it for a moment.
@pytest.mark.exclusive
@pytest.mark.own_cgroup
def test_doctor_finds_this_machine_fit():
    done = call("doctor", "--verbose")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("  ok    cgroup: ")
    assert "limits enforced" in done.stdout
    assert "next: edgebench run" in done.stderr


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_an_unfit_machine_is_told_why(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    from edgebench import cli

    finding = Finding("memory controller", False, "off", "boot with it")

    def results() -> list[CheckResult]:
        return [finding_result(finding)]

    monkeypatch.setattr("edgebench.run.doctor.check_machine", results)
    monkeypatch.setattr(sys, "argv", ["edgebench", "doctor", *words])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    told = capsys.readouterr()
    assert stop.value.code == 5
    assert "memory controller" in told.err
    if words:
        assert json.loads(told.out)["fit"] is False
        assert json.loads(told.out)["checks"][0]["remedy"] == "boot with it"
    else:
        assert "  no    memory controller: off\n        boot with it\n" in told.out


def test_only_what_is_not_ok_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    from edgebench import cli

    results = [
        CheckResult("swap", "ok", "a swap file can be made"),
        CheckResult("torch", "absent", "not installed"),
        CheckResult("disk under weights", "warn", "read-ahead 8192 KiB", "echo 128"),
        CheckResult("disk under swap files", "warn", "read-ahead 8192 KiB", "echo 128"),
    ]
    monkeypatch.setattr("edgebench.run.doctor.check_machine", lambda: results)
    shown = []
    for words in ((), ("--verbose",)):
        monkeypatch.setattr(sys, "argv", ["edgebench", "doctor", *words])
        with pytest.raises(SystemExit):
            cli.main()
        shown.append(capsys.readouterr().out)
    brief, verbose = shown
    assert "warn  disk under weights, disk under swap files: read-ahead" in brief
    assert brief.count("echo 128") == 1
    assert brief.startswith("  ok    swap (1 of 4 checks)\n")
    assert "a swap file can be made" not in brief
    assert "a swap file can be made" in verbose
    assert "not installed" in verbose


@pytest.mark.parametrize(
    ("ok", "step"),
    [
        (("torch", "swap", "storage"), "edgebench run quickstart"),
        # Version 2 without the controller io: no disk can be held to a speed.
        (("torch", "swap"), "edgebench minimum --swap 2G resnet18"),
        (("torch",), "edgebench minimum resnet18"),
        (("swap", "storage"), "edgebench minimum --swap 2G -- python3 -c"),
    ],
)
def test_the_next_step_works_on_this_machine(ok: tuple[str, ...], step: str):
    """The quick start is named only where nothing that it needs is missing."""
    from edgebench.cli.doctor import next_step

    names = ("torch", "swap", "storage")
    made = [CheckResult(name, "ok" if name in ok else "absent", "", None) for name in names]
    assert next_step(made).startswith(step)
