"""Weights from a checkpoint that a person named."""

from __future__ import annotations

import shlex
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from edgebench.errors import WorkloadError

#: In PyTorch's message where a file holds more than tensors; and a pickle's first byte.
_PICKLED, _PICKLE = "Weights only load failed", b"\x80"
FORMATS = "give a .safetensors file, or a .pt file that holds a state dictionary only"


def take(
    path: Path, wanted: Mapping[str, torch.Tensor], computed: Mapping[str, torch.Tensor]
) -> Callable[[str, torch.Tensor], torch.Tensor]:
    """From a tensor's full name, and its shape on ``meta``, to the checkpoint's tensor.

    ``wanted`` is all that the network's layers use. What the constructor ``computed`` may be
    missing, but for the running statistics of batch normalisation.

    Raises:
        WorkloadError: unreadable, or it doesn't hold what is wanted.
    """
    given = read_checkpoint(path)
    spare = {key: tensor for key, tensor in computed.items() if ".running_" not in f".{key}"}
    wrong = [
        problem for key in wanted if (problem := _problem(key, wanted[key], given, key in spare))
    ]
    if wrong:
        more = f" (and {len(wrong) - 3} more)" if len(wrong) > 3 else ""
        raise WorkloadError(
            f"the checkpoint doesn't fit the network: {'; '.join(wrong[:3])}{more}",
            where=str(path),
            remedy="name a checkpoint of this very network, or leave it out for random weights",
        )
    return lambda key, meta: given[key].to(meta.dtype) if key in given else spare[key]


def _problem(
    key: str, meta: torch.Tensor, given: Mapping[str, torch.Tensor], may_miss: bool
) -> str | None:
    if key not in given:
        return None if may_miss else f"{key}: not in the checkpoint"
    has, needs = tuple(given[key].shape), tuple(meta.shape)
    return None if has == needs else f"{key}: {has} in the checkpoint, {needs} in the network"


def read_checkpoint(path: Path) -> dict[str, torch.Tensor]:
    """Every tensor of a checkpoint by its name; code in the file is never run.

    Raises:
        WorkloadError: it can't be read, or is no state dictionary.
    """
    try:
        found = _load(path)
    except Exception as error:
        raise _unreadable(path, error) from error
    if isinstance(found, dict) and isinstance(found.get("state_dict"), dict):
        found = found["state_dict"]
    if not isinstance(found, dict):
        raise WorkloadError(
            f"a checkpoint holds a {type(found).__name__}", where=str(path), remedy=FORMATS
        )
    return {key: value for key, value in found.items() if isinstance(value, torch.Tensor)}


def _unreadable(path: Path, error: Exception) -> WorkloadError:
    if _PICKLED in str(error) and _is_pickled(path):
        code = (
            f"import torch; model = torch.load({path.name!r}, weights_only=False); "
            "torch.save(model.state_dict(), 'weights.pt')"
        )
        return WorkloadError(
            "a checkpoint can't be read: it holds pickled objects, and reading these runs code "
            "in the file",
            where=str(path),
            remedy="if you trust it, convert it where its classes can be imported: "
            f"python3 -c {shlex.quote(code)}",
        )
    words = "it is no file of torch.save, or not a whole one"
    if isinstance(error, OSError):
        words = error.strerror or "no such file"
    elif path.suffix == ".safetensors":
        words = f"it is no safetensors file, or not a whole one: {str(error).strip()}"
    return WorkloadError(f"a checkpoint can't be read: {words}", where=str(path), remedy=FORMATS)


def _is_pickled(path: Path) -> bool:
    """Whether ``torch.save`` wrote it, whole: an archive, or a pickle as of old."""
    with path.open("rb") as file:
        return zipfile.is_zipfile(path) or file.read(1) == _PICKLE


def _load(path: Path) -> Any:
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        return load_file(path)
    return torch.load(path, map_location="cpu", weights_only=True)
