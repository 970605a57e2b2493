"""Folders opened safely, by descriptors; and the one that keeps our user's state.

A path is walked folder by folder. A symbolic link on the way is followed only where nobody but root
and the user we run as could have put it: it is theirs, in a folder of theirs that others can't
write to, and so is each folder above. Below the first folder of anybody else no link is followed.
The last name is never followed.

What root reads below a folder of somebody else is read with their rights (:func:`open_place`). A
link is followed there too, by name, with the rights of whoever could have put it there.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import pwd
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from edgebench.errors import UnsafePathError

NO_LINK = os.O_NOFOLLOW | os.O_CLOEXEC
FOLDER_FLAGS = os.O_DIRECTORY | NO_LINK
#: As many links as the kernel itself follows.
_MOST_LINKS = 40
_LINK_REMEDY = "name the folder itself: {target}"
#: The number of the system call ``setgroups`` by machine (64 bits).
_SET_GROUPS = {"x86_64": 116, **dict.fromkeys(("aarch64", "riscv64", "loongarch64"), 159)}
#: A group without members, as the kernel has it for what it can't map.
_NO_GROUP = 65534


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


@dataclass(frozen=True)
class OpenFolder:
    """An open folder. ``is_trusted``: only root and we could have put here what lies in it.

    ``reader`` is the user and group by whose link it was reached, to read what lies in it.
    """

    fd: int
    path: Path
    is_trusted: bool
    reader: tuple[int, int] | None = None

    @property
    def found(self) -> os.stat_result:
        """Its owner and mode."""
        return os.fstat(self.fd)

    @contextlib.contextmanager
    def rights(self) -> Iterator[None]:
        """Take the rights of the folder's owner, for as long as it takes to change a name in it."""
        found = self.found
        try:
            with rights_of(found.st_uid, found.st_gid):
                yield
        except OSError as error:
            raise with_path(error, self.path) from None

    def reading_rights(self) -> contextlib.AbstractContextManager[None]:
        """Return the rights to read what lies in it: of whose link led here, else of its owner."""
        found = self.found
        return rights_of(*(self.reader or (found.st_uid, found.st_gid)))

    def sync(self) -> None:
        """Wait until its list of names is on the disk."""
        with opened(".", FOLDER_FLAGS, self.fd) as fd:
            os.fsync(fd)

    def look(self, name: str) -> os.stat_result | None:
        """Return what lies there, not followed; None where nothing does."""
        try:
            return os.stat(name, dir_fd=self.fd, follow_symlinks=False)
        except FileNotFoundError:
            return None


@contextlib.contextmanager
def opened(name: str, flags: int, folder: int) -> Iterator[int]:
    """Yield a descriptor to read what lies in the folder of that descriptor; closed at the end."""
    fd = os.open(name, os.O_RDONLY | flags, dir_fd=folder)
    try:
        yield fd
    finally:
        os.close(fd)


def with_path(error: OSError, folder: Path) -> OSError:
    """Return the error with the whole path: who uses a descriptor names files in it alone."""
    if isinstance(error.filename, str):
        error.filename = str(folder / error.filename)
    return error


@contextlib.contextmanager
def open_folder(path: Path) -> Iterator[OpenFolder]:
    """Yield the folder to write in, opened name by name."""
    walk = _Walk(path, reading=False)
    try:
        while walk.names:
            walk.enter()
        yield walk.folder
    finally:
        os.close(walk.folder.fd)


@contextlib.contextmanager
def open_place(path: Path, *, links: bool = True) -> Iterator[tuple[OpenFolder, str]]:
    """Where a path that is read leads: a folder, opened name by name, and a name in it.

    With ``links`` the name is none of a link: where it leads is walked too.

    Raises:
        PermissionError: a link on the way, and it is unknown whose rights it deserves.
    """
    walk = _Walk(path, reading=True)
    try:
        while len(walk.names) > 1 or (links and walk.names and walk.at_link()):
            walk.enter()
        yield walk.folder, walk.names[0] if walk.names else "."
    finally:
        os.close(walk.folder.fd)


