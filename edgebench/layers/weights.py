"""A network's weights: made once, or taken from a checkpoint, one file a part, and cached.

Made weights are random, from a seed, and so incompressible: zeros would flatter zram. Their
scale keeps the activations finite. Whatever a constructor computes (index tables) is kept.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

import torch

from edgebench.errors import WorkloadError
from edgebench.layers.cut import Part, cut
from edgebench.layers.files import write
from edgebench.layers.networks import build, input_shape

#: Raised when files of an earlier version must not be used any more.
FORMAT = 1
INDEX = "index.json"


def prepare_weights(
    name: str, cache: Path, seed: int, checkpoint: Path | None = None
) -> tuple[Path, dict[str, tuple[str, int]]]:
    """The folder with the network's weights, and part → file name and size in bytes.

    Raises:
        WorkloadError: no such network; a checkpoint that is missing, unreadable or doesn't fit.
    """
    folder = cache / "weights" / f"{name}-{_key(seed, checkpoint)}"
    index = folder / INDEX
    if not index.exists():
        _make(name, folder, seed, checkpoint)
    found = json.loads(index.read_text())
    return folder, {part: (file, size) for part, (file, size) in found.items()}


def _key(seed: int, checkpoint: Path | None) -> str:
    source = f"seed {seed}"
    if checkpoint is not None:
        source = f"checkpoint {_digest(checkpoint)}"
    key = f"{FORMAT} {torch.__version__} {source}"
    return hashlib.sha256(key.encode()).hexdigest()[:12]


def _digest(checkpoint: Path) -> str:
    try:
        with checkpoint.open("rb") as file:
            digest = hashlib.sha256()
            while chunk := file.read(1 << 20):
                digest.update(chunk)
    except OSError as error:
        raise WorkloadError(
            f"a checkpoint can't be read: {error.strerror}", where=str(checkpoint)
        ) from error
    return digest.hexdigest()


def _make(name: str, folder: Path, seed: int, checkpoint: Path | None) -> None:
    tensors = _computed(name)
    if checkpoint is None:
        _randomise(tensors, seed)
    else:
        _take(tensors, checkpoint)
    folder.parent.mkdir(parents=True, exist_ok=True)
    part_folder = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        _write_parts(name, tensors, part_folder)
        # Another process may have been quicker; its files are the same.
        shutil.rmtree(folder, ignore_errors=True)
        part_folder.rename(folder)
    except BaseException:
        shutil.rmtree(part_folder, ignore_errors=True)
        raise


def _computed(name: str) -> dict[str, torch.Tensor]:
    """All tensors as the real constructor makes them, by their full names."""
    model = build(name, device="cpu")
    named = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    return {key: tensor.detach() for key, tensor in named.items()}


def _randomise(tensors: Mapping[str, torch.Tensor], seed: int) -> None:
    for key, tensor in tensors.items():
        if tensor.is_floating_point():
            own = int.from_bytes(hashlib.sha256(f"{seed} {key}".encode()).digest()[:7], "big")
            _fill(key.rpartition(".")[2], tensor, torch.Generator().manual_seed(own))


def _fill(leaf: str, tensor: torch.Tensor, generator: torch.Generator) -> None:
    if tensor.ndim >= 2:
        # He's initialisation keeps the scale of activations through ReLUs.
        bound = math.sqrt(6 * tensor.shape[0] / max(1, tensor.numel()))
        tensor.uniform_(-bound, bound, generator=generator)
    elif leaf in ("weight", "running_var"):
        tensor.uniform_(0.9, 1.1, generator=generator)
    else:
        tensor.uniform_(-0.1, 0.1, generator=generator)


def _take(tensors: dict[str, torch.Tensor], checkpoint: Path) -> None:
    given = _read_checkpoint(checkpoint)
    wrong = [
        f"{key}: {tuple(given[key].shape)} in the checkpoint, {tuple(tensor.shape)} in the network"
        if key in given
        else f"{key}: not in the checkpoint"
        for key, tensor in tensors.items()
        if (key not in given and tensor.is_floating_point())
        or (key in given and given[key].shape != tensor.shape)
    ]
    if wrong:
        more = f" (and {len(wrong) - 3} more)" if len(wrong) > 3 else ""
        raise WorkloadError(
            f"the checkpoint doesn't fit the network: {'; '.join(wrong[:3])}{more}",
            where=str(checkpoint),
            remedy="name a checkpoint of this very network, or leave it out for random weights",
        )
    tensors.update({key: given[key].to(tensors[key].dtype) for key in tensors if key in given})


def _read_checkpoint(path: Path) -> dict[str, torch.Tensor]:
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise WorkloadError(
            f"a checkpoint can't be read: {str(error).splitlines()[0]}",
            where=str(path),
            remedy="give a .safetensors file, or a .pt file that holds a state dictionary only",
        ) from error
    found = found.get("state_dict", found) if isinstance(found, dict) else {}
    return {key: value for key, value in found.items() if isinstance(value, torch.Tensor)}


def _write_parts(name: str, tensors: Mapping[str, torch.Tensor], folder: Path) -> None:
    model = build(name)
    sample = torch.empty(input_shape(name, 1), device="meta")
    index: dict[str, tuple[str, int]] = {}
    for number, part in enumerate(cut(model, sample).parts.values()):
        own = {key: tensors[_full(part, key)] for key in part.tensors()}
        if own:
            file = f"{number:04d}.safetensors"
            index[part.name] = (file, write(folder / file, own))
    (folder / INDEX).write_text(json.dumps(index))


def _full(part: Part, key: str) -> str:
    return f"{part.name}.{key}" if part.name else key
