"""The file that a calibration scans: bytes by chance, kept for the next one."""

from __future__ import annotations

import os
from pathlib import Path

from edgebench.cgroups.identity import give_to_caller
from edgebench.errors import MachineError


def scan_file(folder: Path, size_bytes: int) -> Path:
    """A file of bytes by chance to scan, kept for the next calibration; made if need be.

    Raises:
        MachineError: the folder can't be written, or its disk is full.
    """
    path = folder / f"{size_bytes}.bin"
    new = [
        parent for parent in (folder.parent.parent, folder.parent, folder) if not parent.exists()
    ]
    try:
        if not path.is_file() or path.stat().st_size != size_bytes:
            folder.mkdir(parents=True, exist_ok=True)
            _write_by_chance(path, size_bytes)
            give_to_caller(new[0] if new else path)
    except OSError as error:
        raise MachineError(
            f"no file to scan can be made: {error.strerror}",
            where=str(path),
            remedy="free some space there, or name another folder: EDGEBENCH_CACHE=FOLDER",
        ) from None
    return path


def _write_by_chance(path: Path, size_bytes: int) -> None:
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        for start in range(0, size_bytes, 1 << 20):
            file.write(os.urandom(min(1 << 20, size_bytes - start)))
        file.flush()
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    part.replace(path)
