"""Join a cgroup, then become the command: ``python -I -S join.py KEY=VALUE… -- COMMAND…``.

The order is the point. The ``cgroup.procs`` files are opened while that is still allowed,
rights are dropped, and joining comes last: so nothing but the command is charged, and no
high-water mark is inherited. No shell is involved.

It starts with the harness's rights, maybe root's, and a variable such as ``LD_PRELOAD`` loads code
into any program. So the command's own variables come by a descriptor, and the command alone gets
them.

It stands between the harness and every trial, so it imports next to nothing: json or signal
alone would double its time.
"""

from __future__ import annotations

import ctypes
import os
import sys

# os.execvpe needs it, at a moment when dropped rights may leave it unreadable.
import warnings as warnings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from typing import NoReturn

    from edgebench.cgroups.interface import Cgroup
    from edgebench.processes import Identity

#: Exit codes as env(1) and chroot(1) have them.
FAILED_BEFORE, NOT_EXECUTABLE, NOT_FOUND = 125, 126, 127
_PR_SET_NO_NEW_PRIVS = 38
#: SIGPIPE and SIGXFSZ: Python ignores them, and an ignored signal stays ignored over exec.
_IGNORED_BY_PYTHON = (13, 25)


def join_command(
    cgroup: Cgroup,
    command: Sequence[str],
    identity: Identity | None,
    cores: tuple[int, ...] | None,
    environment_fd: int | None = None,
    cwd: Path | None = None,
) -> list[str]:
    """Return the words that run ``command`` in the cgroup.

    Args:
        cgroup: the cgroup to join.
        command: the program (looked up in ``PATH``) and its arguments.
        identity: the user to become first; None stays as we are.
        cores: the only cores to run on; None is any.
        environment_fd: an inherited descriptor with the command's variables, as
            :func:`environment_block` has them; None: it gets the helper's own.
        cwd: the folder to run in, entered with that user's rights; None: the helper's own.
    """
    words = [f"join={path}" for path in cgroup.join_files()]
    if identity:
        words.append(f"user={_numbers((identity.uid, identity.gid, *identity.groups))}")
    if cores:
        words.append(f"cores={_numbers(cores)}")
    if environment_fd is not None:
        words.append(f"environment={environment_fd}")
    if cwd is not None:
        words.append(f"cwd={cwd}")
    return [sys.executable, "-I", "-S", __file__, *words, "--", *command]


def environment_block(variables: Mapping[str, str]) -> bytes:
    """Write the variables as ``/proc/self/environ`` has them."""
    return b"".join(os.fsencode(f"{name}={value}") + b"\0" for name, value in variables.items())


def _numbers(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))


def main(words: list[str]) -> NoReturn:
    """Do what the words say and become the command; end with one line and a code if it can't."""
    end = words.index("--")
    spec = [word.partition("=")[::2] for word in words[:end]]
    command = words[end + 1 :]
    try:
        environment = _prepare_and_join(spec)
    except OSError as error:
        _end(FAILED_BEFORE, f"can't join the cgroup: {error}")
    try:
        os.execvpe(command[0], command, environment)
    except FileNotFoundError:
        _end(NOT_FOUND, f"no command {command[0]!r}")
    except OSError as error:
        _end(NOT_EXECUTABLE, f"can't run {command[0]!r}: {error.strerror}")


def _prepare_and_join(spec: list[tuple[str, str]]) -> dict[bytes, bytes]:
    descriptors = [os.open(value, os.O_WRONLY) for key, value in spec if key == "join"]
    options = {key: value for key, value in spec if key != "join"}
    cores = _parsed(options["cores"]) if "cores" in options else []
    environment = dict(os.environb)
    if "environment" in options:
        with open(int(options["environment"]), "rb") as file:
            variables = [line.partition(b"=") for line in file.read().split(b"\0") if line]
        environment = {name: value for name, _, value in variables}
    libc = ctypes.CDLL(None)
    for number in _IGNORED_BY_PYTHON:
        libc.signal(number, None)
    # No set-user-id program below the limit: prctl(2).
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError("prctl(PR_SET_NO_NEW_PRIVS) failed")
    if "user" in options:
        uid, gid, *groups = _parsed(options["user"])
        os.setgroups(groups)
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    if "cwd" in options:
        try:
            os.chdir(options["cwd"])
        except OSError as error:
            _end(FAILED_BEFORE, f"can't run in {options['cwd']}: {error.strerror}")
    for descriptor in descriptors:
        os.write(descriptor, b"%d" % os.getpid())
    if cores:
        # Last: Linux 6.1 gives all cores back to who joins a cgroup with cpusets.
        os.sched_setaffinity(0, cores)
    return environment


def _parsed(numbers: str) -> list[int]:
    return [int(number) for number in numbers.split(",")]


def _end(code: int, message: str) -> NoReturn:
    os.write(2, f"edgebench: {message}\n".encode())
    os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1:])
