"""A process as root in the stranger's folder; the paths it writes and the modules it imports."""

from __future__ import annotations

import contextlib
import datetime
import os
import secrets
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from edgebench.errors import EdgebenchError
from tests.trust.stranger import World

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_LIMIT_S = 120


def noting(log: Path) -> None:
    """From now on this process notes each path that it opens for writing, makes or renames to."""
    fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)

    def note(name: Any, folder: int | None) -> None:
        at = Path(f"/proc/self/fd/{folder}").readlink() if folder is not None else Path.cwd()
        os.write(fd, f"{at / str(name)}\n".encode())

    def noted(function: Callable[..., Any], at: int, key: str) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            if function is not real_open or args[1] & _WRITING:
                note(args[at], named.get(key))
            return function(*args, **named)

        return call

    real_open = os.open
    os.open = noted(os.open, 0, "dir_fd")
    os.mkdir = noted(os.mkdir, 0, "dir_fd")
    os.rename = noted(os.rename, 1, "dst_dir_fd")
    os.replace = noted(os.replace, 1, "dst_dir_fd")


@contextlib.contextmanager
def importing(told: Path) -> Iterator[None]:
    """Tell in this file which modules the block imports."""
    known = set(sys.modules)
    try:
        yield
    finally:
        told.write_text("\n".join(name for name in sys.modules if name not in known))


class _Noon(datetime.datetime):
    @classmethod
    def now(cls, tz: Any = None) -> _Noon:
        return cls(2026, 1, 2, 3, 4, 5, tzinfo=tz)


def _same_again() -> None:
    """Names by chance and by the hour become the same in each run."""
    from edgebench.results import folder

    # Of this world alone: another one may be at work beside it.
    world = f"{os.getppid():016x}"
    secrets.token_hex = lambda size=4: world[-2 * size :]  # type: ignore[assignment]
    folder.datetime = _Noon  # type: ignore[assignment]


def _quick() -> None:
    """What takes long and writes nothing is left out; what is left writes as always."""
    from edgebench.report.figures import style
    from edgebench.run import sweep

    style.figure_bytes = lambda figure, formats=style.FORMATS: dict.fromkeys(formats, b"drawn")
    sweep.check_limit = lambda parent: None  # type: ignore[assignment]


def start(world: World, body: Callable[[], Any], *, note: bool = False) -> int | None:
    """Run it in a process of its own, as root in the stranger's folder; None if it hung."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        try:
            said = os.open(world.said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            os.dup2(said, 1)
            os.dup2(said, 2)
            os.chdir(world.own)
            with importing(world.imported) if note else contextlib.nullcontext():
                _same_again()
                _quick()
                if note:
                    noting(world.log)
                body()
        except (EdgebenchError, OSError) as error:
            # Of what is no verb; those word it themselves.
            sys.stdout.write(str(error))
            sys.stdout.flush()
            os._exit(1)
        except SystemExit as end:
            sys.stdout.flush()
            os._exit(end.code if isinstance(end.code, int) else 1)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            sys.stderr.flush()
            os._exit(70)
        os._exit(0)
    until = time.monotonic() + _LIMIT_S
    while time.monotonic() < until:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None
