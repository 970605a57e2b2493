"""Workloads that misbehave, in real trials: the record stands, the harness lives, nothing stays."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgebench.records import LimitSetting, TrialRecord
from edgebench.run.trial import trial as trial_module
from edgebench.run.trial.launch import GoneError, Launch, check_start
from edgebench.run.trial.record import TrialRequest
from edgebench.run.trial.session import Session, open_session
from edgebench.run.trial.trial import TrialFiles, run_trial
from tests.own_path import call

pytestmark = pytest.mark.own_cgroup
MIB = 1 << 20
NOBODY = 65534


@pytest.fixture
def files(tmp_path: Path) -> TrialFiles:
    return TrialFiles(tmp_path / "s.npz", tmp_path / "e.jsonl.gz", tmp_path / "log", tmp_path)


def made(
    session: Session, files: TrialFiles, timeout_s: float = 60, **settings: Any
) -> TrialRecord:
    limits = LimitSetting("256M", 256 * MIB)
    request = TrialRequest("0001", "p1", 0, 0, {"kind": "command", **settings}, limits, timeout_s)
    return run_trial(session.setup, request, files)


def trial(session: Session, files: TrialFiles, code: str, timeout_s: float = 20) -> TrialRecord:
    return made(session, files, timeout_s, command=[sys.executable, "-I", "-S", "-c", code])


def running(mark: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_text(errors="replace")
        except OSError:
            continue
        if mark in words:
            found.append(words)
    return found


@pytest.mark.promise("A fork bomb ends with its trial.")
def test_a_fork_bomb_ends_with_its_trial(
    session: Session, files: TrialFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It can't have more processes than its limit, and not one of them outlives the trial.

    The memory of a hundred processes may reach the limit before the time is over.
    """
    if "pids" not in session.setup.parent.bases:
        pytest.skip("no pids controller can be had here")
    monkeypatch.setattr(trial_module, "MOST_PIDS", 100)
    bomb = "bomb_mark = 1\nimport os\nwhile True:\n try: os.fork()\n except OSError: pass"
    record = trial(session, files, bomb, timeout_s=1)
    assert record.outcome in ("timeout", "oom-killed")
    assert running("bomb_mark") == []


@pytest.mark.promise("A child process that detaches itself and ignores signals is killed too.")
def test_a_child_that_hides_is_ended_too(session: Session, files: TrialFiles) -> None:
    hide = (
        "hide_mark = 1\nimport os, signal, time\nhidden, told = os.pipe()\n"
        "if os.fork() == 0:\n os.setsid()\n if os.fork() == 0:\n"
        "  for number in (1, 2, 15): signal.signal(number, signal.SIG_IGN)\n"
        "  os.write(told, b'x')\n  os.closerange(0, 64)\n  time.sleep(1000)\n"
        " os._exit(0)\nos.read(hidden, 1)"
    )
    assert trial(session, files, hide).outcome == "ok"
    assert running("hide_mark") == []


@pytest.mark.promise("A worker that sends too many, damaged or false events breaks nothing.")
def test_garbage_and_lies_to_the_event_pipe(session: Session, files: TrialFiles) -> None:
    """What is no event is counted; forged events can't break the record or what reads it."""
    lies = [
        *({"event": "start", "id": n, "phase": "\x1b[31m", "t_ns": 10**400} for n in range(3)),
        {"event": "end", "id": 1, "t_ns": -(10**400), "peak_bytes": 10**400, "cpu_ns": 1e308},
        {"event": "start", "id": 7, "phase": "round", "round": 10**30, "t_ns": 1},
        {"event": "end", "id": 7, "t_ns": 2**62, "usage_bytes": [], "peak_bytes": "much"},
        {"event": "note", "t_ns": 0, "data": {"error": {"what": "\x1b]0;owned\x07\ud800"}}},
        {"event": ["note"], "data": 5},
    ]
    lines = "".join(json.dumps(lie) + "\n" for lie in lies) + "[" * 900 + "]" * 900 + "\n"
    code = f"os.write(events, {lines!r}.encode() + bytes(range(256)) * 50)\nos._exit(3)"
    script = files.work / "script.py"
    given = "import json, os, sys\nevents = json.loads(sys.argv[1])['descriptors']['events']\n"
    script.write_text(given + code)
    about = {"kind": "function", "function": "f", "script": str(script), "argument": ""}
    record = made(session, files, **about)
    assert record.outcome == "failed"
    assert record.reason == "\\x1b]0;owned\\x07\\ud800"
    assert any(doubt.kind == "no_events" for doubt in record.doubts)
    assert record.peak_bytes is not None
    assert record.peak_bytes <= 256 * MIB
    json.dumps(record.to_json(), allow_nan=False)


