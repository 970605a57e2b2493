"""The user that processes start as: under sudo a workload runs as the caller, never as root."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import pwd
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgebench.errors import MachineError


@dataclass(frozen=True)
class Identity:
    """A user to run a workload as."""

    uid: int
    gid: int
    groups: tuple[int, ...]
    home: Path


def process_options(identity: Identity | None) -> dict[str, Any]:
    """Arguments for :mod:`subprocess` to start a program as that user; none for our own."""
    if identity is None:
        return {}
    groups = list(identity.groups)
    return {"user": identity.uid, "group": identity.gid, "extra_groups": groups}


def python_path() -> str:
    """``PYTHONPATH`` for a Python of ours that is started from any folder."""
    parent = str(Path(__file__).resolve().parents[1])
    return os.pathsep.join(filter(None, [parent, os.environ.get("PYTHONPATH")]))


def caller_identity() -> Identity | None:
    """The user who called ``sudo``; None if nobody else did.

    Raises:
        MachineError: sudo's variables are there but are no numbers.
    """
    uid_text = os.environ.get("SUDO_UID")
    if os.geteuid() != 0 or not uid_text:
        return None
    gid_text = os.environ.get("SUDO_GID", "")
    if not (uid_text.isdecimal() and gid_text.isdecimal()):
        raise MachineError(
            "the user who called sudo is unknown, and the workload would run as root",
            where=f"SUDO_UID={uid_text!r} SUDO_GID={gid_text!r}",
            remedy="call it through sudo itself, or unset both variables to run as root",
        )
    uid, gid = int(uid_text), int(gid_text)
    return None if uid == 0 else _identity(uid, gid)


def _identity(uid: int, gid: int) -> Identity:
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        # A user of a directory service that is not reachable now.
        return Identity(uid, gid, (gid,), Path("/"))
    return Identity(uid, gid, tuple(os.getgrouplist(entry.pw_name, gid)), Path(entry.pw_dir))


@contextlib.contextmanager
def rights_of(uid: int, gid: int) -> Iterator[None]:
    """That user's rights to files, for root and for this thread alone.

    The kernel takes root's own rights to files (``CAP_DAC_OVERRIDE``) away meanwhile.

    Raises:
        PermissionError: the kernel refuses them.
    """
    if os.geteuid() != 0 or uid == 0:
        yield
        return
    kernel, group = _kernel(), os.getegid()
    try:
        kernel.setfsgid(gid)
        kernel.setfsuid(uid)
        # It reports no failure; with -1 it returns the current user.
        if kernel.setfsuid(-1) & 0xFFFFFFFF != uid:
            raise PermissionError(errno.EPERM, f"the rights of user {uid} are refused")
        yield
    finally:
        kernel.setfsuid(0)
        kernel.setfsgid(group)


@functools.cache
def _kernel() -> Any:
    import ctypes

    return ctypes.CDLL(None)
