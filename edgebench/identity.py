"""The user that processes start as: under sudo a workload runs as the caller, never as root."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import pwd
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgebench.errors import MachineError

#: The number of the system call ``setgroups`` by machine (64 bits).
_SET_GROUPS = {"x86_64": 116, **dict.fromkeys(("aarch64", "riscv64", "loongarch64"), 159)}
#: A group without members, as the kernel has it for what it can't map.
_NO_GROUP = 65534


@dataclass(frozen=True)
class Identity:
    """A user to run a workload as."""

    uid: int
    gid: int
    groups: tuple[int, ...]
    home: Path


def caller_identity() -> Identity | None:
    """Return the user who called ``sudo``; None if nobody else did.

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
    if uid == 0:
        return None
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        # A user of a directory service that is not reachable now.
        return Identity(uid, gid, (gid,), Path("/"))
    return Identity(uid, gid, tuple(os.getgrouplist(entry.pw_name, gid)), Path(entry.pw_dir))


def cache_folder(identity: Identity | None) -> Path:
    """Return where weights are kept between sweeps: ``EDGEBENCH_CACHE``, else the user's cache."""
    if named := os.environ.get("EDGEBENCH_CACHE"):
        return Path(named).resolve()
    home = Path(identity.home) if identity else Path.home()
    return home / ".cache" / "edgebench"


@contextlib.contextmanager
def rights_of(uid: int, gid: int) -> Iterator[None]:
    """Take that user's rights to files, for root and for this thread alone.

    The kernel takes root's own rights to files (``CAP_DAC_OVERRIDE``) away meanwhile. Root's groups
    are left too, or what group root may read would be readable. ``gid`` is the group of new files,
    if the user is in it.

    Raises:
        PermissionError: the kernel refuses them.
    """
    if os.geteuid() != 0 or uid == 0:
        yield
        return
    kernel, own_group, own_groups = _kernel(), os.getegid(), os.getgroups()
    group, groups = _groups_of(uid, gid)
    try:
        _set_groups(groups)
        kernel.setfsgid(group)
        kernel.setfsuid(uid)
        # It reports no failure; with -1 it returns the current user.
        if kernel.setfsuid(-1) & 0xFFFFFFFF != uid:
            raise PermissionError(errno.EPERM, f"the rights of user {uid} are refused")
        yield
    finally:
        kernel.setfsuid(0)
        kernel.setfsgid(own_group)
        _set_groups(own_groups)


@functools.lru_cache(maxsize=64)
def _groups_of(uid: int, gid: int) -> tuple[int, tuple[int, ...]]:
    """Return the group to use of that user, ``gid`` if it is theirs, and all others."""
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        # Not known here: the group of their folder is theirs, unless it is root's.
        return gid or _NO_GROUP, ()
    groups = tuple(os.getgrouplist(entry.pw_name, entry.pw_gid))
    return gid if gid in groups else entry.pw_gid, groups


def _set_groups(groups: Sequence[int]) -> None:
    """Set the groups of this thread alone; :func:`os.setgroups` sets those of all threads."""
    import ctypes

    number = 206 if ctypes.sizeof(ctypes.c_void_p) == 4 else _SET_GROUPS.get(os.uname().machine)
    if number is not None:
        _kernel().syscall(number, len(groups), (ctypes.c_uint32 * len(groups))(*groups))
    if sorted(os.getgroups()) != sorted(set(groups)):
        raise PermissionError(errno.EPERM, "the groups of a user can't be set")


@functools.cache
def _kernel() -> Any:
    import ctypes

    return ctypes.CDLL(None)
