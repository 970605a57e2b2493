"""Processes as edgebench starts them: the user, the variables, and how ours import their code.

Under sudo a workload runs as the caller, never as root.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from edgebench.errors import MachineError
from edgebench.safe_folders import is_own_place


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


#: A program for ``python -c``: its first word is the folder of this package or nothing, the second
#: the module to run. ``-c`` and ``-m`` put the current folder on ``sys.path``, where anybody may
#: have left a ``json.py``; Python 3.10 has no ``-P``. The package's folder moves to the end once
#: edgebench is found in it: other packages in it must not hide the standard library.
_RUN_MODULE = (
    "import sys; folder, module = sys.argv[1:3]; del sys.argv[1:3]; "
    "sys.path[:] = filter(None, [folder, *sys.path]); import edgebench; "
    "folder and sys.path.append(sys.path.pop(0)); import runpy; "
    "runpy.run_module(module, run_name='__main__', alter_sys=True)"
)

#: The variables of a process that nobody else may influence.
SYSTEM_ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LC_ALL": "C.UTF-8",
}
#: The variables that root's own code and programs get, so that nothing else that ``sudo -E`` kept
#: (``MODPROBE_OPTIONS``, ``DBUS_SYSTEM_BUS_ADDRESS``) tells them what to load or whom to ask.
_FOR_ROOT = re.compile(
    r"_?EDGEBENCH_|COMP_|SUDO_|LC_|XDG_|UV(_RUN_RECURSION_DEPTH)?$|LANG$|HOME$|PATH$|PYTHONPATH$"
    r"|TMPDIR$|PYTHONDONTWRITEBYTECODE$|MPLCONFIGDIR$|SSH_AUTH_SOCK$|CUDA_VISIBLE_DEVICES$"
    r"|(COLOR)?TERM$|(NO|FORCE)_COLOR$|COLUMNS$|LINES$"
)
#: What these name is no place that a library reads or writes with our rights.
_NO_PLACES = re.compile(r"EDGEBENCH_|SUDO_|SSH_|PATH$")
#: What these name is a place also where it is relative.
_PLACES = re.compile(r"HOME$|DIR$|PATH$|^XDG_")
#: Variables that root ignores: a workload gets them.
_ignored: dict[str, str] = {}


def secure_environment() -> None:
    """Keep of root's variables those in :data:`_FOR_ROOT` that name no place of another user.

    ``sudo -E`` keeps the caller's: scratch files and caches would be made with root's rights where
    the caller, or a workload of theirs, may have put a link, and programs would do what theirs say.
    """
    if os.geteuid() != 0:
        return
    _secure_path()
    for name, value in list(os.environ.items()):
        is_place = not _NO_PLACES.match(name) and not _is_safe(name, value)
        if is_place or not _FOR_ROOT.match(name):
            _ignored[name] = os.environ.pop(name)
    # An image of a container may have no list of users.
    with contextlib.suppress(KeyError):
        os.environ["HOME"] = os.environ.get("HOME") or pwd.getpwuid(0).pw_dir
    if "PYTHONPYCACHEPREFIX" in _ignored:
        sys.pycache_prefix = None


def _secure_path() -> None:
    """Leave out of root's ``PATH`` each folder where another user may have put a ``mkswap``."""
    given = os.environ.get("PATH", os.defpath)
    folders = [Path(entry) for entry in given.split(os.pathsep)]
    own = [str(folder) for folder in folders if folder.is_absolute() and is_own_place(folder)]
    if len(own) < len(folders):
        _ignored["PATH"] = given
        os.environ["PATH"] = os.pathsep.join(own) or SYSTEM_ENVIRONMENT["PATH"]


def find_program(name: str, path: str | None = None) -> Path | None:
    """Return a program of the user's, searched as a shell of theirs would; None if there is none.

    ``shutil.which`` alone searches where root may start a program.
    """
    found = shutil.which(name, path=given_environment().get("PATH") if path is None else path)
    return Path(found) if found else None


def _is_safe(name: str, value: str) -> bool:
    # An empty entry of a search path is the current folder.
    parts = value.split(os.pathsep)
    entries = parts if name.endswith("PATH") else [entry for entry in parts if entry]
    places = [Path(entry) for entry in entries if _PLACES.search(name) or entry.startswith("/")]
    return all(place.is_absolute() and is_own_place(place) for place in places)


def given_environment() -> dict[str, str]:
    """Return the variables that edgebench was started with, also those that root ignores."""
    return {**os.environ, **_ignored}


def workload_environment(identity: Identity | None) -> dict[str, str]:
    """Return what a program of the user's gets.

    Under sudo, with the caller's identity throughout.
    """
    given = given_environment()
    if identity is None:
        return given
    kept = {k: v for k, v in given.items() if not k.startswith("SUDO_") and k != "MAIL"}
    try:
        entry = pwd.getpwuid(identity.uid)
        name, shell = entry.pw_name, entry.pw_shell
    except KeyError:
        # Libraries ask for some name.
        name, shell = str(identity.uid), "/bin/sh"
    kept |= {"HOME": str(identity.home), "USER": name, "LOGNAME": name, "SHELL": shell}
    runtime = Path("/run/user", str(identity.uid))
    kept["XDG_RUNTIME_DIR"] = str(runtime)
    if not runtime.is_dir():
        del kept["XDG_RUNTIME_DIR"]
    return kept


@contextlib.contextmanager
def in_memory(data: bytes) -> Iterator[BinaryIO]:
    """Yield a descriptor to read the data from: a pipe would have to be fed meanwhile."""
    fd = os.memfd_create("edgebench-request", os.MFD_CLOEXEC)
    with os.fdopen(fd, "wb+") as file:
        file.write(data)
        file.seek(0)
        yield file


def own_program(module: str, *words: str) -> list[str]:
    """Return the command that runs a module as a program, with this Python and this edgebench."""
    folder = str(Path(__file__).resolve().parents[1])
    return [sys.executable, "-c", _RUN_MODULE, folder, module, *words]


def installed_program(module: str, *words: str) -> list[str]:
    """Return the same for another machine.

    The words after its Python, which has edgebench installed.
    """
    return ["-c", _RUN_MODULE, "", module, *words]
