"""Records what a harness process creates, so that the next one can remove it after a crash.

Each harness process has one state file, which it keeps locked. The kernel frees the lock when the
process ends, however it ends: a state file that can be locked belongs to a process that ended.

What several harnesses may change at once (a value of the kernel, the controllers of a cgroup) is
claimed by each of them, with the state before the first change. The last one restores it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import resource
import secrets
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from edgebench.cgroups.cleanup import CLEARERS, RESTORERS, lift_limits
from edgebench.errors import MachineError
from edgebench.safe_files import (
    PART,
    make_private_folder,
    open_file,
    remove_empty_folder,
    remove_file,
    rename,
)

_SUFFIX = ".claims"
#: A trial opens up to 30 at a time; the rest is for clearing up.
_LEAST_DESCRIPTORS = 64
#: Until its process has locked it.
_NEW = ".new"


def state_folder() -> Path:
    """Where state files are: ``/run/edgebench`` for root, else the user's own runtime folder.

    Raises:
        MachineError: the folder is somebody else's, or can't be made.
    """
    if os.geteuid() == 0:
        folder = Path("/run/edgebench")
    elif runtime := os.environ.get("XDG_RUNTIME_DIR"):
        folder = Path(runtime) / "edgebench"
    else:
        folder = Path(tempfile.gettempdir()) / f"edgebench-state-{os.geteuid()}"
    try:
        with contextlib.suppress(FileExistsError):
            make_private_folder(folder)
    except OSError as error:
        raise MachineError(
            f"can't record what edgebench creates: {error.strerror}",
            where=str(folder),
            remedy="set XDG_RUNTIME_DIR to a folder of your own",
        ) from error
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise MachineError(
            "other users can write to the folder of edgebench's state files",
            where=str(folder),
            remedy=f"check what is in it, then: rm -r {folder}",
        )
    return folder


def _new_file(folder: Path | None) -> tuple[int, Path]:
    while True:
        try:
            name = f"{os.getpid()}-{secrets.token_hex(4)}{_NEW}"
            path = (folder or state_folder()) / name
            fd = open_file(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        except FileNotFoundError:
            # Another harness ended at this moment and removed the empty folder.
            if folder:
                raise
        else:
            return fd, path


def _locked_file(folder: Path | None) -> tuple[int, Path]:
    """A state file that nobody may find unlocked: it gets its name only once it is locked."""
    while True:
        fd, new = _new_file(folder)
        fcntl.flock(fd, fcntl.LOCK_EX)
        path = new.with_suffix(_SUFFIX)
        try:
            rename(new, path.name)
        except FileNotFoundError:
            # Another harness, starting too, removed it as abandoned before it was locked.
            os.close(fd)
        else:
            return fd, path


def check_descriptors() -> None:
    """Check that enough files can be opened for a trial, and to remove all that was created for it.

    Raises:
        MachineError: too few; says how to allow more.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        free = max(0, limit - len(list(Path("/proc/self/fd").iterdir())))
    except OSError:
        free = 0
    if free < _LEAST_DESCRIPTORS:
        raise MachineError(
            f"a trial needs {_LEAST_DESCRIPTORS} open files, and only {free} more can be opened",
            remedy="ulimit -n 1024",
        )


class Ownership:
    """What this process has created and not yet removed. A context manager.

    Raises:
        MachineError: nothing can be recorded, or too few files can be opened.
    """

    def __init__(self, folder: Path | None = None) -> None:
        check_descriptors()
        self._fd, self.path = _locked_file(folder)
        self._may_remove_folder = folder is None

    def claim(self, kind: str, value: str) -> None:
        """Record what is about to be created, before it is created.

        Args:
            kind: ``cgroup``, ``swap-file``, ``zram``, ``ram-disk`` or ``temp-folder``; what
                harnesses share is claimed by :meth:`share`.
            value: its path.

        Raises:
            MachineError: it can't be written down, so it must not be made.
        """
        try:
            self._write("claim", kind, value)
        except OSError as error:
            raise MachineError(
                f"can't record what edgebench creates: {error.strerror}",
                where=str(self.path),
                remedy="free some space there",
            ) from error

    def release(self, kind: str, value: str) -> None:
        """Record that it is removed; if that fails, cleaning up will find it gone."""
        with contextlib.suppress(OSError):
            self._write("release", kind, value)

    @contextlib.contextmanager
    def share(self, kind: str, target: Path, before: Callable[[], str]) -> Iterator[bool]:
        """Claim what other harnesses may have changed too; all of them wait within the block.

        Args:
            kind: one of :data:`~edgebench.cgroups.cleanup.RESTORERS`.
            target: the file or folder to be changed.
            before: reads the state to restore, where no other harness has changed it yet.

        Yields:
            Whether another harness has changed it.
        """
        with _all_waiting(self.path.parent):
            known = _state_before(self.path.parent, kind, target)
            value = before() if known is None else known
            self.claim(kind, f"{target}={value}")
            yield known is not None

    def restore(self, kind: str, target: Path) -> None:
        """Restore what :meth:`share` claimed, unless another harness still uses it."""
        with _all_waiting(self.path.parent):
            for value in _shared(self.path, kind, target):
                _restore(self.path, kind, target, value)
                self.release(kind, f"{target}={value}")

    def harness_pids(self) -> tuple[int, ...]:
        """The processes of all harnesses that have a state file beside this one, it included."""
        first = (path.name.partition("-")[0] for path in self.path.parent.glob(f"*{_SUFFIX}"))
        return tuple(int(word) for word in first if word.isdecimal())

    def _write(self, verb: str, kind: str, value: str) -> None:
        # A line of its own even after one that a full disk has cut.
        line = f"\n{json.dumps([verb, kind, value])}\n".encode()
        if os.write(self._fd, line) < len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def close(self) -> None:
        """Remove what is still claimed, then the state file. Safe to call twice."""
        if self._fd < 0:
            return
        fd, self._fd = self._fd, -1
        try:
            clear_claims(self.path)
        finally:
            os.close(fd)
            if self._may_remove_folder:
                # Only the last harness finds it empty.
                with contextlib.suppress(OSError):
                    remove_empty_folder(self.path.parent)

    def __enter__(self) -> Ownership:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def clear_leftovers(folder: Path | None = None) -> list[str]:
    """Clean up what crashed harness processes left, nothing else; a sentence for each thing.

    Raises:
        MachineError: something of theirs can't be removed (says how to do it by hand).
    """
    folder = folder or state_folder()
    sentences = []
    for path in sorted(folder.glob(f"*{_SUFFIX}")):
        with _locked(path) as abandoned:
            if abandoned:
                sentences += clear_claims(path)
    for path in folder.glob(f"*{_NEW}"):
        with _locked(path) as abandoned:
            if abandoned:
                # Its process died before it could claim anything.
                remove_file(path)
    clear_token_files(folder)
    return sentences


