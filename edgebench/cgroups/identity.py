"""Who called the harness: under sudo the workload is the caller's, and never root's."""

from __future__ import annotations

import contextlib
import os
import pwd
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from edgebench.errors import MachineError


@dataclass(frozen=True)
class Identity:
    """A user to run a workload as."""

    uid: int
    gid: int
    groups: tuple[int, ...]
    home: Path


def process_options(identity: Identity | None) -> dict[str, Any]:
    """What :mod:`subprocess` needs to start a program as that user; nothing to stay as we are."""
    if identity is None:
        return {}
    groups = list(identity.groups)
    return {"user": identity.uid, "group": identity.gid, "extra_groups": groups}


def caller_identity() -> Identity | None:
    """The person who called ``sudo``; None where there is nobody else to be.

    Raises:
        MachineError: sudo's variables are there but are no numbers.
    """
    uid_text = os.environ.get("SUDO_UID")
    if os.geteuid() != 0 or not uid_text:
        return None
    gid_text = os.environ.get("SUDO_GID", "")
    if not (uid_text.isdecimal() and gid_text.isdecimal()):
        raise MachineError(
            "who called sudo can't be told, and the workload would run as root",
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
def created_as_owner(path: Path) -> Iterator[BinaryIO]:
    """An empty file to write to, made with the rights of whoever owns its folder.

    They may have put a link in its place, and root would write wherever that leads.
    """
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        with _rights_of(os.fstat(folder)):
            flags = os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_NOFOLLOW
            descriptor = os.open(path.name, flags, 0o666, dir_fd=folder)
    finally:
        os.close(folder)
    with os.fdopen(descriptor, "wb") as file:
        yield file


@contextlib.contextmanager
def _rights_of(owned: os.stat_result) -> Iterator[None]:
    if os.geteuid() != 0 or owned.st_uid == 0:
        yield
        return
    group = os.getegid()
    try:
        os.setegid(owned.st_gid)
        os.seteuid(owned.st_uid)
        yield
    finally:
        os.seteuid(0)
        os.setegid(group)


def give_to_caller(path: Path) -> None:
    """Make the caller the owner of a file, or of a folder and all in it.

    Nothing is followed, and a file with a second name is left alone: the folder may be
    one that its owner can write to while root walks it.
    """
    identity = caller_identity()
    if identity is None:
        return
    _give(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), identity)
    if not path.is_dir():
        return
    for _, folders, names, folder_fd in os.fwalk(path):
        for name in (*folders, *names):
            _give_below(name, folder_fd, identity)


def _give_below(name: str, folder_fd: int, identity: Identity) -> None:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        fd = os.open(name, flags, dir_fd=folder_fd)
    except OSError:
        # A symbolic link, a socket, or gone since.
        return
    _give(fd, identity)


def _give(fd: int, identity: Identity) -> None:
    try:
        found = os.fstat(fd)
        if stat.S_ISDIR(found.st_mode) or (stat.S_ISREG(found.st_mode) and found.st_nlink == 1):
            os.fchown(fd, identity.uid, identity.gid)
    finally:
        os.close(fd)
