"""Where version 2 lets cgroups be made: none with processes in it; or a scope of systemd's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgebench.cgroups import leftovers, v2
from edgebench.cgroups.interface import Cgroup
from edgebench.cgroups.join import join_command
from edgebench.cgroups.leftovers import LEAF, Ownership
from edgebench.cgroups.v2 import enable_controllers, enter_scope, find_base, may_leave
from edgebench.errors import CgroupError
from tests.cgroups.conftest import Run

REPOSITORY = Path(__file__).resolve().parents[2]
#: Find the parent cgroup from inside and print what is in it and around it.
_INSIDE = """
import json, sys
sys.path[:0] = json.loads(sys.argv[1])
from pathlib import Path
from edgebench.cgroups.leftovers import Ownership
from edgebench.cgroups.parent import find_parent
with Ownership(Path(sys.argv[2])) as ownership:
    parent = find_parent(ownership)
    made = parent.create("inner")
    own = Path("/proc/self/cgroup").read_text().strip()
    print(json.dumps([own, str(made.path), (parent.path / "cgroup.subtree_control").read_text()]))
    made.remove()
"""


def plain(folder: Path, **files: str) -> Path:
    """A cgroup made of plain files; ``type`` is there everywhere but in the real root."""
    folder.mkdir(exist_ok=True)
    texts = {"controllers": "memory pids", "procs": "", "subtree_control": "", **files}
    for name, text in texts.items():
        (folder / f"cgroup.{name}").write_text(text)
    return folder


def test_where_controllers_can_be_passed_down(tmp_path: Path):
    """The real root, what is beside another harness's leaf, but nothing without memory."""
    root = plain(tmp_path / "root", controllers="cpu hugetlb memory")
    assert find_base(root, tmp_path) == (root, {"cpu", "memory"})
    base = plain(tmp_path / "scope", type="domain")
    assert find_base(plain(base / LEAF, type="domain", controllers=""), tmp_path)[0] == base
    folder = plain(tmp_path / "bare", type="domain", controllers="pids")
    with pytest.raises(CgroupError, match="not enabled") as caught:
        find_base(folder, tmp_path)
    assert "Delegate=yes" in str(caught.value.remedy)


@pytest.mark.parametrize("refused", ["cpu", "memory", "pids"])
def test_only_memory_must_be_enabled(
    tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch, refused: str
):
    """What else the kernel refuses is left out, whether it comes before or after memory."""
    wanted, enabled = ["cpu", "memory", "pids"], list[str]()

    class Files:
        @property
        def subtree_control(self) -> list[str]:
            return enabled

        @subtree_control.setter
        def subtree_control(self, word: str) -> None:
            if word == f"+{refused}":
                raise OSError(22, "Invalid argument")
            enabled.append(word[1:])

    root = plain(tmp_path / "root", controllers=" ".join(wanted))
    monkeypatch.setattr(v2, "unified_files", lambda _: Files())
    with Ownership(state) as ownership:
        if refused == "memory":
            with pytest.raises(CgroupError, match="can't enable the memory controller: Invalid"):
                enable_controllers(root, wanted, ownership)
        else:
            enable_controllers(root, wanted, ownership)
            assert enabled == [name for name in wanted if name != refused]


@pytest.mark.process
@pytest.mark.quick
def test_only_what_called_us_steps_aside(tmp_path: Path, state: Path):
    base, us = plain(tmp_path / "scope", type="domain"), [os.getpid(), os.getppid()]
    with (
        subprocess.Popen(["sleep", "1000"]) as piped,
        subprocess.Popen(["sleep", "1000"], start_new_session=True) as stranger,
    ):
        try:
            there = [piped.pid, *us, 0, 4_000_000, stranger.pid]
            moved: list[tuple[int, Path]] = []
            ours = [*us, piped.pid]
            inside = [*ours, 4_000_001]  # the last one was started meanwhile
            with pytest.MonkeyPatch.context() as patch:
                for module in (v2, leftovers):
                    pids = {base: there, base / LEAF: inside}
                    patch.setattr(module, "move_process", lambda *move: moved.append(move))
                    patch.setattr(module, "own_pids", pids.__getitem__)
                with Ownership(state) as ownership:
                    enable_controllers(*find_base(base, tmp_path), ownership)
                    assert moved == [(pid, base / LEAF) for pid in ours]
                    (base / "cgroup.subtree_control").write_text("memory pids")
            assert moved[3:] == [(pid, base) for pid in inside]
        finally:
            piped.kill()
            stranger.kill()
    assert not (base / LEAF).exists()