def clear_token_files(folder: Path) -> None:
    """Remove the tokens of servers that were killed: each keeps its file locked while it runs."""
    for path in folder.glob("serve-*.token"):
        if path.is_symlink():
            continue
        with _locked(path) as abandoned:
            if abandoned:
                remove_file(path)
    for path in folder.glob(f".serve-*{PART}"):
        remove_file(path)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[bool]:
    """Whether the file's process has ended; locked while its things are removed."""
    try:
        fd = open_file(path, os.O_RDWR)
    except FileNotFoundError:
        yield False
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Another start may have cleared it before it was locked here.
        abandoned = os.fstat(fd).st_nlink > 0
    except BlockingIOError:
        abandoned = False
    try:
        yield abandoned
    finally:
        os.close(fd)


def claims(path: Path) -> list[tuple[str, str]]:
    """What a state file's process had claimed and not released, in the order of claiming."""
    held: dict[tuple[str, str], None] = {}
    for line in path.read_bytes().splitlines():
        try:
            verb, kind, value = map(str, json.loads(line))
        except (ValueError, TypeError, RecursionError):
            # The process died while writing: it had made nothing of that line yet.
            continue
        if verb == "claim":
            held[kind, value] = None
        else:
            held.pop((kind, value), None)
    return list(held)


def clear_claims(path: Path) -> list[str]:
    """Remove all that a state file claims, then the file; a sentence for each thing.

    Raises:
        MachineError: something can't be removed; the state file then stays.
    """
    held = claims(path)
    sentences = []
    # A cgroup of version 1 has a folder for memory and another for its disks.
    for kind, value in held:
        if kind == "cgroup":
            lift_limits(Path(value))
    # Processes first: they hold swap and files.
    for kind, clear in CLEARERS.items():
        for value in (value for held_kind, value in held if held_kind == kind):
            if sentence := clear(Path(value)):
                sentences.append(sentence)
    with _all_waiting(path.parent):
        for kind, value in held:
            if kind in RESTORERS:
                target, _, before = value.rpartition("=")
                if sentence := _restore(path, kind, Path(target), before):
                    sentences.append(sentence)
        remove_file(path)
    return sentences


@contextlib.contextmanager
def _all_waiting(folder: Path) -> Iterator[None]:
    """All harnesses of this folder wait for the block; one that is killed in it frees them."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _shared(path: Path, kind: str, target: Path) -> list[str]:
    """The states before a change that a state file claims for this target."""
    pairs = (value.rpartition("=")[::2] for held, value in claims(path) if held == kind)
    return [before for name, before in pairs if name == str(target)]


def _state_before(folder: Path, kind: str, target: Path, without: Path | None = None) -> str | None:
    """The state before the first harness changed it; None where no state file claims it."""
    for path in sorted(folder.glob(f"*{_SUFFIX}")):
        with contextlib.suppress(FileNotFoundError):
            if path != without and (found := _shared(path, kind, target)):
                return found[0]
    return None


def _restore(path: Path, kind: str, target: Path, before: str) -> str | None:
    """Restore the state, unless another state file claims it too; a sentence if that changed it."""
    if _state_before(path.parent, kind, target, without=path) is not None:
        return None
    return RESTORERS[kind](target, before)
