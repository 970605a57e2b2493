"""Records what a harness process makes or changes, and undoes it, also after a crash.

Each harness process has one state file, which it keeps locked. The kernel frees the lock when the
process ends, however it ends: a state file that can be locked belongs to a process that ended.

What several harnesses may change at once (the controllers of a cgroup) is claimed by each of them,
with the state before the first change. The last one restores it.

The paths may come from a state file that only its owner can write; still nothing is touched that
lacks edgebench's name or is of another kind.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from edgebench.cgroups.files import lift_disk_limits, unified_files
from edgebench.cgroups.interface import remove_all
from edgebench.errors import MachineError
from edgebench.safe_files import (
    PART,
    make_private_folder,
    open_file,
    remove_empty_folder,
    remove_file,
    remove_folder,
    rename,
    write,
)
from edgebench.swap_areas import read_swap_areas

_SUFFIX = ".claims"
#: Until its process has locked it.
_NEW = ".new"
#: How state files name what several harnesses may change: the controllers of a cgroup.
CONTROLLERS = "controllers"
#: The leaf cgroup of version 2 that harnesses are in while trials run.
LEAF = "edgebench-harness"
#: Between attempts at what may be busy for a moment: swap off, unmount, restore a cgroup.
_SWAP_PAUSES_S = (0.2, 0.5, 1.0, 2.0)
_MOUNT_PAUSES_S = (0.1, 0.5, 2.0)
_CGROUP_PAUSES_S = (0.001, 0.01, 0.1, 1.0)


def state_folder() -> Path:
    """Find the folder of state files: ``/run/edgebench`` for root, else in the runtime folder.

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
    status = folder.lstat()
    is_folder, uid = stat.S_ISDIR(status.st_mode), status.st_uid
    if not is_folder or uid != os.geteuid() or status.st_mode & 0o022:
        raise MachineError(
            "other users can write to the folder of edgebench's state files",
            where=str(folder),
            remedy=f"check what is in it, then: rm -r {folder}",
        )
    return folder


