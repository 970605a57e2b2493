"""What reads a workload's files: a process with the caller's rights, bounded in time and size."""

from __future__ import annotations

import gzip
import json
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgebench import caller_process
from edgebench.caller_process import NOT_FOUND, CallError, call_as_caller, run_as_caller
from edgebench.measures import strategies
from edgebench.measures.strategies import ErrorBar, Reading, Strategy, TrialData
from edgebench.processes import Identity
from edgebench.records import LimitSetting, TrialRecord
from edgebench.run.trial.launch import StrategyTrial
from edgebench.run.trial.record import TrialRequest

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


def test_what_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CallError, match="No such file") as caught:
        call_as_caller("os:listdir", "/no/such/folder", None)
    assert caught.value.errno == 2
    with pytest.raises(CallError, match=r"ended early \(exit status 3\)"):
        call_as_caller("os:_exit", 3, None)
    monkeypatch.setattr(caller_process, "_MOST_BYTES", 1 << 20)
    with pytest.raises(CallError, match="more than 1 MiB"):
        call_as_caller(SHELL, "yes | head -c 2000000", None)


@pytest.mark.promise("What reads a workload's files ends at a time limit, with what it started.")
def test_it_ends_at_its_limit(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with pytest.raises(CallError, match="did not end within"):
        call_as_caller(SHELL, f"cat {fifo}", None, limit_s=1)
    # Without a reader a FIFO can't be opened for writing.
    deadline = time.monotonic() + 200
    while _has_reader(fifo) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not _has_reader(fifo)


def _has_reader(fifo: Path) -> bool:
    try:
        os.close(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK))
    except OSError:
        return False
    return True


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


@pytest.mark.promise("What prepares trials can't fill memory or keep the harness waiting.")
def test_a_program_that_prints_without_end_or_never_ends(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Output has a limit; what is left in the background ends too, though it holds the pipes."""
    monkeypatch.setattr(caller_process, "_MOST_BYTES", 1 << 20)
    path = {"PATH": "/usr/bin:/bin"}
    with pytest.raises(CallError, match="more than 1 MiB"):
        run_as_caller(["yes"], None, path)
    with pytest.raises(CallError, match=r"did not end within 0\.1 s"):
        run_as_caller(["sleep", "1000"], None, path, limit_s=0.1)
    done = run_as_caller(["sh", "-c", "yes >&2 & sleep 1000 & echo $!"], None, path)
    end = time.monotonic() + 120
    while _is_running(int(done.stdout)):
        assert time.monotonic() < end
        time.sleep(0.01)
    assert len(done.stderr) <= 1 << 16


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
