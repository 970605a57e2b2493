"""Whose a workload and its files are, and what reads them: a bounded process of that user's."""

from __future__ import annotations

import gzip
import json
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from edgebench import caller_process
from edgebench.caller_process import NOT_FOUND, CallError, call_as_caller, run_as_caller
from edgebench.errors import MachineError, WorkloadError
from edgebench.measures import strategies
from edgebench.measures.strategies import ErrorBar, Reading, Strategy, TrialData
from edgebench.processes import Identity, caller_identity
from edgebench.records import LimitSetting, TrialRecord
from edgebench.run.trial.launch import StrategyTrial, run_reset
from edgebench.run.trial.record import TrialRequest
from tests.fleet.conftest import is_alive

pytestmark = pytest.mark.process
NOBODY = Identity(65534, 65534, (65534,), Path("/"))
SHELL = "subprocess:getoutput"
RECORD = TrialRecord("0001", "p1", 0, 0, {"kind": "command"}, LimitSetting(), "ok", "")


@pytest.mark.root
@pytest.mark.promise("What a workload wrote is read as the caller, who can gain no rights.")
def test_it_is_the_caller_and_nobody_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LD_PRELOAD_OF_ROOT", "x")
    (tmp_path / "secret").write_text("secret")
    tmp_path.chmod(0o700)
    words = f"id -u; id -G; grep NoNewPrivs /proc/self/status; env; cat {tmp_path}/secret"
    told = call_as_caller(SHELL, words, NOBODY).splitlines()
    assert told[:3] == ["65534", "65534", "NoNewPrivs:\t1"]
    names = {line.partition("=")[0] for line in told[3:-1]}
    assert names - {"PWD", "SHLVL", "_", "OLDPWD"} == {"PATH", "HOME", "LC_ALL"}
    assert "Permission denied" in told[-1]


def test_what_fails_is_told() -> None:
    with pytest.raises(CallError, match="No such file") as caught:
        call_as_caller("os:listdir", "/no/such/folder", None)
    assert caught.value.errno == 2
    with pytest.raises(CallError, match=r"ended early \(exit status 3\)"):
        call_as_caller("os:_exit", 3, None)


class Told(Strategy):
    name = title = counts = blind_to = "told"
    own_trial = True

    def read(self, trial: TrialData) -> Reading:
        assert trial.folder
        names = {path.name: 1 for path in trial.folder.iterdir()}
        return Reading(self.name, os.geteuid(), "told", ErrorBar(0, "told"), parts=names)


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setitem(strategies.with_own_trial(), "told", Told())
    with tempfile.TemporaryDirectory(prefix="caller-", dir="/var/tmp") as name:
        Path(name).chmod(0o711)
        yield Path(name)


