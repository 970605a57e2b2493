"""Join a cgroup, then become the command. Run by itself: ``python -I -S join.py SPEC COMMAND…``.

The order is the point. The ``cgroup.procs`` files are opened while that is still allowed,
rights are dropped, and joining comes last: so nothing but the command is charged, and no
high-water mark is inherited. No shell is involved.
"""

from __future__ import annotations

import json
import os
import signal
import sys

# os.execvp needs it, at a moment when dropped rights may leave it unreadable.
import warnings as warnings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, NoReturn

    from edgebench.cgroups.identity import Identity
    from edgebench.cgroups.interface import Cgroup

#: Exit codes as env(1) and chroot(1) have them.
FAILED_BEFORE, NOT_EXECUTABLE, NOT_FOUND = 125, 126, 127
_PR_SET_NO_NEW_PRIVS = 38
#: Python ignores these, and an ignored signal stays ignored over exec.
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)


def join_command(
    cgroup: Cgroup,
    command: Sequence[str],
    identity: Identity | None,
    cores: tuple[int, ...] | None,
) -> list[str]:
    """The words that run ``command`` in the cgroup.

    Args:
        cgroup: the cgroup to join.
        command: the program (looked up in ``PATH``) and its arguments.
        identity: the user to become first; None stays as we are.
        cores: the only cores to run on; None is any.
    """
    spec = {
        "join": [str(path) for path in cgroup.join_files()],
        "user": [identity.uid, identity.gid, list(identity.groups)] if identity else None,
        "cores": cores,
        # Python itself may set this one (PEP 538); the command gets what we were given.
        "locale": os.environ.get("LC_CTYPE"),
    }
    return [sys.executable, "-I", "-S", __file__, json.dumps(spec), *command]


def main(spec: dict[str, Any], command: list[str]) -> NoReturn:
    """Do what the spec says and become the command; ends with one line and a code if it can't."""
    try:
        descriptors = [os.open(path, os.O_WRONLY) for path in spec["join"]]
        if spec["cores"]:
            os.sched_setaffinity(0, spec["cores"])
        _restore(spec["locale"])
        _no_new_rights()
        if spec["user"]:
            _become(*spec["user"])
        for descriptor in descriptors:
            os.write(descriptor, b"%d" % os.getpid())
    except OSError as error:
        _end(FAILED_BEFORE, f"can't join the cgroup: {error}")
    try:
        os.execvp(command[0], command)
    except FileNotFoundError:
        _end(NOT_FOUND, f"no command {command[0]!r}")
    except OSError as error:
        _end(NOT_EXECUTABLE, f"can't run {command[0]!r}: {error.strerror}")


def _restore(locale: str | None) -> None:
    for number in _IGNORED_BY_PYTHON:
        signal.signal(number, signal.SIG_DFL)
    if locale is None:
        os.environ.pop("LC_CTYPE", None)


def _no_new_rights() -> None:
    """No set-user-id program below the limit: prctl(2)."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_NO_NEW_PRIVS)")


def _become(uid: int, gid: int, groups: list[int]) -> None:
    os.setgroups(groups)
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


def _end(code: int, message: str) -> NoReturn:
    os.write(2, f"edgebench: {message}\n".encode())
    os._exit(code)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.argv[2:])
