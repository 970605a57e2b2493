"""A network's weights: made once, or taken from a checkpoint, one file a part, and cached.

Made weights are random, from a seed, and so incompressible: zeros would flatter zram. Their
scale keeps the activations finite. Whatever a constructor computes (index tables) is kept.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from edgebench.digest import digest
from edgebench.errors import WorkloadError
from edgebench.layers.checkpoint import take
from edgebench.layers.cut import Part, cut
from edgebench.layers.files import write
from edgebench.layers.networks import build, computed_buffers, input_shape

#: Raised when files of an earlier version must not be used any more.
FORMAT = 2
INDEX = "index.json"
#: Where batch normalisation keeps what it learned: buffers, but as random as weights.
_LEARNED = ("running_mean", "running_var")

#: From a tensor's full name, and its shape on ``meta``, to the tensor.
Source = Callable[[str, torch.Tensor], torch.Tensor]


def prepare_weights(
    name: str, cache: Path, seed: int, checkpoint: Path | None = None
) -> tuple[Path, dict[str, tuple[str, int]]]:
    """The folder with the network's weights, and part → file name and size in bytes.

    Raises:
        WorkloadError: no such network; a checkpoint that is missing, unreadable or doesn't fit.
    """
    folder = cache / "weights" / f"{name}-{_key(seed, checkpoint)}"
    if not (folder / INDEX).exists():
        _make(name, folder, seed, checkpoint)
    found = json.loads((folder / INDEX).read_text())
    return folder, {part: (file, size) for part, (file, size) in found.items()}


def weight_files(folder: Path) -> dict[str, Path]:
    """Part → weights file, from the index beside them.

    Raises:
        WorkloadError: no weights in this folder.
    """
    try:
        index = json.loads((folder / INDEX).read_text())
    except OSError as error:
        raise WorkloadError(
            f"no weights can be read here: {error.strerror}",
            where=str(folder),
            remedy="start the sweep again; it makes the weights that are missing",
        ) from error
    return {part: folder / file for part, (file, _) in index.items()}


def _key(seed: int, checkpoint: Path | None) -> str:
    source = f"seed {seed}" if checkpoint is None else f"checkpoint {digest(checkpoint)}"
    return hashlib.sha256(f"{FORMAT} {torch.__version__} {source}".encode()).hexdigest()[:12]


def _make(name: str, folder: Path, seed: int, checkpoint: Path | None) -> None:
    model = build(name)
    sample = torch.empty(input_shape(name, 1), device="meta")
    parts = cut(model, sample).parts.values()
    computed = computed_buffers(name)
    if checkpoint is None:
        source = _random(seed, computed)
    else:
        wanted = {
            _full(part, key): tensor for part in parts for key, tensor in part.tensors().items()
        }
        source = take(checkpoint, wanted, computed)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _alone(folder.parent):
        if not folder.exists():
            _write_parts(list(parts), source, folder)


@contextmanager
def _alone(cache: Path) -> Iterator[None]:
    """One maker at a time; whatever is half-made then was left by a killed one."""
    with (cache / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for half_made in cache.glob(".*.part"):
            shutil.rmtree(half_made)
        yield


def _write_parts(parts: list[Part], source: Source, folder: Path) -> None:
    half_made = folder.with_name(f".{folder.name}.part")
    half_made.mkdir()
    try:
        index: dict[str, tuple[str, int]] = {}
        for number, part in enumerate(parts):
            own = {key: source(_full(part, key), meta) for key, meta in part.tensors().items()}
            if own:
                file = f"{number:04d}.safetensors"
                index[part.name] = (file, write(half_made / file, own))
        (half_made / INDEX).write_text(json.dumps(index))
        half_made.rename(folder)
    except BaseException:
        shutil.rmtree(half_made, ignore_errors=True)
        raise


def _full(part: Part, key: str) -> str:
    return f"{part.name}.{key}" if part.name else key


def _random(seed: int, computed: dict[str, torch.Tensor]) -> Source:
    def source(key: str, meta: torch.Tensor) -> torch.Tensor:
        leaf = key.rpartition(".")[2]
        if key in computed and leaf not in _LEARNED:
            return computed[key]
        own = int.from_bytes(hashlib.sha256(f"{seed} {key}".encode()).digest()[:7], "big")
        tensor = torch.empty(meta.shape, dtype=meta.dtype)
        _fill(leaf, tensor, torch.Generator().manual_seed(own))
        return tensor

    return source


def _fill(leaf: str, tensor: torch.Tensor, generator: torch.Generator) -> None:
    if tensor.ndim >= 2:
        # He's initialisation keeps the scale of activations through ReLUs.
        bound = math.sqrt(6 * tensor.shape[0] / max(1, tensor.numel()))
        tensor.uniform_(-bound, bound, generator=generator)
    elif leaf in ("weight", "running_var"):
        tensor.uniform_(0.9, 1.1, generator=generator)
    else:
        tensor.uniform_(-0.1, 0.1, generator=generator)