@pytest.mark.promise("A trial that can't be measured is tried once more, and is then no evidence.")
def test_data_that_can_not_be_read_is_no_failure_of_the_program(
    session: Session, files: TrialFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stumble(*_: object) -> None:
        raise ZeroDivisionError("a span of no time")

    monkeypatch.setattr(trial_module, "record_of", stumble)
    record = trial(session, files, "pass")
    assert record.outcome == "harness-error"
    assert "ZeroDivisionError: a span of no time" in str(record.reason)
    assert not any(session.setup.parent.bases["memory"].glob(f"*{os.getpid()}-0001*"))


@pytest.mark.root
def test_root_opens_files_to_evict_with_their_owner_s_rights(callers: Path) -> None:
    (callers / "own.bin").write_text("x")
    os.chown(callers / "own.bin", NOBODY, NOBODY)
    (callers.parent / "root.bin").touch(0o600)
    (callers / "link.bin").symlink_to(callers.parent / "root.bin")
    os.chown(callers / "link.bin", NOBODY, NOBODY, follow_symlinks=False)
    check_start(Launch((), evict=(callers / "own.bin",)))
    with pytest.raises(GoneError, match=r"link\.bin.*Permission denied"):
        check_start(Launch((), evict=(callers / "link.bin",)))


@pytest.mark.promise("A command has no descriptor of its trial: it can't reset its own peak.")
@pytest.mark.promise(
    "A worker inherits no file descriptor through which it could join another cgroup."
)
def test_a_command_inherits_no_descriptor(session: Session, files: TrialFiles) -> None:
    # Those of the shell, which opens nothing itself.
    command = ["sh", "-c", "ls -l /proc/$$/fd; true"]
    assert made(session, files, command=command).outcome == "ok"
    lines = [line for line in files.log.read_text().splitlines() if "->" in line]
    given = dict(line.split()[-3::2] for line in lines)
    # GNU time doesn't close its report, which is the workload's user's anyway.
    assert given.pop("3", "0001.gnu-time").endswith("0001.gnu-time")
    assert sorted(given) == ["0", "1", "2"]


@pytest.fixture
def callers() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="trust-", dir="/var/tmp") as name:
        folder = Path(name)
        folder.chmod(0o711)
        own = folder / "own"
        own.mkdir(mode=0o755)
        os.chown(own, NOBODY, NOBODY)
        yield own