def _locked_file(folder: Path | None) -> tuple[int, Path]:
    """Make a state file that nobody may find unlocked: it gets its name only once it is locked."""
    while True:
        name = f"{os.getpid()}-{os.urandom(4).hex()}{_NEW}"
        try:
            new = (folder or state_folder()) / name
            fd = open_file(new, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        except FileNotFoundError:
            # Another harness ended at this moment and removed the empty folder.
            if folder:
                raise
            continue
        fcntl.flock(fd, fcntl.LOCK_EX)
        path = new.with_suffix(_SUFFIX)
        try:
            rename(new, path.name)
        except FileNotFoundError:
            # Another harness, starting too, removed it as abandoned before it was locked.
            os.close(fd)
        else:
            return fd, path


class Ownership:
    """What this process has created and not yet removed. A context manager.

    Raises:
        MachineError: nothing can be recorded.
    """

    def __init__(self, folder: Path | None = None) -> None:
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
    def share(self, cgroup: Path, before: Callable[[], str]) -> Iterator[None]:
        """Claim a cgroup's controllers; all harnesses wait within the block.

        Args:
            cgroup: its folder.
            before: reads which are on, where no other harness has changed them yet.
        """
        with _all_waiting(self.path.parent):
            known = _state_before(self.path.parent, cgroup)
            self.claim(CONTROLLERS, f"{cgroup}={before() if known is None else known}")
            yield

    def restore(self, cgroup: Path) -> None:
        """Restore what :meth:`share` claimed, unless another harness still uses it."""
        with _all_waiting(self.path.parent):
            for value in _shared(self.path, cgroup):
                _restore(self.path, cgroup, value)
                self.release(CONTROLLERS, f"{cgroup}={value}")

    def harness_pids(self) -> tuple[int, ...]:
        """List the processes of all harnesses with a state file in the folder of this one."""
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
    """Clean up what crashed harness processes left, nothing else; return a sentence for each.

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
    """List what a state file's process had claimed and not released, in the order of claiming."""
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
    """Remove all that a state file claims, then the file; return a sentence for each thing.

    Raises:
        MachineError: something can't be removed; the state file then stays.
    """
    held = claims(path)
    sentences = []
    # A cgroup of version 1 has a folder for memory and another for its disks.
    for kind, value in held:
        if kind == "cgroup" and _is_edgebenchs(Path(value)):
            # A process that was killed while it waits for a held disk ends at once.
            lift_disk_limits(Path(value))
    # Processes first: they hold swap and files.
    for kind, clear in CLEARERS.items():
        for value in (value for held_kind, value in held if held_kind == kind):
            if sentence := clear(Path(value)):
                sentences.append(sentence)
    with _all_waiting(path.parent):
        for kind, value in held:
            if kind == CONTROLLERS:
                cgroup, _, before = value.rpartition("=")
                if sentence := _restore(path, Path(cgroup), before):
                    sentences.append(sentence)
        remove_file(path)
    return sentences


@contextlib.contextmanager
def _all_waiting(folder: Path) -> Iterator[None]:
    """Have all harnesses of this folder wait for the block; one killed in it frees them."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _shared(path: Path, cgroup: Path) -> list[str]:
    pairs = (value.rpartition("=")[::2] for kind, value in claims(path) if kind == CONTROLLERS)
    return [before for name, before in pairs if name == str(cgroup)]


def _state_before(folder: Path, cgroup: Path, without: Path | None = None) -> str | None:
    """Find the state before the first harness changed it; None where no state file claims it."""
    for path in sorted(folder.glob(f"*{_SUFFIX}")):
        with contextlib.suppress(FileNotFoundError):
            if path != without and (states := _shared(path, cgroup)):
                return states[0]
    return None


def _restore(path: Path, cgroup: Path, before: str) -> str | None:
    """Restore the state unless another state file claims it; return a sentence on a change."""
    if _state_before(path.parent, cgroup, without=path) is not None:
        return None
    return restore_controllers(cgroup, before)


def run_tool(words: Sequence[str], remedy: str, where: Path | None = None) -> str:
    """Run a tool of the system's; return what it prints.

    Raises:
        MachineError: it is not on this machine, or it failed: with its own words and ``remedy``.
    """
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise MachineError(
            f"{words[0]} is not on this machine",
            remedy=f"apt-get install util-linux mount e2fsprogs, or {remedy}",
        ) from error
    if done.returncode:
        what = f"{words[0]} failed: {done.stderr.strip()}"
        raise MachineError(what, where=str(where) if where else None, remedy=remedy)
    return done.stdout


def clear_cgroup(path: Path) -> str | None:
    """Kill the processes of edgebench's cgroup and remove it; None if it is gone."""
    if not _is_edgebenchs(path) or not (path / "cgroup.procs").exists():
        return None
    remove_all([path])
    return f"removed the cgroup {path}"


def clear_swap_file(path: Path) -> str | None:
    """Swap edgebench's file off and delete it; None if it is gone."""
    if not _is_edgebenchs(path) or not path.exists() or not stat.S_ISREG(path.lstat().st_mode):
        return None
    swap_off(path)
    remove_file(path)
    return f"removed the swap file {path}"


def clear_zram(path: Path) -> str | None:
    """Swap edgebench's zram device off and remove it; None if it is gone."""
    block = Path("/sys/block") / path.name
    if not path.name.startswith("zram") or not block.exists():
        return None
    swap_off(path)
    (block / "reset").write_text("1")
    remove = Path("/sys/class/zram-control/hot_remove")
    if remove.exists():
        remove.write_text(path.name.removeprefix("zram"))
    return f"removed the swap device {path}"


def swap_off(path: Path) -> None:
    """Swap one area off, if it is on.

    Raises:
        MachineError: the kernel refuses again and again, usually because too little memory is free
            for the pages.
    """
    words, remedy = ["swapoff", str(path)], f"free some memory, then: swapoff {path}"
    if path in (read_swap_areas() or {}):
        # Memory that an ended trial held may still be on its way back to the kernel.
        _retry(lambda: run_tool(words, remedy, path), _SWAP_PAUSES_S)


def _retry(attempt: Callable[[], object], pauses_s: Sequence[float]) -> None:
    """Try it once more after each pause; the last error remains."""
    for pause_s in pauses_s:
        try:
            attempt()
        except MachineError:
            time.sleep(pause_s)
        else:
            return
    attempt()


def clear_ram_disk(folder: Path) -> str | None:
    """Unmount edgebench's disk in memory and free it; None if it is gone.

    Raises:
        MachineError: something still uses it.
    """
    if not folder.name.startswith("edgebench-ram-disk-") or folder.is_symlink():
        return None
    if not folder.is_dir():
        return None
    _unmount(folder / "disk")
    if (file := folder / "memory" / "disk").is_file():
        # A process that began meanwhile with mounts of its own may keep the device: without memory.
        write(file, b"")
    for loop in Path("/sys/block").glob("loop*/loop/backing_file"):
        if os.fsdecode(loop.read_bytes().strip()) == str(file):
            device = f"/dev/{loop.parent.parent.name}"
            run_tool(["losetup", "--detach", device], f"losetup --detach {device}")
    _unmount(folder / "memory", "--lazy")
    remove_folder(folder)
    return f"removed the disk in memory {folder}"


def _unmount(folder: Path, *how: str) -> None:
    words, remedy = ["umount", *how, str(folder)], f"end what uses it, then: umount {folder}"
    # Mounts may be stacked.
    while folder.is_mount():
        _retry(lambda: run_tool(words, remedy), _MOUNT_PAUSES_S)


def clear_temp_folder(path: Path) -> str | None:
    """Delete edgebench's temporary folder; None if it is gone."""
    if not _is_edgebenchs(path) or path.is_symlink() or not path.is_dir():
        return None
    remove_folder(path)
    return f"removed the temporary folder {path}"


def _is_edgebenchs(path: Path) -> bool:
    return path.is_absolute() and path.name.startswith("edgebench-") and ".." not in path.parts


def restore_controllers(folder: Path, before: str) -> str | None:
    """Restore a cgroup of version 2 once no harness uses it; return a sentence if that changed it.

    All that is in the leaf goes back: those moved may have started others meanwhile.
    """
    # A harness of another user has its claims elsewhere.
    has_trials = any(path.name != LEAF for path in folder.glob("edgebench-*/"))
    if has_trials or not (folder / "cgroup.procs").exists():
        return None
    files, leaf = unified_files(folder), folder / LEAF
    earlier = set(before.split(","))
    surplus = sorted(set(files.subtree_control) - earlier)
    for pause_s in _CGROUP_PAUSES_S:
        try:
            # Without them the cgroup lets processes in again.
            for name in sorted(set(files.subtree_control) - earlier):
                files.subtree_control = f"-{name}"
            if leaf.exists():
                for pid in own_pids(leaf):
                    move_process(pid, folder)
                leaf.rmdir()
        except OSError:
            # Busy for an instant after the last process has gone.
            time.sleep(pause_s)
        else:
            break
    return f"switched {', '.join(surplus)} off in {folder}" if surplus else None


def own_pids(folder: Path) -> tuple[int, ...]:
    """List the processes in the cgroup itself, not below it."""
    return tuple(int(line) for line in (folder / "cgroup.procs").read_bytes().split())


def move_process(pid: int, folder: Path) -> None:
    """Move a process into the cgroup, if that is allowed and it still lives."""
    # Enabling the controllers shows whether it matters.
    with contextlib.suppress(OSError):
        (folder / "cgroup.procs").write_text(str(pid))


#: Kind → how it is removed, in the order in which that must be done.
CLEARERS: dict[str, Callable[[Path], str | None]] = {
    "cgroup": clear_cgroup,
    "swap-file": clear_swap_file,
    "zram": clear_zram,
    # Once no swap is on it.
    "ram-disk": clear_ram_disk,
    "temp-folder": clear_temp_folder,
}
