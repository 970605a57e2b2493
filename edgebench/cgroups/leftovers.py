"""What a harness process has made, written down before it is made, so that it can be cleared.

Each harness process has one state file, locked for as long as it lives. The kernel frees the
lock when the process ends, however it ends: a state file that can be locked is a dead one's.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType

from edgebench.errors import MachineError

_SUFFIX = ".claims"
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
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise MachineError(
            f"what edgebench makes can't be written down: {error.strerror}",
            where=str(folder),
            remedy="set XDG_RUNTIME_DIR to a folder of your own",
        ) from error
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise MachineError(
            "others may write where edgebench keeps what it has made",
            where=str(folder),
            remedy=f"look what it is, then: rm -r {folder}",
        )
    return folder


def _new_file(folder: Path | None) -> tuple[int, Path]:
    while True:
        try:
            fd, name = tempfile.mkstemp(
                prefix=f"{os.getpid()}-", suffix=_NEW, dir=folder or state_folder()
            )
        except FileNotFoundError:
            # Another harness ended at this moment and took the empty folder away.
            if folder:
                raise
        else:
            return fd, Path(name)


def _locked_file(folder: Path | None) -> tuple[int, Path]:
    """A state file that nobody may find unlocked: it gets its name only once it is locked."""
    while True:
        fd, new = _new_file(folder)
        fcntl.flock(fd, fcntl.LOCK_EX)
        path = new.with_suffix(_SUFFIX)
        try:
            new.rename(path)
        except FileNotFoundError:
            # Another harness, starting too, took it for a dead one's before it was locked.
            os.close(fd)
        else:
            return fd, path


class Ownership:
    """What this process has made and not yet taken away. A context manager."""

    def __init__(self, folder: Path | None = None) -> None:
        self._fd, self.path = _locked_file(folder)
        self._folder_is_ours = folder is None
        self._at_end = contextlib.ExitStack()

    def claim(self, kind: str, value: str) -> None:
        """Write down what is about to be made: before it is made, not after.

        Args:
            kind: ``cgroup``, ``swap-file``, ``zram`` or ``temp-folder``.
            value: its path.

        Raises:
            MachineError: it can't be written down, so it must not be made.
        """
        try:
            self._write("claim", kind, value)
        except OSError as error:
            raise MachineError(
                f"what edgebench makes can't be written down: {error.strerror}",
                where=str(self.path),
                remedy="free some space there",
            ) from error

    def release(self, kind: str, value: str) -> None:
        """Write down that it is gone; if that can't be, clearing will find it gone."""
        with contextlib.suppress(OSError):
            self._write("release", kind, value)

    def at_end(self, undo: Callable[[], None]) -> None:
        """Call this at the end, once all that was claimed is gone; the last first."""
        self._at_end.callback(undo)

    def _write(self, verb: str, kind: str, value: str) -> None:
        # A line of its own even after one that a full disk has cut.
        line = f"\n{json.dumps([verb, kind, value])}\n".encode()
        if os.write(self._fd, line) < len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def close(self) -> None:
        """Take away what is still claimed, then the state file. Safe to call twice."""
        if self._fd < 0:
            return
        fd, self._fd = self._fd, -1
        try:
            clear_claims(self.path)
            self._at_end.close()
        finally:
            os.close(fd)
            if self._folder_is_ours:
                # Only the last one out finds it empty.
                with contextlib.suppress(OSError):
                    self.path.parent.rmdir()

    def __enter__(self) -> Ownership:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def clear_leftovers(folder: Path | None = None) -> list[str]:
    """Take away what dead harness processes left, and only that; a sentence for each thing.

    Raises:
        MachineError: something of theirs can't be taken away (says how to do it by hand).
    """
    folder = folder or state_folder()
    sentences = []
    for path in sorted(folder.glob(f"*{_SUFFIX}")):
        with _locked(path) as ours:
            if ours:
                sentences += clear_claims(path)
    for path in folder.glob(f"*{_NEW}"):
        with _locked(path) as ours:
            if ours:
                # Its process died before it could claim anything.
                path.unlink(missing_ok=True)
    return sentences


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[bool]:
    """Whether the state file is a dead one's; held while its things are cleared."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        yield False
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Another start may have cleared it between our open and our lock.
        ours = os.fstat(fd).st_nlink > 0
    except BlockingIOError:
        ours = False
    try:
        yield ours
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
    """Take away all that a state file claims, then the file; a sentence for each thing.

    Raises:
        MachineError: something can't be taken away; the state file then stays.
    """
    from edgebench.cgroups.clearing import CLEARERS

    held = claims(path)
    sentences = []
    # Processes first: they hold swap and files.
    for kind, clear in CLEARERS.items():
        for value in (value for held_kind, value in held if held_kind == kind):
            if sentence := clear(Path(value)):
                sentences.append(sentence)
    path.unlink(missing_ok=True)
    return sentences