def sudo_by_nobody(own: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return call(*words, folder=own, SUDO_UID=str(NOBODY), SUDO_GID=str(NOBODY))


def run_as_nobody_s_sudo(own: Path, script: str) -> subprocess.CompletedProcess[str]:
    (own / "script.sh").write_text(script)
    (own / "s.toml").write_text(
        'schema = 1\nname = "sudo"\nrepeats = 2\ntimeout = "60s"\n[workload]\nkind = "command"\n'
        f'command = ["/bin/sh", "{own}/script.sh"]\nreset = ["/bin/true"]\n'
        f'env = {{ LD_DEBUG = "statistics", LD_DEBUG_OUTPUT = "{own}/loaded" }}\n'
    )
    return sudo_by_nobody(own, "run", "s.toml", "--device", "d")


@pytest.mark.promise(
    "Under sudo the workload runs as the user who called sudo, can't gain rights or leave its "
    "cgroup, and all files belong to that user."
)
@pytest.mark.promise("A workload's variables, as LD_PRELOAD, act in no process that root runs.")
@pytest.mark.root
def test_under_sudo_the_workload_is_the_caller_and_stays_in(callers: Path) -> None:
    done = run_as_nobody_s_sudo(
        callers,
        "id -u\ngrep -E 'NoNewPrivs|CapEff|CapBnd' /proc/self/status\n"
        "for file in $(find /sys/fs/cgroup -name cgroup.procs -o -name tasks 2>/dev/null); do\n"
        '  (echo $$ > "$file") 2>/dev/null && echo "escaped to $file"\ndone\n'
        "grep -c edgebench- /proc/self/cgroup\n",
    )
    assert done.returncode == 0, done.stderr
    (log,) = callers.glob("results/d/*/logs/0001.log")
    said = log.read_text()
    assert said.startswith(f"{NOBODY}\n")
    assert "NoNewPrivs:\t1" in said
    assert "CapEff:\t0000000000000000" in said
    assert "escaped" not in said
    assert int(said.split()[-1]) > 0
    made = [*callers.rglob("*")]
    assert len(made) > 15
    strange = [p for p in made if p.lstat().st_uid != NOBODY and p.parent != callers]
    assert strange == []
    assert {file.stat().st_uid for file in callers.glob("loaded.*")} == {NOBODY}


@pytest.mark.promise("Links that a workload creates where root will write are not followed.")
@pytest.mark.root
def test_under_sudo_no_link_leads_root_astray(callers: Path) -> None:
    precious = callers.parent / "precious"
    precious.write_text("precious")
    precious.chmod(0o600)
    done = run_as_nobody_s_sudo(
        callers,
        f"for sweep in {callers}/results/d/*/; do\n"
        "  for file in logs/0002.log events/0002.jsonl.gz samples/0002.npz; do\n"
        f'    ln -sf {precious} "$sweep$file"\n  done\ndone\n'
        f"ls -ld /tmp/edgebench-* > {callers}/seen\nln -s {precious} /tmp/edgebench-*/fast.i64\n",
    )
    assert precious.read_text() == "precious"
    assert "Traceback" not in done.stderr
    assert (callers / "seen").read_text()
    assert precious.stat().st_uid == 0


@pytest.mark.promise("Files that `measure` saves belong to the caller.")
@pytest.mark.root
def test_under_sudo_kept_samples_are_the_caller_s(callers: Path) -> None:
    """What ``measure`` is asked to keep belongs to whom asked; a link there is not followed."""
    words = ("measure", "--samples", "kept.npz", "--", "/bin/true")
    done = sudo_by_nobody(callers, *words)
    assert done.returncode == 0, done.stderr
    assert (callers / "kept.npz").stat().st_uid == NOBODY
    precious = callers.parent / "precious"
    precious.write_text("precious")
    (callers / "kept.npz").unlink()
    (callers / "kept.npz").symlink_to(precious)
    done = sudo_by_nobody(callers, *words)
    assert precious.read_text() == "precious"
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)


@pytest.mark.promise("Nobody else can write to the scratch folder.")
@pytest.mark.root
def test_nobody_else_can_write_to_the_scratch_folder(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root's own for root; under sudo others may only reach what is theirs in it."""
    assert stat.S_IMODE(session.folder.stat().st_mode) == 0o700
    monkeypatch.setenv("SUDO_UID", str(NOBODY))
    monkeypatch.setenv("SUDO_GID", str(NOBODY))
    with open_session() as theirs:
        found = theirs.folder.stat()
        assert (stat.S_IMODE(found.st_mode), found.st_uid) == (0o711, 0)
