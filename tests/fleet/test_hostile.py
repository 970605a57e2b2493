"""A machine that somebody else has taken over: the controller refuses it, and others go on."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from edgebench.fleet import session
from tests.fleet import hostile
from tests.fleet.conftest import Fleet, once_each

pytestmark = pytest.mark.process


#: What leaves a file where it is unpickled.
PICKLE = "cos\nsystem\n(S'touch unpickled'\ntR."
#: What the machine does (:mod:`tests.fleet.hostile`), and what is said of it.
WAYS: list[tuple[dict[str, Any], str]] = [
    ({"raw": "{\x0b\x7f\xff\n"}, "no answer"),
    ({"raw": f"{PICKLE}\n{{{PICKLE}\n"}, "no answer"),
    ({"raw": '{"is":"record","last":true,"record":' + "[" * 9999 + "]" * 9999 + "}\n"}, "64 deep"),
    ({"raw": '{"is":"ready","manifest":{},"environment":{}}\n'}, "Ready in place of a trial"),
    ({"raw": "{" * 4096, "endless": True}, "no answer"),
    ({"raw": "hello " * 999 + "\n", "endless": True}, "more than an answer can have"),
    ({"record": {"notes": {"a": "x" * 99_999}}, "endless": True}, "more than an answer can have"),
    ({"record": {}, "endless": True}, "Record in place of a trial"),
    ({"file": ["logs", "TRIAL"], "size": 1 << 20, "endless": True}, "more than an answer can have"),
    *(
        ({"file": ["logs", name]}, "a file logs/")
        for name in ("../evil", "/etc/evil", "TRIAL/../../evil", "0099", "TRIAL-01", "", "TRIAL\0")
    ),
    *(({"file": [kind, "TRIAL"]}, f"a file {kind}/") for kind in ("../logs", "/tmp", "trials")),
    ({"record": {"trial": "0099"}}, "a record of trial 0099"),
    ({"record": {"repeat": 99}}, "a record of trial"),
    ({"record": {"point": "p009"}}, "a record of point p009"),
    ({"record": {"limits": {"label": "1G"}}}, " at 1G"),
    ({"record": {"strategy": "process"}}, "a record of other settings"),
    ({"record": {"settings": {"kind": "command", "seed": 5}}}, "a record of other settings"),
    ({"record": {"settings": {}}}, "a record of other settings"),
    ({"record": {"walk": {"walk": "0001", "step": 0}}}, "a record of the walk"),
    ({"record": {"limits": 5}}, "a damaged record"),
    ({"hello": {"edgebench": "0.0.1"}}, "edgebench 0.0.1 runs there"),
    ({"lacking": ["../fleet.toml"]}, "it asks for the file ../fleet.toml"),
    ({"networks": 5}, "its networks"),
    ({"networks": {"a": 5}}, "its networks"),
]


def add(fleet: Fleet, name: str, way: dict[str, Any]) -> None:
    fleet.add(name, shlex.join([sys.executable, hostile.__file__, json.dumps(way)]))


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    """A fleet with one good machine, in a folder beside which there is nothing else."""
    folder = tmp_path / "controller"
    folder.mkdir()
    made = Fleet(folder, names=())
    add(made, "good", {})
    return made


@pytest.mark.promise("A fleet's controller keeps no answer that is not to the order it gave.")
@pytest.mark.promise("A machine that somebody took over runs nothing at a fleet's controller.")
@pytest.mark.promise("A machine that somebody took over writes nothing outside its trial's files.")
def test_machines_that_were_taken_over_are_named_and_left_out(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for number, (way, _) in enumerate(WAYS):
        add(fleet, f"bad-{number}", way)
    made = set(tmp_path.rglob("*"))
    monkeypatch.setattr(session, "_MOST_FILE_BYTES", 16 << 20)
    said = fleet.ask(fleet.scenario("hostile", 2), code=3)
    for number, (way, words) in enumerate(WAYS):
        told = said.stderr.partition(f"bad-{number} is left out: ")[2].partition("\n")[0]
        assert words in told, way
        assert said.stderr.count(f"bad-{number}: stage") in (0, 100)
        assert fleet.lines(f"bad-{number}", "hostile") == []
    assert "\x1b" not in said.stdout + said.stderr
    assert once_each(fleet.lines("good", "hostile"), 6)
    new, results = set(tmp_path.rglob("*")) - made, fleet.folder / "results"
    outside = {path for path in new if results not in path.parents}
    assert outside - {results, fleet.folder / "hostile.toml"} == {
        place / "pid" for place in fleet.machines.iterdir()
    }
    trials = {f"{number:04d}" for number in range(1, 7)}
    for path in results.glob("bad-*/*/*/*"):
        assert (path.parent.name, path.stem) in {("logs", trial) for trial in trials}
    assert not psutil.Process().children(recursive=True)


def test_a_machine_that_is_lost_in_each_trial_gets_no_more(fleet: Fleet):
    add(fleet, "bad", {"exit": "\x1b[2Jended"})
    fleet.lost_after = "8s"
    fleet.write()
    said = fleet.ask(fleet.scenario("lost", 2), code=3)
    assert "bad: lost: the session ended: \\x1b[2Jended; it is tried again" in said.stderr
    assert "\x1b" not in said.stderr
    assert once_each(fleet.lines("good", "lost"), 6)
    assert fleet.lines("bad", "lost") == []


@pytest.mark.root
@pytest.mark.promise("Under sudo a fleet's controller reads, sends and starts nothing.")
def test_root_does_nothing_for_the_caller_of_sudo(fleet: Fleet):
    fleet.environment |= {"SUDO_UID": "12345", "SUDO_GID": "12345"}
    said = fleet.ask(fleet.scenario("sudo", 1), code=2)
    assert "the same command without sudo" in said.stderr
    assert not list(fleet.folder.glob("results"))
