"""Asking systemd for a scope, and when not to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from edgebench.cgroups import v2
from edgebench.cgroups.v2 import enter_scope, may_leave


@pytest.fixture
def session(tmp_path: Path) -> Path:
    folder = tmp_path / "user.slice" / f"user-{os.geteuid()}.slice" / "session-1.scope"
    folder.mkdir(parents=True)
    (folder / "memory.max").write_text("max\n")
    (folder / "cpu.max").write_text("max 100000\n")
    return folder


def test_a_session_without_limits_may_be_left(session: Path, tmp_path: Path):
    """The scope is made in the same slice, so the slice's own limits still hold."""
    (session.parent / "memory.max").write_text("1000000\n")
    assert may_leave(session, tmp_path)


@pytest.mark.parametrize(("file", "text"), [("memory.max", "1000\n"), ("cpu.max", "50000 100000")])
def test_a_limit_is_never_escaped(session: Path, tmp_path: Path, file: str, text: str):
    """A limit on the session itself would not hold in the scope: we stay."""
    (session / file).write_text(text)
    assert not may_leave(session, tmp_path)


def test_another_slice_than_the_user_s_is_not_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A user in a system service would get a scope elsewhere, under other limits."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert not may_leave(tmp_path / "system.slice" / "cron.service", tmp_path)


def test_without_systemd_nothing_is_asked(
    session: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Nobody is called where nobody would answer."""
    monkeypatch.setattr(v2, "systemd_runs", lambda: False)
    monkeypatch.setattr(v2, "_ask", lambda *_: pytest.fail("asked"))
    assert not enter_scope(session, tmp_path)


@pytest.mark.process
@pytest.mark.quick
@pytest.mark.parametrize(
    ("uid", "words"),
    [
        (
            0,
            "--system call {manager} edgebench-{pid}.scope fail 3 {own} Slice s user-{uid}.slice 0",
        ),
        (1000, "--user call {manager} edgebench-{pid}.scope fail 2 {own} 0"),
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
    manager = (
        "org.freedesktop.systemd1 /org/freedesktop/systemd1 org.freedesktop.systemd1.Manager"
        " StartTransientUnit ssa(sv)a(sa(sv))"
    )
    own = f"Delegate b true PIDs au 1 {os.getpid()}"
    expected = words.format(manager=manager, pid=os.getpid(), own=own, uid=uid)
    assert asked.read_text().strip() == expected
    assert capfd.readouterr().out == ""


def test_we_wait_until_systemd_has_moved_us(monkeypatch: pytest.MonkeyPatch):
    """Its answer comes before its deed; who is never moved waits no longer than it is patient."""
    assert v2._moved("another cgroup")
    monkeypatch.setattr(v2, "_SCOPE_PATIENCE_S", 0.05)
    assert not v2._moved(Path("/proc/self/cgroup").read_text())
