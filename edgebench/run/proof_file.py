"""A file on a disk whose speed is to be proved: a temporary one, else one that is there."""

from __future__ import annotations

import itertools
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from edgebench.boards.storage import AS_IS_REMEDY
from edgebench.cgroups.leftovers import Ownership
from edgebench.errors import MachineError
from edgebench.measures.machine.disks import whole_disk
from edgebench.measures.machine.system_files import SystemFiles, UnreadableError
from edgebench.safe_files import created, make_private_folder, remove_folder
from edgebench.safe_folders import walk
from edgebench.units import MIB, format_size

#: Larger than a disk's own buffer, and soon written.
_SIZE_BYTES = 64 * MIB
_LEAST_BYTES = 4 * MIB
#: A home folder may hold millions.
_MOST_FILES = 20_000


@contextmanager
def proof_file(
    machine: SystemFiles,
    ownership: Ownership,
    number: str,
    place: Path,
    folders: Sequence[Path],
    *,
    writes: bool,
) -> Iterator[Path]:
    """Yield a file on the disk of that number, for the time of a proof.

    Args:
        machine: the machine's files.
        ownership: records the temporary file before it is made.
        number: the disk's, ``MAJOR:MINOR``.
        place: a file or folder on it.
        folders: where a temporary file may be made, if that disk is below one of them.
        writes: whether the proof overwrites the file.

    Raises:
        UnreadableError: no file on that disk can be used; says why.
        MachineError: the temporary file can't be written.
    """
    for folder in folders:
        if _is_on(machine, folder, number):
            with _temporary(ownership, folder) as file:
                yield file
            return
    if writes:
        raise UnreadableError(
            f"its writes can't be proved: temporary files are made in {folders[0]}, on another disk"
        )
    # A swap partition is read as it is.
    found = place if place.is_block_device() else _largest(place)
    if found is None:
        raise UnreadableError(f"no file of {format_size(_LEAST_BYTES)} is there to prove it with")
    yield found


def _is_on(machine: SystemFiles, folder: Path, number: str) -> bool:
    try:
        return whole_disk(machine, folder).number == number
    except UnreadableError:
        return False


@contextmanager
def _temporary(ownership: Ownership, place: Path) -> Iterator[Path]:
    folder = place / f"edgebench-storage-{secrets.token_hex(6)}"
    ownership.claim("temp-folder", str(folder))
    try:
        make_private_folder(folder)
        with created(folder / "proof", 0o600) as file:
            # Random: some disks compress, and a file never written is read from nowhere.
            for _ in range(_SIZE_BYTES // MIB):
                file.write(os.urandom(MIB))
            file.flush()
            os.fsync(file.fileno())
        yield folder / "proof"
    except OSError as error:
        raise MachineError(
            f"a file of {format_size(_SIZE_BYTES)} to prove the disk's speed can't be written: "
            f"{error.strerror}",
            where=str(folder),
            remedy=f"free some space, or {AS_IS_REMEDY}",
        ) from error
    finally:
        if folder.is_dir():
            remove_folder(folder)
        ownership.release("temp-folder", str(folder))


def _largest(place: Path) -> Path | None:
    """Return the largest file in the place (of the first ones found), if it is large enough."""
    below = (top / name for top, names in walk(place) for name in names)
    files = [place] if place.is_file() else itertools.islice(below, _MOST_FILES)
    sizes = {file: _size(file) for file in files}
    best = max(sizes, key=lambda file: sizes[file], default=None)
    return best if best is not None and sizes[best] >= _LEAST_BYTES else None


def _size(file: Path) -> int:
    try:
        return 0 if file.is_symlink() else file.stat().st_size
    except OSError:
        return 0
