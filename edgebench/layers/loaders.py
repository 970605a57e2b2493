"""Loaders: from a weights file to tensors in memory.

``copy`` reads into fresh anonymous memory, which can only be swapped. ``mmap`` maps the file:
clean file pages, which the kernel drops and reads again.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable
from pathlib import Path

import torch

from edgebench.errors import WorkloadError
from edgebench.layers.files import Entry, entries

Tensors = dict[str, torch.Tensor]


def copy(path: Path) -> Tensors:
    """Read each tensor into memory of its own, once."""
    fd = _open(path)
    try:
        return {entry.name: _read(fd, entry, path) for entry in entries(fd, path)}
    finally:
        os.close(fd)


def _read(fd: int, entry: Entry, path: Path) -> torch.Tensor:
    tensor = torch.empty(entry.shape, dtype=entry.dtype)
    view = memoryview(tensor.reshape(-1).view(torch.uint8).numpy().data)
    done = 0
    while done < entry.length:
        got = os.preadv(fd, [view[done:]], entry.offset + done)
        if got <= 0:
            raise WorkloadError("a weights file ended too soon", where=str(path))
        done += got
    return tensor


def map_file(path: Path) -> Tensors:
    """Map the file; the pages are read when they are first touched."""
    fd = _open(path)
    try:
        found = entries(fd, path)
        # Private and writable: torch warns of read-only memory, and nothing ever writes.
        pages = mmap.mmap(fd, 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    finally:
        os.close(fd)
    return {entry.name: _view(pages, entry) for entry in found}


def _view(pages: mmap.mmap, entry: Entry) -> torch.Tensor:
    count = entry.length // entry.dtype.itemsize
    if count == 0:
        return torch.empty(entry.shape, dtype=entry.dtype)
    flat = torch.frombuffer(pages, dtype=entry.dtype, count=count, offset=entry.offset)
    return flat.reshape(entry.shape)


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDONLY)
    except OSError as error:
        raise WorkloadError(
            f"a weights file can't be read: {error.strerror}", where=str(path)
        ) from error


LOADERS: dict[str, Callable[[Path], Tensors]] = {"copy": copy, "mmap": map_file}
