"""A function of ours called in a process that has the caller's rights alone, never root's.

What a workload wrote may be made to mislead who reads it. So no such file is read by a harness that
root runs: this module does, as a program of its own. Once the function is imported, which may be
root's own code, the program becomes the user who called sudo, before it reads anything. It can gain
no rights and has an environment that nobody else chose. Its answer is data of that user's: it is
bounded in size and time, and checked by who asked.

A program of the caller's can be run so too (:func:`run_as_caller`), with variables of its own.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from edgebench.processes import Identity

#: Naming functions in torch's libraries takes minutes.
LIMIT_S = 900.0
#: The largest answer.
_MOST_BYTES = 256 << 20
_PR_SET_NO_NEW_PRIVS = 38
#: How a program ends that can't be run.
NOT_FOUND = 127
#: So much of what a program complains of is kept; and it is looked at so often whether it ended.
_ERROR_BYTES, _LOOK_S = 1 << 16, 0.02


def call_as_caller(
    function: str,
    request: Any,
    identity: Identity | None,
    *,
    imports: Sequence[str] = (),
    limit_s: float = LIMIT_S,
) -> Any:
    """Return the function's answer to the request; both are JSON.

    Args:
        function: ``module:name``.
        request: its one argument.
        identity: the user that it runs as; None: our own.
        imports: modules that it needs, which its user may have no right to read.
        limit_s: after which it is killed.

    Raises:
        CallError: it raised an exception, was killed, or gave no answer that can be used.
    """
    from edgebench.text import safe_json

    # An editable install is found by a hook, which the program doesn't have.
    ours = str(Path(__file__).resolve().parents[1])
    path = list(dict.fromkeys([*(place for place in sys.path if Path(place).is_absolute()), ours]))
    words = [json.dumps([function, path, _numbers(identity), *imports])]
    variables = {"HOME": str(identity.home if identity else Path.home())}
    status, reply, _ = _run_this(words, request, limit_s, variables, cwd="/")
    try:
        answer = safe_json(reply)
        if answer["error"] is None:
            return answer["answer"]
        error = CallError(str(answer["error"]), answer["errno"])
    except (ValueError, TypeError, KeyError):
        error = CallError(f"the process that read it ended early (exit status {status})")
    raise error


def run_as_caller(
    command: Sequence[str],
    identity: Identity | None,
    variables: Mapping[str, str],
    *,
    cwd: str | None = None,
    limit_s: float = math.inf,
) -> subprocess.CompletedProcess[bytes]:
    """Run a program as that user, who can gain no rights, or as our own; wait for its end.

    What it started ends with it. Of its errors the end is kept. A program that is not found ends
    with 127, as in a shell.

    Raises:
        CallError: it printed too much, or did not end in time.
    """
    words = [json.dumps(_numbers(identity)), *command]
    # Until it is that user, none of their variables may act: LD_PRELOAD loads code.
    return subprocess.CompletedProcess(
        [*command], *_run_this(words, [dict(variables), cwd], limit_s, {})
    )


def _numbers(identity: Identity | None) -> list[int]:
    return [identity.uid, identity.gid, *identity.groups] if identity else []


def _run_this(
    words: Sequence[str],
    request: Any,
    limit_s: float,
    variables: Mapping[str, str],
    cwd: str | None = None,
) -> tuple[int, bytes, bytes]:
    """Run this module as a program; return its exit status, output and errors."""
    from edgebench.processes import SYSTEM_ENVIRONMENT, in_memory

    with in_memory(json.dumps(request).encode()) as given:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, *words],
            stdin=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**SYSTEM_ENVIRONMENT, **variables},
            cwd=cwd,
            start_new_session=True,
        )
    with process:
        try:
            outputs = _outputs(process, limit_s)
        finally:
            # With what it started: the group is there until it is waited for.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.kill()
    return process.returncode, *outputs


def _outputs(process: subprocess.Popen[bytes], limit_s: float) -> tuple[bytes, bytes]:
    """Return what it printed until it ended; what it left running may keep the pipes open."""
    deadline, output, errors = time.monotonic() + limit_s, bytearray(), bytearray()
    ends = ((process.stdout, output), (process.stderr, errors))
    pipes = {pipe.fileno(): data for pipe, data in ends if pipe}
    with selectors.DefaultSelector() as selector:
        for pipe in pipes:
            selector.register(pipe, selectors.EVENT_READ)
        has_ended = False
        while not has_ended:
            # It is not waited for yet, so that its group can still be ended.
            how = os.WEXITED | os.WNOHANG | os.WNOWAIT
            has_ended = os.waitid(os.P_PID, process.pid, how) is not None
            for key, _ in selector.select(0 if has_ended else _LOOK_S):
                # As much as a pipe holds: after the end that is all.
                chunk = os.read(key.fd, 1 << 16)
                pipes[key.fd] += chunk
                del errors[:-_ERROR_BYTES]
                if len(output) > _MOST_BYTES:
                    raise CallError(f"it printed more than {_MOST_BYTES >> 20} MiB")
                if not chunk:
                    selector.unregister(key.fd)
            if not has_ended and time.monotonic() > deadline:
                raise CallError(f"it did not end within {limit_s:g} s")
    return bytes(output), bytes(errors)


class CallError(Exception):
    """The function gave no answer; says why."""

    def __init__(self, what: str, errno: int | None = None) -> None:
        super().__init__(what)
        #: That of the OSError that it raised.
        self.errno = errno


def main(words: list[str]) -> None:
    """Answer the request on stdin, on stdout; or become a program.

    The word is a JSON list: function, path, user, then the modules to import first. With the
    words of a program behind it, it is the user, and stdin has the program's variables and folder.
    """
    if len(words) > 1:
        _run(json.loads(words[0]), words[1:])
    named, sys.path[:], user, *imports = json.loads(words[0])
    module, _, name = named.partition(":")
    for needed in imports:
        import_module(needed)
    function = getattr(import_module(module), name)
    _become(user)
    reply: dict[str, Any] = {"answer": None, "error": None, "errno": None}
    try:
        reply["answer"] = function(json.load(sys.stdin.buffer))
    except Exception as error:
        errno = error.errno if isinstance(error, OSError) else None
        reply |= {"error": str(error) or type(error).__name__, "errno": errno}
    json.dump(reply, sys.stdout)


def _run(user: list[int], command: list[str]) -> NoReturn:
    variables, cwd = json.load(sys.stdin.buffer)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        # Python ignores them, and an ignored signal stays ignored.
        signal.signal(number, signal.SIG_DFL)
    if user:
        _become(user)
    try:
        if cwd:
            os.chdir(cwd)
        os.execvpe(command[0], command, variables)  # noqa: S606 - no shell is wanted
    except OSError as error:
        sys.stderr.write(f"{error.filename or command[0]}: {error.strerror}\n")
        sys.exit(NOT_FOUND)


def _become(user: list[int]) -> None:
    """Give up all rights but that user's (uid, gid, groups); for good."""
    import ctypes

    if ctypes.CDLL(None).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError("prctl(PR_SET_NO_NEW_PRIVS) failed")
    if user:
        uid, gid, *groups = user
        os.setgroups(groups)
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)


if __name__ == "__main__":
    main(sys.argv[1:])
