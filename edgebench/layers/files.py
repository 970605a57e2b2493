"""Weights on disk: one safetensors file for each part of a network.

The format (safetensors): eight bytes with the header's length, a JSON header with each tensor's
type, shape and offsets, then the bytes. Here each tensor starts at a multiple of 64 bytes, so
that mapped tensors are aligned as fresh ones are: unaligned, some kernels round differently.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from edgebench.errors import WorkloadError

ALIGNMENT = 64
#: Names of the tensors that only fill a gap.
PADDING = "_padding."
_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}


@dataclass(frozen=True)
class Entry:
    """One tensor in a file. ``offset`` and ``length`` in bytes from the file's start."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    offset: int
    length: int


def write(path: Path, tensors: dict[str, torch.Tensor]) -> int:
    """Write the tensors, whole or not at all; the file's size in bytes."""
    header: dict[str, object] = {}
    chunks: list[bytes] = []
    for name, tensor in tensors.items():
        data = tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        _append(header, chunks, name, _NAMES[tensor.dtype], list(tensor.shape), data)
        if short := -len(data) % ALIGNMENT:
            # The format allows no holes between tensors, so the gap is a tensor too.
            _append(header, chunks, f"{PADDING}{len(chunks)}", "U8", [short], bytes(short))
    text = json.dumps(header).encode()
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    part = path.with_name(f".{path.name}.part")
    with part.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.writelines(chunks)
    part.rename(path)
    return path.stat().st_size


def _append(
    header: dict[str, object],
    chunks: list[bytes],
    name: str,
    dtype: str,
    shape: list[int],
    data: bytes,
) -> None:
    start = sum(map(len, chunks))
    header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [start, start + len(data)]}
    chunks.append(data)


def entries(fd: int, path: Path) -> list[Entry]:
    """What is in an open file.

    Raises:
        WorkloadError: it is no whole safetensors file.
    """
    try:
        length = int.from_bytes(os.pread(fd, 8, 0), "little")
        header = json.loads(os.pread(fd, length, 8))
        found = [
            _entry(name, about, 8 + length)
            for name, about in header.items()
            if name != "__metadata__" and not name.startswith(PADDING)
        ]
    except (ValueError, KeyError, TypeError, OverflowError, MemoryError) as error:
        raise _damaged(path) from error
    if any(entry.offset + entry.length > os.fstat(fd).st_size for entry in found):
        raise _damaged(path)
    return found


def _entry(name: str, about: dict[str, Any], start: int) -> Entry:
    begin, end = about["data_offsets"]
    return Entry(name, _DTYPES[about["dtype"]], tuple(about["shape"]), start + begin, end - begin)


def _damaged(path: Path) -> WorkloadError:
    return WorkloadError(
        "a weights file is damaged",
        where=str(path),
        remedy=f"delete the folder {path.parent}; it is made anew at the next start",
    )
