"""Whose a workload and the files are when the harness runs under sudo."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from edgebench.cgroups.identity import Identity, caller_identity, give_to_caller
from edgebench.errors import MachineError


@pytest.fixture
def sudo(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """As if user 65534 had called sudo."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("SUDO_UID", "65534")
    monkeypatch.setenv("SUDO_GID", "65534")
    return monkeypatch


def test_the_caller_of_sudo(sudo: pytest.MonkeyPatch):
    """The user, their groups and home are those of the user database."""
    caller = caller_identity()
    assert caller is not None
    assert (caller.uid, caller.gid) == (65534, 65534)
    assert 65534 in caller.groups
    assert caller.home.is_absolute()


def test_a_user_no_database_knows(sudo: pytest.MonkeyPatch):
    """A number is enough."""
    sudo.setenv("SUDO_UID", "54321")
    assert caller_identity() == Identity(54321, 65534, (65534,), Path("/"))


@pytest.mark.parametrize(("uid", "euid"), [("", 0), ("0", 0), ("65534", 1000)])
def test_nobody_else_to_be(sudo: pytest.MonkeyPatch, uid: str, euid: int):
    """Root by itself, root's own sudo, and a process that is not root stay who they are."""
    sudo.setenv("SUDO_UID", uid)
    sudo.setattr(os, "geteuid", lambda: euid)
    assert caller_identity() is None


def test_variables_that_are_no_numbers(sudo: pytest.MonkeyPatch):
    """Never silently as root."""
    sudo.setenv("SUDO_GID", "root; x")
    with pytest.raises(MachineError, match="would run as root"):
        caller_identity()


@pytest.mark.root
def test_a_folder_is_given_with_all_in_it(sudo: pytest.MonkeyPatch, tmp_path: Path):
    """Links are not followed, and a file with a second name somewhere else stays root's."""
    folder, precious = tmp_path / "results", tmp_path / "precious"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "file").write_text("x")
    precious.write_text("x")
    (folder / "symbolic").symlink_to(precious)
    (folder / "hard").hardlink_to(precious)
    give_to_caller(folder)
    assert folder.stat().st_uid == (folder / "sub" / "file").stat().st_uid == 65534
    assert precious.stat().st_uid == os.getuid()


@pytest.mark.root
def test_one_file_is_given(sudo: pytest.MonkeyPatch, tmp_path: Path):
    """A file by itself changes hands too."""
    file = tmp_path / "file"
    file.write_text("x")
    give_to_caller(file)
    assert file.stat().st_uid == 65534
