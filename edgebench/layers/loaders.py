"""Loaders: from a weights file to tensors in memory.

``copy`` reads into fresh anonymous memory, which can only be swapped. ``mmap`` maps the file:
clean file pages, which the kernel drops and reads again.

Both give a file one mapping of its own. It goes back to the kernel with the last tensor in it:
an allocator would keep freed weights for later, and unloading would free nothing.
"""

from __future__ import annotations

import mmap
import os
import threading
import warnings
import weakref
from collections.abc import Callable
from pathlib import Path

import torch

from edgebench.errors import WorkloadError
from edgebench.layers.files import Entry, damaged_weights, entries

Tensors = dict[str, torch.Tensor]
_BOTH = mmap.PROT_READ | mmap.PROT_WRITE
#: The mappings that still hold a tensor.
_LIVE: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()
_LIVE_LOCK = threading.Lock()


def copy(path: Path) -> Tensors:
    """Read the file into memory of its own, once."""
    fd = _open(path)
    try:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        pages = mmap.mmap(-1, _size(fd, path), flags=flags, prot=_BOTH)
        _read(fd, pages, path)
    finally:
        os.close(fd)
    return _views(pages, path)


def map_file(path: Path) -> Tensors:
    """Map the file; its pages are read when they are first touched."""
    fd = _open(path)
    try:
        # Private and writable: torch warns of read-only memory, and nothing ever writes.
        pages = mmap.mmap(fd, _size(fd, path), flags=mmap.MAP_PRIVATE, prot=_BOTH)
    finally:
        os.close(fd)
    return _views(pages, path)


def map_read_only(path: Path) -> Tensors:
    """Map the file as it is, so that its pages can be locked.

    Locking a private mapping that may be written makes copies of its pages (Linux, mm/gup.c).
    """
    fd = _open(path)
    try:
        pages = mmap.mmap(fd, _size(fd, path), flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)
    finally:
        os.close(fd)
    with warnings.catch_warnings():
        # torch warns of read-only memory, and nothing ever writes.
        warnings.filterwarnings("ignore", message="The given buffer is not writable")
        return _views(pages, path)


LOADERS: dict[str, Callable[[Path], Tensors]] = {"copy": copy, "mmap": map_file}


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDONLY)
    except OSError as error:
        raise WorkloadError(
            f"a weights file can't be read: {error.strerror}", where=str(path)
        ) from error


def _size(fd: int, path: Path) -> int:
    size = os.fstat(fd).st_size
    if size == 0:
        raise damaged_weights(path)
    return size


def _read(fd: int, pages: mmap.mmap, path: Path) -> None:
    done = 0
    with memoryview(pages) as view:
        while done < len(view):
            got = os.preadv(fd, [view[done:]], done)
            if got <= 0:
                raise damaged_weights(path)
            done += got


def loaded_bytes() -> int:
    """How much is loaded now: bytes of all mappings whose tensors are in use."""
    with _LIVE_LOCK:
        return sum(len(pages) for pages in _LIVE)


def hold_tensors(pages: mmap.mmap) -> None:
    """Count this memory as loaded as long as a tensor is in it."""
    with _LIVE_LOCK:
        _LIVE.add(pages)


def _views(pages: mmap.mmap, path: Path) -> Tensors:
    hold_tensors(pages)
    return {entry.name: _view(pages, entry) for entry in entries(pages, path)}


def _view(pages: mmap.mmap, entry: Entry) -> torch.Tensor:
    if entry.length == 0:
        return torch.empty(entry.shape, dtype=entry.dtype)
    count = entry.length // entry.dtype.itemsize
    flat = torch.frombuffer(pages, dtype=entry.dtype, count=count, offset=entry.offset)
    return flat.reshape(entry.shape)