@pytest.mark.root
@pytest.mark.promise("Root reads no file of a profiler, and starts no program on it, under sudo.")
def test_a_strategy_reads_as_the_caller(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDO_UID", str(NOBODY.uid))
    monkeypatch.setenv("SUDO_GID", str(NOBODY.gid))
    target = place / "reading.json.gz"
    settings = {"kind": "command", "command": ["true"]}
    request = TrialRequest("0001", "p1", 0, 0, settings, LimitSetting(), strategy="told")
    trial = StrategyTrial.of(request, place / "own", target)
    (place / "own" / "left").write_text("x")
    assert trial.keep_reading(RECORD, [], NOBODY) == ""
    kept = Reading.from_json(json.loads(gzip.decompress(target.read_bytes())))
    assert (kept.peak_bytes, kept.parts) == (NOBODY.uid, {"left": 1})
    assert not (place / "own").exists()


@pytest.mark.root
@pytest.mark.promise("What prepares and resets trials runs as the caller, who can gain no rights.")
def test_a_program_of_the_callers() -> None:
    with tempfile.TemporaryDirectory(prefix="trust-", dir="/var/tmp") as name:
        folder = Path(name)
        folder.chmod(0o777)
        variables = {"PATH": "/usr/bin:/bin", "A": "b", "LD_DEBUG": "statistics"}
        variables["LD_DEBUG_OUTPUT"] = str(folder / "loaded")
        script = "id -u; grep NoNewPrivs /proc/self/status; echo $A $1 >&2; exit 3"
        done = run_as_caller(["sh", "-c", script, "", "c"], NOBODY, variables)
        assert (done.returncode, done.stderr) == (3, b"b c\n")
        assert done.stdout.split() == [b"65534", b"NoNewPrivs:", b"1"]
        assert {file.stat().st_uid for file in folder.glob("loaded.*")} == {65534}
    assert run_as_caller(["no-such-program"], None, variables).returncode == NOT_FOUND


@pytest.mark.root
@pytest.mark.promise("The folder that a workload runs in is entered with its user's rights.")
def test_its_folder_is_entered_as_the_caller(tmp_path: Path) -> None:
    """By relative names it could otherwise read what lies in a folder of root's alone."""
    tmp_path.chmod(0o700)
    path = {"PATH": "/usr/bin:/bin"}
    done = run_as_caller(["pwd"], NOBODY, path, cwd=str(tmp_path))
    assert (done.returncode, done.stdout) == (NOT_FOUND, b"")
    assert run_as_caller(["pwd"], NOBODY, path, cwd="/usr").stdout == b"/usr\n"


@pytest.mark.promise("What reads a workload's files ends at a time limit, with what it started.")
@pytest.mark.promise("What prepares trials can't fill memory or keep the harness waiting.")
def test_a_program_that_prints_without_end_or_never_ends(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Output has a limit; what is left in the background ends too, though it holds the pipes."""
    monkeypatch.setattr(caller_process, "_MOST_BYTES", 1 << 20)
    path = {"PATH": "/usr/bin:/bin"}
    with pytest.raises(CallError, match="more than 1 MiB"):
        run_as_caller(["yes"], None, path)
    note = f"sleep 1000 & echo $! > {tmp_path}/pid; wait"
    with pytest.raises(CallError, match="did not end within 1 s"):
        call_as_caller(SHELL, note, None, limit_s=1)
    done = run_as_caller(["sh", "-c", "yes >&2 & sleep 1000 & echo $!"], None, path)
    assert len(done.stderr) <= 1 << 16
    end = time.monotonic() + 120
    for pid in (int((tmp_path / "pid").read_text()), int(done.stdout)):
        while is_alive(pid):
            assert time.monotonic() < end
            time.sleep(0.01)


@pytest.fixture
def sudo(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("SUDO_UID", "65534")
    monkeypatch.setenv("SUDO_GID", "65534")
    return monkeypatch


def test_the_caller_of_sudo(sudo: pytest.MonkeyPatch):
    caller = caller_identity()
    assert caller is not None
    assert (caller.uid, caller.gid) == (65534, 65534)
    assert 65534 in caller.groups
    assert caller.home.is_absolute()


def test_a_user_no_database_knows(sudo: pytest.MonkeyPatch):
    sudo.setenv("SUDO_UID", "54321")
    assert caller_identity() == Identity(54321, 65534, (65534,), Path("/"))


@pytest.mark.parametrize(("uid", "euid"), [("", 0), ("0", 0), ("65534", 1000)])
def test_nobody_else_to_be(sudo: pytest.MonkeyPatch, uid: str, euid: int):
    sudo.setenv("SUDO_UID", uid)
    sudo.setattr(os, "geteuid", lambda: euid)
    assert caller_identity() is None


def test_variables_that_are_no_numbers(sudo: pytest.MonkeyPatch):
    sudo.setenv("SUDO_GID", "root; x")
    with pytest.raises(MachineError, match="would run as root"):
        caller_identity()


@pytest.mark.root
def test_the_command_before_each_trial_is_the_callers():
    caller = replace(NOBODY, home=Path("/nowhere"))
    said = 'test "$(id -u) $HOME $MORE" = "65534 /nowhere yes"'
    run_reset({"reset": ["sh", "-c", said], "cwd": "/", "env": {"MORE": "yes"}}, caller)
    with pytest.raises(WorkloadError, match="before each trial failed"):
        run_reset({"reset": ["sh", "-c", said], "cwd": "/"}, caller)
