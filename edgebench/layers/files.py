"""Weights on disk: one safetensors file for each part of a network.

The format (safetensors): eight bytes with the header's length, a JSON header with each tensor's
type, shape and offsets, then the bytes. Here each tensor starts at a multiple of 64 bytes, so
that mapped tensors are aligned as fresh ones are: unaligned, some kernels round differently.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from mmap import mmap
from pathlib import Path
from typing import Any

import torch

from edgebench.errors import WorkloadError
from edgebench.layers.disk import settle
from edgebench.safe_files import created

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
    "C64": torch.complex64,
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


def write_tensors(path: Path, tensors: dict[str, torch.Tensor]) -> int:
    """Write the tensors to a new file, down to the disk; its size in bytes.

    Raises:
        WorkloadError: a tensor of a type that the format lacks.
    """
    header: dict[str, object] = {}
    chunks: list[bytes] = []
    for name, tensor in tensors.items():
        if tensor.dtype not in _NAMES:
            raise WorkloadError(f"{name} is of type {tensor.dtype}, which can't be stored")
        data = tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        _append(header, chunks, name, _NAMES[tensor.dtype], list(tensor.shape), data)
        if short := -len(data) % ALIGNMENT:
            # The format allows no holes between tensors, so the gap is a tensor too.
            _append(header, chunks, f"{PADDING}{len(chunks)}", "U8", [short], bytes(short))
    text = json.dumps(header).encode()
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    with created(path) as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.writelines(chunks)
        settle(file)
        return file.tell()


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


def entries(pages: mmap, path: Path) -> list[Entry]:
    """What is in a file, whose bytes these are.

    Raises:
        WorkloadError: it is no whole safetensors file.
    """
    start = 8 + int.from_bytes(pages[:8], "little")
    try:
        header = json.loads(pages[8:start])
        found = [_entry(name, about, start) for name, about in header.items() if _named(name)]
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise damaged_weights(path) from error
    if any(_impossible(entry, start, len(pages)) for entry in found):
        raise damaged_weights(path)
    return found


def _named(name: str) -> bool:
    return name != "__metadata__" and not name.startswith(PADDING)


def _entry(name: str, about: dict[str, Any], start: int) -> Entry:
    begin, end = about["data_offsets"]
    dtype, shape = _DTYPES[about["dtype"]], tuple(about["shape"])
    return Entry(name, dtype, shape, start + begin, end - begin)


def _impossible(entry: Entry, start: int, end: int) -> bool:
    whole = entry.length == math.prod(entry.shape) * entry.dtype.itemsize
    inside = start <= entry.offset <= entry.offset + entry.length <= end
    return not (whole and inside)


def damaged_weights(path: Path) -> WorkloadError:
    """The error for a weights file that isn't whole."""
    return WorkloadError(
        "a weights file is damaged",
        where=str(path),
        remedy=f"delete the folder {path.parent}; it is made again at the next start",
    )
