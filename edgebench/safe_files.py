"""Safe files: everything is made, replaced, renamed, removed and read by this module.

Root often writes into folders of other users: a sweep's folder under sudo, somebody's results. They
may have put a link there to make root write elsewhere. So:

* A folder is opened as :mod:`edgebench.safe_folders` says: no link that somebody else could have
  put there is followed.
* What is written to is a regular file with one name. A link, a FIFO, a socket, a device, a file
  with a second name (hard link) or of somebody else is refused: :class:`UnsafePathError`.
* In a folder of another user root makes, renames and removes names with that user's rights, so what
  is made is theirs and they gain nothing. Rights are the thread's own (``setfsuid``).
* Modes and owners are set on descriptors.
* Only regular files are read. A FIFO, a device, a socket or a folder is refused with an
  :class:`OSError` that says what it is; nothing waits for whoever writes to a FIFO.
* Root reads below a folder of another user with that user's rights, and follows a link there with
  those rights too: what the user may not read is not read for them
  (:func:`edgebench.safe_folders.open_place`).
* What is read whole has a limit: a sparse file takes no place on the disk, but would in memory.

Files of the kernel and of edgebench itself need none of this.

Every function raises UnsafePathError for what is refused, and OSError where the system refuses.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from edgebench.errors import MachineError, UnsafePathError
from edgebench.processes import Identity, caller_identity
from edgebench.safe_folders import (
    FOLDER_FLAGS,
    NO_LINK,
    OpenFolder,
    is_ours,
    is_own_place,
    open_folder,
    open_place,
    opened,
    with_path,
)
from edgebench.text import format_size

if TYPE_CHECKING:
    import zipfile


#: Ends the hidden name of a file or folder that is only half made.
PART = ".part"
_OWN_REMEDY = "see who may write to them: namei -l {path}; then: chmod go-w FOLDER"
_FILE_REMEDY = "see what it is and whose: ls -l {path}; then name another place, or remove it"


def _refused(path: Path, found: os.stat_result | None) -> UnsafePathError:
    if found is not None and stat.S_ISREG(found.st_mode):
        why = "it has a second name (a hard link)"
        if found.st_nlink <= 1:
            why = f"it belongs to somebody else (user {found.st_uid})"
    else:
        kinds = {stat.S_IFLNK: "a link", stat.S_IFIFO: "a FIFO", stat.S_IFDIR: "a folder"}
        kind = kinds.get(stat.S_IFMT(found.st_mode) if found else 0, "something else")
        why = f"{kind} lies in its place"
    return UnsafePathError(
        f"{path.name} is not written: {why}",
        where=str(path),
        remedy=_FILE_REMEDY.format(path=path),
    )


def open_file(path: Path, flags: int, mode: int = 0o666, *, owner: Identity | None = None) -> int:
    """Return a descriptor of a regular file to write to, made if need be; nothing else is opened.

    ``flags`` are those of :func:`os.open` but ``O_TRUNC``; with ``O_EXCL`` there must be no file.
    A new file belongs to the folder's owner; with ``owner`` to that user, with exactly that mode.
    """
    with open_folder(path.parent) as folder:
        try:
            with folder.rights():
                fd = os.open(path.name, flags | NO_LINK | os.O_NONBLOCK, mode, dir_fd=folder.fd)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
                raise _refused(path, folder.look(path.name)) from None
            raise
        try:
            found = os.fstat(fd)
            is_plain = stat.S_ISREG(found.st_mode) and found.st_nlink <= 1
            if not is_plain or found.st_uid not in (os.geteuid(), folder.found.st_uid):
                raise _refused(path, found)
            if owner:
                os.fchmod(fd, mode)
                os.fchown(fd, owner.uid, owner.gid)
        except BaseException:
            os.close(fd)
            raise
        return fd


def open_empty(path: Path, mode: int = 0o666, *, owner: Identity | None = None) -> int:
    """As :func:`open_file`: a descriptor of an empty file to write to, made or emptied."""
    fd = open_file(path, os.O_WRONLY | os.O_CREAT, mode, owner=owner)
    os.ftruncate(fd, 0)
    return fd


@contextlib.contextmanager
def created(path: Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Yield an empty file to write to, made or emptied. Not synced.

    What a kill leaves is half of it.
    """
    with os.fdopen(open_empty(path, mode), "wb") as file:
        yield file


