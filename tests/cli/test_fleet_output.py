"""What ``fleet doctor`` prints of several machines, most of which have the same to say."""

from __future__ import annotations

import pytest

from edgebench.cli.fleet_output import print_machine_checks
from edgebench.fleet.administration import MachineChecks
from edgebench.run.checks import CheckResult

pytest.importorskip("distributed")
CORES = CheckResult("CPUs", "ok", "4 cores")
BUSY = CheckResult("foreign load", "warn", "others 40% of the CPU", "end them")
BUSIER = CheckResult("foreign load", "warn", "others 90% of the CPU", "end them")


def test_what_machines_have_in_common_is_told_once(capsys: pytest.CaptureFixture[str]):
    """A rack of equal boards gives a line for each finding, with the names of its machines."""
    found = [
        MachineChecks("one", [CORES, BUSY]),
        MachineChecks("two", [CORES, BUSIER]),
        MachineChecks("three", [CORES, BUSY]),
    ]
    print_machine_checks(found, verbose=False)
    said = capsys.readouterr().out
    assert "one, three: foreign load: others 40% of the CPU → end them" in said
    assert "two: foreign load: others 90% of the CPU → end them" in said
    assert said.count("40%") == 1
    assert "CPUs" not in said


def test_a_remedy_of_several_lines_is_told_in_one(capsys: pytest.CaptureFixture[str]):
    """As it is written for a page of its own, it would leave gaps in a list."""
    no_memory = CheckResult(
        "cgroup", "fail", "no memory controller", "add to it:\n    memory=1\nrestart"
    )
    print_machine_checks([MachineChecks("one", [no_memory])], verbose=False)
    said = " ".join(capsys.readouterr().out.split())
    assert "one: cgroup: no memory controller → add to it: memory=1 restart" in said
