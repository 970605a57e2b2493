"""Whose a workload and the files are when the harness runs under sudo."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from edgebench.errors import MachineError, WorkloadError
from edgebench.processes import Identity, caller_identity
from edgebench.run.trial.launch import run_reset


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


@pytest.mark.process
@pytest.mark.root
def test_the_command_before_each_trial_is_the_callers():
    caller = Identity(65534, 65534, (65534,), Path("/nowhere"))
    said = 'test "$(id -u) $HOME $MORE" = "65534 /nowhere yes"'
    run_reset({"reset": ["sh", "-c", said], "cwd": "/", "env": {"MORE": "yes"}}, caller)
    with pytest.raises(WorkloadError, match="before each trial failed"):
        run_reset({"reset": ["sh", "-c", said], "cwd": "/"}, caller)