def write(path: Path, data: bytes, mode: int = 0o666) -> None:
    """Write the file in place; a kill may leave half of it."""
    with created(path, mode) as file:
        file.write(data)


@contextlib.contextmanager
def replaced(path: Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Yield a file to write to that takes its name whole or not at all, even through a power cut.

    Whatever fails, nothing is left of the attempt and what was there stays.
    """
    with open_folder(path.parent) as folder:
        found = folder.look(path.name)
        if found and not (stat.S_ISREG(found.st_mode) and found.st_nlink <= 1):
            raise _refused(path, found)
        part = f".{path.name}.{os.urandom(4).hex()}{PART}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_LINK
        with folder.rights():
            fd = os.open(part, flags, mode, dir_fd=folder.fd)
        try:
            with os.fdopen(fd, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            with folder.rights():
                os.replace(part, path.name, src_dir_fd=folder.fd, dst_dir_fd=folder.fd)
        except BaseException:
            with contextlib.suppress(OSError), folder.rights():
                os.unlink(part, dir_fd=folder.fd)
            raise
        folder.sync()


def write_whole(path: Path, data: bytes, mode: int = 0o666) -> Path:
    """Put the file there whole or not at all, even through a power cut; its path.

    ``mode`` is narrowed by the umask: 0o600 for what only its owner may read.
    """
    with replaced(path, mode) as file:
        file.write(data)
    return path


def make_folder(path: Path, *, parents: bool = False, exist_ok: bool = True) -> None:
    """Make the folder if need be.

    It belongs to the owner of the folder it is in; under sudo, in one of root's, to the caller.
    """
    if parents and path.parent != path:
        try:
            with open_folder(path.parent):
                pass
        except FileNotFoundError:
            make_folder(path.parent, parents=True)
    with open_folder(path.parent) as folder:
        try:
            _make(folder, path.name or ".", caller_identity())
        except FileExistsError:
            if not exist_ok:
                raise
        else:
            return
    # No folder, or a link that may not be followed.
    with open_folder(path):
        pass


def make_private_folder(path: Path, *, reachable: bool = False) -> None:
    """Make a new folder that is ours alone; ``reachable``: others may pass through it."""
    with open_folder(path.parent) as folder:
        _make(folder, path.name, None, 0o711 if reachable else 0o700)


def is_own_folder(path: Path) -> bool:
    """Whether the folder is there; nobody but root and we could have put there what lies in it.

    Raises:
        UnsafePathError: others can put something into it, or into a folder above.
    """
    try:
        with open_folder(path) as folder:
            if folder.is_trusted:
                return True
    except FileNotFoundError:
        return False
    raise UnsafePathError(
        "other users can write to this folder, or to one above it",
        where=str(path),
        remedy=_OWN_REMEDY.format(path=path),
    )


def make_own_folder(path: Path) -> None:
    """Make the folder if need be, and those above it, ours alone even under sudo."""
    if not is_own_folder(path):
        make_own_folder(path.parent)
        with contextlib.suppress(FileExistsError):
            make_private_folder(path)


def _make(folder: OpenFolder, name: str, owner: Identity | None, mode: int | None = None) -> None:
    """Make it, with exactly that mode; in a folder that is root's alone, it is given the owner."""
    with folder.rights():
        os.mkdir(name, 0o777 if mode is None else mode, dir_fd=folder.fd)
    # Where others can put names, what is opened now may be another folder.
    if (owner or mode) and is_ours(folder.found):
        with opened(name, FOLDER_FLAGS, folder.fd) as fd:
            if mode is not None:
                os.fchmod(fd, mode)
            if owner:
                os.fchown(fd, owner.uid, owner.gid)


@contextlib.contextmanager
def _changeable(path: Path) -> Iterator[int]:
    """Yield the descriptor of the path's folder, with the rights to change names there."""
    with open_folder(path.parent) as folder, folder.rights():
        yield folder.fd


def rename(path: Path, name: str) -> None:
    """Give a file or folder another name in its folder; a file of that name is replaced."""
    with _changeable(path) as folder:
        os.rename(path.name, name, src_dir_fd=folder, dst_dir_fd=folder)


def remove_file(path: Path) -> None:
    """Take away a name, whatever it stands for but a folder; nothing where there is none."""
    with contextlib.suppress(FileNotFoundError), _changeable(path) as folder:
        os.unlink(path.name, dir_fd=folder)


def remove_folder(path: Path) -> None:
    """Take away a folder and all in it, as far as that can be; of a link in it, the link alone."""
    with (
        contextlib.suppress(OSError, UnsafePathError),
        open_folder(path.parent) as folder,
        folder.rights(),
    ):
        with opened(path.name, FOLDER_FLAGS, folder.fd) as top:
            while _remove_level(top):
                pass
        os.rmdir(path.name, dir_fd=folder.fd)


def _remove_level(top: int) -> bool:
    """Remove files and empty folders, and move what lies in other folders up; whether any went.

    So folders nested in any depth need neither a descriptor nor a call for each level.
    """
    has_removed = False
    for one, is_folder in _names(top):
        with contextlib.suppress(OSError):
            if is_folder:
                _empty_into(top, one)
                os.rmdir(one, dir_fd=top)
            else:
                os.unlink(one, dir_fd=top)
            has_removed = True
    return has_removed


def _empty_into(top: int, name: str) -> None:
    with opened(name, FOLDER_FLAGS, top) as fd:
        for one, is_folder in _names(fd):
            if is_folder:
                os.rename(one, os.urandom(16).hex(), src_dir_fd=fd, dst_dir_fd=top)
            else:
                os.unlink(one, dir_fd=fd)


def _names(fd: int) -> list[tuple[str, bool]]:
    """Name, and whether it is a folder, of all in a folder."""
    with os.scandir(fd) as entries:
        return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]


