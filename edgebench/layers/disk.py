"""Weights and checkpoints as files: their digest, and eviction from the page cache; no torch."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from edgebench.errors import WorkloadError

#: What weights are stored in.
_SUFFIXES = (".safetensors", ".onnx", ".data", ".tflite", ".keras")
_CHUNK_BYTES = 8 << 20


def digest(checkpoint: Path) -> str:
    """SHA-256 of a checkpoint's file, so that a changed one is not taken for the same.

    Raises:
        WorkloadError: it can't be read.
    """
    # Lazy: the worker evicts files, and OpenSSL would count among its base.
    import hashlib

    from edgebench.safe_reading import open_to_read

    found = hashlib.sha256()
    try:
        with open_to_read(checkpoint) as file:
            while chunk := file.read(1 << 20):
                found.update(chunk)
    except OSError as error:
        raise WorkloadError(
            f"a checkpoint can't be read: {error.strerror}",
            where=str(checkpoint),
            remedy=f"ls -l {checkpoint}",
        ) from error
    return found.hexdigest()


def refuse_large_files(files: Iterable[Path]) -> None:
    """A network in files is read into memory before any trial, so it must fit there.

    Raises:
        WorkloadError: it is larger than what is free; or one is not there.
    """
    # Lazy: see above; no trial asks.
    import psutil

    from edgebench.units import format_size

    paths = list(files)
    try:
        needed = sum(path.stat().st_size for path in paths)
    except OSError as error:
        raise WorkloadError(f"it can't be read: {error.strerror}", where=error.filename) from error
    free = psutil.virtual_memory().available
    if needed > free:
        raise WorkloadError(
            f"it has {format_size(needed)} and must be read into memory, of which "
            f"{format_size(free)} are free on this machine",
            where=str(paths[0]),
            remedy="free some memory, or measure a smaller one: with weights of fewer bits, say",
        )


def evict(file: Path) -> None:
    """Ask the kernel to drop one file's clean, unmapped pages; never a global drop."""
    # Without waiting: a FIFO may have taken its place.
    fd = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        drop_pages(fd)
    finally:
        os.close(fd)


def drop_pages(descriptor: int) -> None:
    """The same, of an open file."""
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def settle(file: BinaryIO) -> None:
    """Write a new file to the disk: pages that are still to be written would never be cold."""
    file.flush()
    os.fsync(file.fileno())
    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_through(files: Iterable[Path]) -> None:
    """Read every file once: below our page cache a disk or a host may cache too.

    Without it the sweep's first trial alone would find them cold there.
    """
    for path in files:
        with path.open("rb", buffering=0) as file:
            while file.read(_CHUNK_BYTES):
                pass
            # These pages would be charged to us, not to the trial that uses them.
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def weights_in(folders: Iterable[str | Path]) -> tuple[Path, ...]:
    """All weights files of some networks' folders, and of the folders in these."""
    found = (file for folder in sorted(set(folders), key=str) for file in _files_below(folder))
    return tuple(file for file in found if file.suffix in _SUFFIXES)


def _files_below(folder: str | Path) -> list[Path]:
    return sorted(path for path in Path(folder).glob("**/*") if path.is_file())