@pytest.mark.process
@pytest.mark.quick
def test_another_harness_of_another_session_steps_aside_too(tmp_path: Path, state: Path):
    base = plain(tmp_path / "scope", type="domain")
    program = [sys.executable, "-I", "-S", "-c", "import sys; sys.stdin.read()"]
    with subprocess.Popen(program, stdin=subprocess.PIPE, start_new_session=True) as other:
        (base / "cgroup.procs").write_text(f"{other.pid}\n")
        (state / f"{other.pid}-0.claims").touch()
        with Ownership(state) as ownership:
            enable_controllers(*find_base(base, tmp_path), ownership)
            assert (base / LEAF / "cgroup.procs").read_text() == str(other.pid)


@pytest.mark.promise(
    "`edgebench doctor` reports and says what to type: root in a cgroup that systemd has not "
    "delegated."
)
def test_what_systemd_has_delegated_is_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """An attribute on it or above it, set to 1; root needs one where systemd runs."""
    marks: dict[tuple[str, str], bytes] = {}

    def getxattr(path: Path, name: str) -> bytes:
        if (path.name, name) not in marks:
            raise OSError(61, "No data available")
        return marks[path.name, name]

    folder = plain(plain(tmp_path / "above", type="domain") / "scope", type="domain")
    monkeypatch.setattr(v2, "systemd_runs", lambda: True)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("os.getxattr", getxattr)
    for where in ("scope", "above"):
        for name in ("user.delegate", "trusted.delegate"):
            marks.clear()
            marks[where, name] = b"0"
            with pytest.raises(CgroupError, match="not delegated") as refused:
                find_base(folder, tmp_path)
            assert "systemd-run --scope" in str(refused.value.remedy)
            marks[where, name] = b"1"
            assert find_base(folder, tmp_path)[0] == folder


@pytest.fixture
def scope(cgroup: Cgroup) -> Iterator[Path]:
    if cgroup.version != 2:
        pytest.skip("this kernel's memory controller is on version 1")
    yield cgroup.path
    assert not [inner for inner in cgroup.path.iterdir() if inner.is_dir()]
    assert not (cgroup.path / "cgroup.subtree_control").read_text().strip()


def inside(state: Path) -> tuple[str, ...]:
    words = (json.dumps([str(REPOSITORY), *sys.path]), str(state))
    return (sys.executable, "-c", _INSIDE, *words)


@pytest.mark.own_cgroup
def test_the_harness_steps_aside_and_back(scope: Path, run: Run, tmp_path: Path):
    script = '"$@"; cat /proc/self/cgroup'
    done = run("sh", "-c", script, "sh", *inside(tmp_path))
    assert done.returncode == 0, done.stderr
    seen, after = done.stdout.splitlines()
    own, made, passed_down = json.loads(seen)
    assert own.endswith(f"{scope.name}/{LEAF}")
    assert made == str(scope / "edgebench-inner")
    assert "memory" in passed_down
    assert after.endswith(scope.name)


@pytest.mark.own_cgroup
def test_others_in_the_way(scope: Path, cgroup: Cgroup, run: Run, tmp_path: Path):
    command = join_command(cgroup, ["sleep", "1000"], None, None)
    with subprocess.Popen(command, start_new_session=True) as other:
        while not cgroup.pids():
            pass
        done = run(*inside(tmp_path))
        assert other.pid in cgroup.pids()
        remedy = [line.strip() for line in done.stderr.splitlines() if "/others" in line]
        script = "\n".join([*remedy, '"$@"'])
        mended = run("sh", "-c", script, "sh", *inside(tmp_path))
        other.kill()
    (scope / "others").rmdir()
    assert f"1 other process is in the current cgroup: [{other.pid}]" in done.stderr
    assert mended.returncode == 0, mended.stderr