def remove_empty_folder(path: Path) -> None:
    """Take away a folder with nothing in it."""
    with _changeable(path) as folder:
        os.rmdir(path.name, dir_fd=folder)


def sync(path: Path) -> None:
    """Wait until the file, or the folder's list of names, is on the disk; else there is no need."""
    with open_folder(path.parent) as folder:
        try:
            with opened(path.name or ".", os.O_NONBLOCK | NO_LINK, folder.fd) as fd:
                mode = os.fstat(fd).st_mode
                if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
                    os.fsync(fd)
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.ENXIO):
                raise with_path(error, folder.path) from None


#: More than any file that edgebench writes and reads whole.
MOST_BYTES = 512 << 20
_MOST_TIMES = 100
_FLAGS = os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFDIR: "a folder",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def open_to_read(path: Path, *, links: bool = True) -> BinaryIO:
    """Return the regular file, open for reading; without ``links`` its name may be no link.

    Raises:
        OSError: no regular file, or not readable, for root by the owner of its folder.
    """
    if os.geteuid() != 0:
        return _regular(path, path, None, 0 if links else NO_LINK)
    try:
        with open_place(path, links=links) as (folder, name), folder.reading_rights():
            return _regular(path, name, folder.fd, NO_LINK)
    except OSError as error:
        # Not where a link leads: that is nobody's business.
        error.filename = str(path)
        raise


