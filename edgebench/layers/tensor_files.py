"""Files of tensors: those that edgebench writes and loads, and checkpoints that a person names.

Edgebench's are safetensors: eight bytes with the header's length, a JSON header with each tensor's
type, shape and offsets, then the bytes. Each tensor starts at a multiple of 64 bytes, so that
mapped tensors are aligned as fresh ones are: unaligned, some kernels round differently.

A loader makes tensors of a file. ``copy`` reads into fresh anonymous memory, which can only be
swapped. ``mmap`` maps the file: clean file pages, which the kernel drops and reads again. Both give
a file one mapping of its own. It goes back to the kernel with the last tensor in it: an allocator
would keep freed weights for later, and unloading would free nothing.

Weights may have fewer bits in memory than in their files. ``bfloat16`` and ``float16``: all
numbers. ``int8``: the weights of linear layers are integers of one byte (dynamic quantisation),
with a scale for each output. Activations become integers in each execution, by the range that each
input has then. PyTorch's own tensors of such numbers are deprecated; its product of integers stays.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import shlex
import threading
import warnings
import weakref
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from edgebench.errors import WorkloadError
from edgebench.layers.disk import settle
from edgebench.safe_files import created

Tensors = dict[str, torch.Tensor]
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
_BOTH = mmap.PROT_READ | mmap.PROT_WRITE
#: The mappings that still hold a tensor.
_LIVE: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()
_LIVE_LOCK = threading.Lock()
#: Weights of one byte are from its negative to this.
_LARGEST = 127
#: In PyTorch's message where a file holds more than tensors.
_PICKLED = "Weights only load failed"
_FORMATS = "give a .safetensors file, or a .pt file that holds a state dictionary only"


def write_tensors(path: Path, tensors: Tensors) -> int:
    """Write the tensors to a new file, down to the disk; its size in bytes.

    Raises:
        WorkloadError: a tensor of a type that the format lacks.
    """
    header: dict[str, object] = {}
    chunks: list[bytes] = []
    end = 0

    def append(name: str, dtype: str, shape: list[int], data: bytes) -> None:
        nonlocal end
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + len(data)]}
        chunks.append(data)
        end += len(data)

    for name, tensor in tensors.items():
        if tensor.dtype not in _NAMES:
            raise WorkloadError(f"{name} is of type {tensor.dtype}, which can't be stored")
        data = tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        append(name, _NAMES[tensor.dtype], list(tensor.shape), data)
        if short := -len(data) % ALIGNMENT:
            # The format allows no holes between tensors, so the gap is a tensor too.
            append(f"{PADDING}{len(chunks)}", "U8", [short], bytes(short))
    text = json.dumps(header).encode()
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    with created(path) as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.writelines(chunks)
        settle(file)
        return file.tell()


def copy(path: Path) -> Tensors:
    """Read the file into memory of its own, once."""
    with _opened(path) as (fd, size):
        pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=_BOTH)
        done = 0
        with memoryview(pages) as view:
            while done < size:
                got = os.preadv(fd, [view[done:]], done)
                if got <= 0:
                    raise _damaged(path)
                done += got
    return _views(pages, path)


def map_file(path: Path) -> Tensors:
    """Map the file; its pages are read when they are first touched."""
    with _opened(path) as (fd, size):
        # Private and writable: torch warns of read-only memory, and nothing ever writes.
        pages = mmap.mmap(fd, size, flags=mmap.MAP_PRIVATE, prot=_BOTH)
    return _views(pages, path)


def map_read_only(path: Path) -> Tensors:
    """Map the file as it is, so that its pages can be locked.

    Locking a private mapping that may be written makes copies of its pages (Linux, mm/gup.c).
    """
    with _opened(path) as (fd, size):
        pages = mmap.mmap(fd, size, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)
    with warnings.catch_warnings():
        # torch warns of read-only memory, and nothing ever writes.
        warnings.filterwarnings("ignore", message="The given buffer is not writable")
        return _views(pages, path)


LOADERS: dict[str, Callable[[Path], Tensors]] = {"copy": copy, "mmap": map_file}


@contextmanager
def _opened(path: Path) -> Iterator[tuple[int, int]]:
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError as error:
        raise WorkloadError(
            f"a weights file can't be read: {error.strerror}", where=str(path)
        ) from error
    try:
        if not (size := os.fstat(fd).st_size):
            raise _damaged(path)
        yield fd, size
    finally:
        os.close(fd)


def loaded_bytes() -> int:
    """Return the bytes that are loaded now: of all mappings whose tensors are in use."""
    with _LIVE_LOCK:
        return sum(len(pages) for pages in _LIVE)


def _views(pages: mmap.mmap, path: Path) -> Tensors:
    with _LIVE_LOCK:
        _LIVE.add(pages)
    start = 8 + int.from_bytes(pages[:8], "little")
    try:
        header = json.loads(pages[8:start])
        # All are checked before the first is made.
        places = {
            name: _place(about, start, len(pages))
            for name, about in header.items()
            if name != "__metadata__" and not name.startswith(PADDING)
        }
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise _damaged(path) from error
    return {
        name: torch.frombuffer(pages, dtype=dtype, count=count, offset=offset).reshape(shape)
        if (count := math.prod(shape))
        else torch.empty(shape, dtype=dtype)
        for name, (dtype, shape, offset) in places.items()
    }


def _place(about: Any, start: int, size: int) -> tuple[torch.dtype, tuple[int, ...], int]:
    # Its type, shape and offset in the file, as a whole inside of it.
    begin, end = about["data_offsets"]
    dtype, shape = _DTYPES[about["dtype"]], tuple(about["shape"])
    is_whole = end - begin == math.prod(shape) * dtype.itemsize
    if not (is_whole and start <= start + begin <= start + end <= size):
        raise ValueError(about)
    return dtype, shape, start + begin


def _damaged(path: Path) -> WorkloadError:
    return WorkloadError(
        "a weights file is damaged",
        where=str(path),
        remedy=f"delete the folder {path.parent}; it is made again at the next start",
    )


def loader_in(precision: torch.dtype) -> Callable[[Path], Tensors]:
    """Return a loader that keeps what a file holds in this type, in memory of its own."""

    def load(path: Path) -> Tensors:
        stored = map_file(path)
        kinds = {k: precision if t.is_floating_point() else t.dtype for k, t in stored.items()}
        return _in_own_mapping(stored, kinds)

    return load


def _in_own_mapping(stored: Tensors, kinds: Mapping[str, torch.dtype]) -> Tensors:
    """Copy tensors into one piece of memory, which the kernel gets back with the last of them."""
    sizes = {k: t.numel() * kinds[k].itemsize for k, t in stored.items()}
    places, end = dict[str, int](), 0
    for name, size in sizes.items():
        places[name], end = end, -(-(end + size) // ALIGNMENT) * ALIGNMENT
    pages = mmap.mmap(-1, max(end, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with _LIVE_LOCK:
        _LIVE.add(pages)
    copies = dict[str, torch.Tensor]()
    for name, tensor in stored.items():
        kind, count = kinds[name], tensor.numel()
        if count:
            flat = torch.frombuffer(pages, dtype=kind, count=count, offset=places[name])
            copies[name] = flat.reshape(tensor.shape).copy_(tensor)
        else:
            copies[name] = tensor.to(kind)
    return copies


class Int8Linear(nn.Module):
    """In place of a linear layer, with the same names of tensors; ``scale`` comes with the weight.

    A weight that is tied to another layer's stays as it is.
    """

    scale: torch.Tensor

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.weight, self.bias = linear.weight, linear.bias
        # Registered, so that it goes with the weight: they share one mapping.
        self.register_buffer("scale", torch.empty(linear.out_features, device="meta"))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """As a linear layer's."""
        if self.weight.dtype is not torch.int8:
            return nn.functional.linear(x, self.weight, self.bias)
        rows = x.reshape(-1, x.shape[-1])
        integers, scales = _in_bytes(rows)
        outputs = torch._int_mm(integers, self.weight.t()).to(x.dtype) * scales * self.scale
        if self.bias is not None:
            outputs += self.bias
        return outputs.reshape(*x.shape[:-1], -1)