class _Walk:
    """A path on the way: the folder that was reached, and the names to go, the next one last."""

    def __init__(self, path: Path, *, reading: bool) -> None:
        top = "/" if path.is_absolute() else "."
        self.folder = _opened(top, None, Path(top))
        self.names = list(reversed(path.parts[1:] if path.is_absolute() else path.parts))
        self._reading = reading
        self._links = 0

    def at_link(self) -> bool:
        """Whether the next name is a link."""
        with self._rights():
            found = self.folder.look(self.names[-1])
        return found is not None and stat.S_ISLNK(found.st_mode)

    def enter(self) -> None:
        """Open the folder of the next name, or put the names that a link stands for in its place.

        Raises:
            UnsafePathError: a link that may not be followed, on the way to write.
            PermissionError: the same, on the way to read.
        """
        name, folder = self.names.pop(), self.folder
        try:
            with self._rights():
                below = _opened(name, folder, folder.path / name)
        except NotADirectoryError:
            self._links += 1
            self.names += reversed(self._target(name).parts)
        except OSError as error:
            raise with_path(error, folder.path) from None
        else:
            os.close(folder.fd)
            self.folder = below

    def _rights(self) -> contextlib.AbstractContextManager[None]:
        return self.folder.reading_rights() if self._reading else contextlib.nullcontext()

    def _target(self, name: str) -> Path:
        """Where a link leads that may be followed."""
        folder = self.folder
        with self._rights():
            found = folder.look(name)
            if found is None or not stat.S_ISLNK(found.st_mode):
                raise _system_error(errno.ENOTDIR, folder.path / name)
            if self._links > _MOST_LINKS:
                raise _system_error(errno.ELOOP, folder.path / name)
            if not folder.is_trusted or found.st_uid not in (0, os.geteuid()):
                self.folder = self._followed(name, found)
            return Path(os.readlink(name, dir_fd=folder.fd))

    def _followed(self, name: str, link: os.stat_result) -> OpenFolder:
        """Return the folder, with the reader that somebody else's link in it deserves."""
        folder, path = self.folder, self.folder.path / name
        if not self._reading:
            raise UnsafePathError(
                "a link lies on the way, and somebody else could have put it there",
                where=str(path),
                remedy=_LINK_REMEDY.format(target=os.path.realpath(path)),
            )
        owner = folder.found
        # Others may have renamed a link in a folder of root's that they can write to.
        maker = link if folder.is_trusted else owner
        reader = folder.reader or (maker.st_uid, maker.st_gid)
        of_one = link.st_uid == maker.st_uid == reader[0] != 0
        # The kernel's own links lead past the folders on the way to a file.
        if not of_one or owner.st_dev == Path("/proc").stat().st_dev:
            raise PermissionError(
                errno.EACCES, "a link that somebody else could have put there", str(path)
            )
        return replace(folder, reader=reader)


def _system_error(number: int, path: Path) -> OSError:
    return OSError(number, os.strerror(number), str(path))


def _opened(name: str, parent: OpenFolder | None, path: Path) -> OpenFolder:
    """One folder, not followed; an absolute name starts anew."""
    above = parent if name != "/" else None
    fd = os.open(name, os.O_PATH | FOLDER_FLAGS, dir_fd=above.fd if above else None)
    trusted = is_ours(os.fstat(fd)) and (above is None or above.is_trusted)
    return OpenFolder(fd, path, trusted, parent.reader if parent else None)


def is_ours(found: os.stat_result) -> bool:
    """Whether only root and we can put names there, or (in ``/tmp``) take ours away."""
    others = stat.S_IWOTH | (stat.S_IWGRP if os.geteuid() == 0 else 0)
    shared = found.st_mode & others and not found.st_mode & stat.S_ISVTX
    return found.st_uid in (0, os.geteuid()) and not shared


def is_own_place(path: Path) -> bool:
    """Whether only root and we decide what lies at that path, or will lie there."""
    try:
        with open_folder(path) as folder:
            return folder.is_trusted
    except FileNotFoundError:
        # Whoever can make it decides, also in a folder like ``/tmp``.
        above = path.parent
        shared = above.exists() and above.stat().st_mode & stat.S_IWOTH
        return not shared and is_own_place(above)
    except NotADirectoryError:
        try:
            found = path.lstat()
        except NotADirectoryError:
            # Below a file nothing can lie while that file is there.
            return is_own_place(path.parent)
        own = found.st_uid in (0, os.geteuid()) and not found.st_mode & 0o022
        return own and is_own_place(path.parent)
    except (OSError, UnsafePathError):
        return False