@pytest.mark.own_cgroup
@pytest.mark.parametrize("before", ["", "timeout 60 "])
def test_a_pipeline_steps_aside_with_the_harness(
    scope: Path, run: Run, tmp_path: Path, before: str
):
    """``timeout 5h edgebench run … | tee log``: what it is piped to is moved, too."""
    done = run(
        "sh",
        "-c",
        before + '"$@" | tee "$0"; cat /proc/self/cgroup',
        "/dev/null",
        *inside(tmp_path),
    )
    assert done.returncode == 0, done.stderr
    seen, after = done.stdout.splitlines()
    assert json.loads(seen)[1] == str(scope / "edgebench-inner")
    assert after.endswith(scope.name)


@pytest.fixture
def session(tmp_path: Path) -> Path:
    folder = tmp_path / "user.slice" / f"user-{os.geteuid()}.slice" / "session-1.scope"
    folder.mkdir(parents=True)
    (folder / "memory.max").write_text("max\n")
    (folder / "cpu.max").write_text("max 100000\n")
    return folder


@pytest.mark.parametrize(("file", "text"), [("memory.max", "1000\n"), ("cpu.max", "50000 100000")])
def test_a_limit_is_never_escaped(
    session: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, text: str
):
    """The scope is made in the same slice, whose limits still hold; the session's own would not.

    A user in a system service would get a scope elsewhere, under other limits.
    """
    (session.parent / "memory.max").write_text("1000000\n")
    assert may_leave(session, tmp_path)
    (session / file).write_text(text)
    assert not may_leave(session, tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert not may_leave(tmp_path / "system.slice" / "cron.service", tmp_path)


def test_without_systemd_nothing_is_asked(
    session: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(v2, "systemd_runs", lambda: False)
    monkeypatch.setattr(v2, "_ask", lambda *_: pytest.fail("asked"))
    assert not enter_scope(session, tmp_path)


@pytest.mark.process
@pytest.mark.quick
@pytest.mark.parametrize(
    ("uid", "words"),
    [
        (0, "--system {call} edgebench-{pid}.scope fail 3 {own} Slice s user-0.slice 0"),
        (1000, "--user {call} edgebench-{pid}.scope fail 2 {own} 0"),
    ],
)
def test_what_systemd_is_asked_for(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    uid: int,
    words: str,
):
    busctl, asked = tmp_path / "busctl", tmp_path / "asked"
    busctl.write_text(
        f'#!/bin/sh\necho "$@" > {asked}; cat; echo said; exit $(cat {tmp_path}/code)\n'
    )
    busctl.chmod(0o755)
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    monkeypatch.setattr(v2, "systemd_runs", lambda: True)
    monkeypatch.setattr(v2.shutil, "which", lambda name: str(busctl) if name == "busctl" else None)
    monkeypatch.setattr(
        v2, "_moved", lambda before: before == Path("/proc/self/cgroup").read_text()
    )
    session = tmp_path / "a.slice" / f"user-{uid}.slice" / "session-1.scope"
    for code in (0, 1):
        (tmp_path / "code").write_text(str(code))
        assert enter_scope(session, tmp_path) is (code == 0)
    call = (
        "call org.freedesktop.systemd1 /org/freedesktop/systemd1 org.freedesktop.systemd1.Manager"
        " StartTransientUnit ssa(sv)a(sa(sv))"
    )
    own = f"Delegate b true PIDs au 1 {os.getpid()}"
    assert asked.read_text().strip() == words.format(call=call, pid=os.getpid(), own=own)
    assert capfd.readouterr().out == ""


def test_we_wait_until_systemd_has_moved_us(monkeypatch: pytest.MonkeyPatch):
    """Its answer comes before its deed; who is never moved waits no longer than it is patient."""
    assert v2._moved("another cgroup")
    monkeypatch.setattr(v2, "_SCOPE_PATIENCE_S", 0.05)
    assert not v2._moved(Path("/proc/self/cgroup").read_text())