def _regular(path: Path, name: str | Path, folder: int | None, flags: int) -> BinaryIO:
    # Looked at first: a device may act when it is opened.
    _check(os.stat(name, dir_fd=folder, follow_symlinks=not flags), path)
    fd = os.open(name, os.O_RDONLY | _FLAGS | flags, dir_fd=folder)
    try:
        _check(os.fstat(fd), path)
        return os.fdopen(fd, "rb")
    except BaseException:
        os.close(fd)
        raise


def _check(found: os.stat_result, path: Path) -> None:
    if not stat.S_ISREG(found.st_mode):
        kind = _KINDS.get(stat.S_IFMT(found.st_mode), "something else")
        number = errno.EISDIR if stat.S_ISDIR(found.st_mode) else errno.EINVAL
        raise OSError(number, f"it is {kind}, not a file", str(path))


def read_file(path: Path, most: int = MOST_BYTES) -> bytes:
    """Return the file's bytes.

    Raises:
        OSError: as :func:`open_to_read`; or more than ``most`` bytes.
    """
    with open_to_read(path) as file:
        size = os.fstat(file.fileno()).st_size
        # It may grow meanwhile.
        data = file.read(most + 1) if size <= most else b""
    if max(size, len(data)) > most:
        what = f"it has {format_size(size)}; at most {format_size(most)} are read"
        raise OSError(errno.EFBIG, what, str(path))
    return data


def check_unpacked(member: zipfile.ZipInfo) -> None:
    """Check what a packed table stands for, before it is unpacked.

    Raises:
        ValueError: it is large and nearly nothing but repetitions, as no measured numbers are.
    """
    if member.file_size > max(MOST_BYTES, _MOST_TIMES * member.compress_size):
        raise ValueError(f"it unpacks to {format_size(member.file_size)}")


def read_text(path: Path, errors: str = "strict", most: int = MOST_BYTES) -> str:
    """Return the file's UTF-8 text, its lines ended by a line feed alone.

    Raises:
        OSError: as :func:`read_file`.
        UnicodeDecodeError: it is no such text.
    """
    return read_file(path, most).decode("utf-8", errors).replace("\r\n", "\n").replace("\r", "\n")


def read_end(path: Path, most: int) -> bytes:
    """Return the last ``most`` bytes of the file.

    Raises:
        OSError: as :func:`open_to_read`.
    """
    with open_to_read(path) as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - most))
        return file.read(most)


def real_path(path: str | os.PathLike[str]) -> Path:
    """Return the path without links; of a link to itself, at which ``Path.resolve`` raises, too."""
    return Path(os.path.realpath(path))


def walk(folder: Path) -> Iterator[tuple[Path, list[str]]]:
    """Yield the folder and all below it, parents first, each with the names of its files.

    Without recursion, which ``os.walk`` is before Python 3.12: a thousand nested folders end it.
    """
    left = [folder]
    for top in left:
        for _, folders, names in itertools.islice(os.walk(top), 1):
            yield top, names
            # Path.is_symlink raises where the path is too long.
            left += [top / one for one in folders if not os.path.islink(top / one)]  # noqa: PTH114


def state_home() -> Path:
    """Return the folder of our user's state: ``$XDG_STATE_HOME`` or ``~/.local/state``.

    Root's is no folder that another user can change: sudo may keep the variables of its caller.

    Raises:
        MachineError: the user's home is unknown.
    """
    uid, kept = os.geteuid(), Path(os.environ.get("XDG_STATE_HOME", ""))
    if kept.is_absolute() and (uid != 0 or is_own_place(kept)):
        return kept
    home = Path(os.environ.get("HOME", "") if uid != 0 else "")
    if not home.is_absolute():
        try:
            home = Path(pwd.getpwuid(uid).pw_dir)
        except KeyError:
            raise MachineError(
                f"user {uid} has no home", remedy="set XDG_STATE_HOME to a folder of your own"
            ) from None
    return home / ".local" / "state"
