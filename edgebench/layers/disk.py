"""Weights and checkpoints as files: their digest, and eviction from the page cache; no torch."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from edgebench.errors import WorkloadError

#: Files in a network's folder that hold no weights. An ONNX file's weights may have any ending.
_NO_WEIGHTS = (".json", ".pt2")
_CHUNK_BYTES = 8 << 20


def digest(checkpoint: Path) -> str:
    """Compute a file's SHA-256, which tells a changed checkpoint from the same one.

    Raises:
        WorkloadError: it can't be read.
    """
    # Lazy: the worker evicts files, and OpenSSL would count among its base.
    import hashlib

    from edgebench.safe_files import open_to_read

    sha256 = hashlib.sha256()
    try:
        with open_to_read(checkpoint) as file:
            while chunk := file.read(1 << 20):
                sha256.update(chunk)
    except OSError as error:
        raise WorkloadError(
            f"a checkpoint can't be read: {error.strerror}",
            where=str(checkpoint),
            remedy=f"ls -l {checkpoint}",
        ) from error
    return sha256.hexdigest()


def refuse_too_large(name: str, needed_bytes: int) -> None:
    """Refuse a network that has to be in memory as a whole, before any trial, and does not fit.

    Raises:
        WorkloadError: it needs more than is free.
    """
    # Lazy: see above; no trial asks.
    import psutil

    from edgebench.text import format_size

    free = psutil.virtual_memory().available
    if needed_bytes > free:
        raise WorkloadError(
            f"{name} needs about {format_size(needed_bytes)} of memory, and {format_size(free)} "
            "are free on this machine",
            remedy="free some memory, or make it smaller: fewer weights, or weights of fewer bits",
        )


def evict(file: Path) -> None:
    """Have the kernel drop one file's clean, unmapped pages; never those of all files."""
    # Without waiting: a FIFO may have taken its place.
    fd = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        drop_pages(fd)
    finally:
        os.close(fd)


def drop_pages(descriptor: int) -> None:
    """Have the kernel drop the clean, unmapped pages of an open file."""
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def settle(file: BinaryIO) -> None:
    """Write a new file to the disk: the kernel can't drop pages that are not written yet."""
    file.flush()
    os.fsync(file.fileno())
    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_through(files: Iterable[Path]) -> None:
    """Read every file once: the disk or the host may have a cache of its own.

    Otherwise only the sweep's first trial would find it cold.
    """
    for path in files:
        with path.open("rb", buffering=0) as file:
            while file.read(_CHUNK_BYTES):
                pass
            # These pages would be charged to us, not to the trial that uses them.
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def weights_in(folders: Iterable[str | Path]) -> tuple[Path, ...]:
    """List all weights files in networks' folders and the folders below."""
    return tuple(
        file
        for folder in sorted(set(folders), key=str)
        for file in sorted(Path(folder).glob("**/*"))
        if file.is_file() and file.suffix not in _NO_WEIGHTS
    )