def with_int8(model: nn.Module) -> nn.Module:
    """Replace the network's linear layers, but not those of a derived class."""
    replaced: dict[nn.Module, Int8Linear] = {}
    for name, module in list(model.named_modules(remove_duplicate=False)):
        if name and type(module) is nn.Linear:
            model.set_submodule(name, replaced.setdefault(module, Int8Linear(module)))
    return model


def int8_loader(model: nn.Module, files: Mapping[str, Path]) -> Callable[[Path], Tensors]:
    """Return a loader that makes bytes of linear layers' weights; ``files``: part → its file."""
    linear = {name for name, module in model.named_modules() if isinstance(module, Int8Linear)}
    converted = {file for part, file in files.items() if part in linear}

    def load(path: Path) -> Tensors:
        if path not in converted:
            return copy(path)
        tensors = map_file(path)
        # A tied weight is in another file.
        if "weight" in tensors:
            tensors["weight"], scales = _in_bytes(tensors["weight"])
            tensors["scale"] = scales.reshape(-1)
        return _in_own_mapping(tensors, {name: tensor.dtype for name, tensor in tensors.items()})

    return load


def _in_bytes(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    scales = rows.abs().amax(1, keepdim=True).clamp(min=torch.finfo(rows.dtype).tiny) / _LARGEST
    return (rows / scales).round().to(torch.int8), scales


def read_checkpoint(path: Path) -> dict[str, torch.Tensor]:
    """Read every tensor of a checkpoint by its name; code in the file is never run.

    Raises:
        WorkloadError: it can't be read, or is no state dictionary.
    """
    content: Any
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            content = load_file(path)
        else:
            content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise _unreadable(path, error) from error
    if isinstance(content, dict) and isinstance(content.get("state_dict"), dict):
        content = content["state_dict"]
    if not isinstance(content, dict):
        raise WorkloadError(
            f"a checkpoint holds a {type(content).__name__}", where=str(path), remedy=_FORMATS
        )
    return {key: value for key, value in content.items() if isinstance(value, torch.Tensor)}


def _unreadable(path: Path, error: Exception) -> WorkloadError:
    words, remedy = "it is no file of torch.save, or not a whole one", _FORMATS
    if isinstance(error, OSError):
        words = error.strerror or "no such file"
    elif path.suffix == ".safetensors":
        words = f"it is no safetensors file, or not a whole one: {str(error).strip()}"
    elif _PICKLED in str(error) and zipfile.is_zipfile(path):
        code = (
            f"import torch; model = torch.load({path.name!r}, weights_only=False); "
            "torch.save(model.state_dict(), 'weights.pt')"
        )
        words = "it holds pickled objects, and reading these runs code in the file"
        where = "if you trust it, convert it where its classes can be imported"
        remedy = f"{where}: python3 -c {shlex.quote(code)}"
    return WorkloadError(f"a checkpoint can't be read: {words}", where=str(path), remedy=remedy)
