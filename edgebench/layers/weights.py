"""Weights and layer tables of networks, made outside any limit.

In the cache of weights each network has a folder, with one file for each part.

Known networks have random weights from a seed, which don't compress: zeros would flatter zram.
Their scale keeps the activations finite. Whatever a constructor computes (index tables) is kept.
Other networks have the weights of their own constructor, and any may have those of a checkpoint.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from edgebench.errors import WorkloadError
from edgebench.layers.disk import digest, read_through
from edgebench.layers.examination import (
    ExaminedNetwork,
    LayerTableRow,
    cut_file,
    examine,
    refuse_large_model,
)
from edgebench.layers.network import PREPARE_AGAIN, SharedFile, named_tensors
from edgebench.layers.sources import NetworkSource, seeded_network
from edgebench.layers.tensor_files import read_checkpoint, write_tensors
from edgebench.safe_files import created, make_folder, remove_folder, rename, write

#: Raised when files of an earlier version must not be used any more.
FORMAT = 2
INDEX = "index.json"
#: Tensors with several names: the places of each, and their weights.
SHARED, SHARED_WEIGHTS = "shared.json", "shared.safetensors"
#: The user's own code that made the network: file → its hash.
CODE = "code.json"
#: Where batch normalisation keeps what it learned: buffers, but as random as weights.
_LEARNED = ("running_mean", "running_var")

#: From a tensor's full name, and its shape on ``meta``, to the tensor.
Source = Callable[[str, torch.Tensor], torch.Tensor]


def prepare_weights(
    network: ExaminedNetwork, cache: Path, seed: int, checkpoint: Path | None = None
) -> tuple[Path, dict[str, tuple[str, int]]]:
    """Make the folder of the network's weights; returns it, and part → file name and bytes.

    The size of a part includes tensors that other parts use too.

    Raises:
        WorkloadError: a checkpoint that is missing, unreadable or doesn't fit.
    """
    source = network.source
    about = [str(FORMAT), torch.__version__]
    about.append(f"seed {seed}" if checkpoint is None else f"checkpoint {digest(checkpoint)}")
    if source.has_weights:
        # With the paths of the code: ``CODE`` names them, and code may be moved.
        about += [content_of(source), *(str(file) for file in source.files() if _is_code(file))]
    key = hashlib.sha256(" ".join(about).encode()).hexdigest()[:12]
    folder = cache / "weights" / f"{source.reference.slug}-{key}"
    if not (folder / INDEX).exists():
        if checkpoint is not None:
            weights = _from_checkpoint(checkpoint, network)
        elif source.has_weights:
            refuse_large_model(source.name, network.empty.model)
            tensors = named_tensors(seeded_network(source, seed, weights=True))
            weights = lambda key, meta: tensors[key]  # noqa: E731
        else:
            weights = _random(seed, network.empty.computed)
        make_folder(folder.parent, parents=True)
        with _alone(folder.parent):
            if not folder.exists():
                _write_folder(network, weights, folder)
    index = json.loads((folder / INDEX).read_text())
    files = {part: (file, size) for part, (file, size) in index.items()}
    for shared in shared_files(folder):
        for part in shared.parts:
            file, size = files.get(part, (shared.path.name, 0))
            files[part] = (file, size + shared.path.stat().st_size)
    return folder, files


def content_of(source: NetworkSource) -> str:
    """Hash everything that makes the network: files, code, arguments, library."""
    reference = source.reference
    hashes = [digest(file) for file in source.files()]
    about = [reference.kind, reference.target, reference.to_json()["arguments"], source.version()]
    return hashlib.sha256(json.dumps([about, hashes], default=str).encode()).hexdigest()


def shared_files(folder: Path) -> list[SharedFile]:
    """Find the files of tensors that have several names; most networks have none."""
    if not (folder / SHARED).exists():
        return []
    places = json.loads((folder / SHARED).read_text())
    named = {name: [(part, key) for part, key in used_in] for name, used_in in places.items()}
    return [SharedFile(folder / SHARED_WEIGHTS, named)]


def weight_files(folder: Path) -> dict[str, Path]:
    """Read part → weights file from the index beside the files.

    Raises:
        WorkloadError: no weights in this folder.
    """
    try:
        index = json.loads((folder / INDEX).read_text())
    except OSError as error:
        raise WorkloadError(
            f"no weights can be read here: {error.strerror}",
            where=str(folder),
            remedy=PREPARE_AGAIN,
        ) from error
    return {part: folder / file for part, (file, _) in index.items()}


def _is_code(file: Path) -> bool:
    return file.suffix == ".py"


def _from_checkpoint(path: Path, network: ExaminedNetwork) -> Source:
    """Take the tensors of a checkpoint.

    It must hold everything that the network's layers use, except what the constructor computes;
    the running statistics of batch normalisation are not such.

    Raises:
        WorkloadError: it is unreadable, or doesn't hold what is needed.
    """
    given = read_checkpoint(path)
    computed = network.empty.computed
    spare = {key: tensor for key, tensor in computed.items() if ".running_" not in f".{key}"}
    needed = {
        part.full_name(key): tensor
        for part in network.cut.parts.values()
        for key, tensor in part.tensors().items()
    }
    wrong = []
    for key, meta in needed.items():
        needs, has = tuple(meta.shape), tuple(given[key].shape) if key in given else None
        if has is None and key not in spare:
            wrong.append(f"{key}: not in the checkpoint")
        elif has is not None and has != needs:
            wrong.append(f"{key}: {has} in the checkpoint, {needs} in the network")
    if wrong:
        more = f" (and {len(wrong) - 3} more)" if len(wrong) > 3 else ""
        raise WorkloadError(
            f"the checkpoint doesn't fit the network: {'; '.join(wrong[:3])}{more}",
            where=str(path),
            remedy="name a checkpoint of this very network, or leave it out for random weights",
        )
    return lambda key, meta: given[key].to(meta.dtype) if key in given else spare[key]


@contextmanager
def _alone(cache: Path) -> Iterator[None]:
    """One maker at a time; whatever is half-made then was left by a killed one."""
    with created(cache / ".lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for half_made in cache.glob(".*.part"):
            remove_folder(half_made)
        yield


def _write_folder(network: ExaminedNetwork, source: Source, folder: Path) -> None:
    code = {str(file): digest(file) for file in network.source.files() if _is_code(file)}
    half_made = folder.with_name(f".{folder.name}.part")
    make_folder(half_made, exist_ok=False)
    try:
        index: dict[str, tuple[str, int]] = {}
        shared = network.tied
        places = {place for used_in in shared.values() for place in used_in}
        for number, part in enumerate(network.cut.parts.values()):
            tensors_of_part = {
                key: source(part.full_name(key), meta)
                for key, meta in part.tensors().items()
                if (part.name, key) not in places
            }
            if tensors_of_part:
                file = f"{number:04d}.safetensors"
                index[part.name] = (file, write_tensors(half_made / file, tensors_of_part))
        if shared:
            metas = {name: network.cut.tensor_at(used_in[0]) for name, used_in in shared.items()}
            tensors = {name: source(name, meta) for name, meta in metas.items()}
            write_tensors(half_made / SHARED_WEIGHTS, tensors)
            write(half_made / SHARED, json.dumps(shared).encode())
        network.source.keep(half_made)
        write(half_made / CODE, json.dumps(code).encode())
        write(half_made / INDEX, json.dumps(index).encode())
        rename(half_made, folder.name)
    except BaseException:
        remove_folder(half_made)
        raise


def _random(seed: int, computed: dict[str, torch.Tensor]) -> Source:
    def source(key: str, meta: torch.Tensor) -> torch.Tensor:
        leaf = key.rpartition(".")[2]
        if key in computed and leaf not in _LEARNED:
            return computed[key]
        tensor = torch.empty(meta.shape, dtype=meta.dtype)
        low, high = -0.1, 0.1
        if tensor.ndim >= 2:
            # He's initialisation keeps the scale of activations through ReLUs.
            high = math.sqrt(6 * tensor.shape[0] / max(1, tensor.numel()))
            low = -high
        elif leaf in ("weight", "running_var"):
            low, high = 0.9, 1.1
        draw = int.from_bytes(hashlib.sha256(f"{seed} {key}".encode()).digest()[:7], "big")
        return tensor.uniform_(low, high, generator=torch.Generator().manual_seed(draw))

    return source


def manifest(request: dict[str, Any]) -> dict[str, Any]:
    """Prepare networks: each one's folder, layer table and sizes, with its weights on disk.

    The request: ``networks``, ``cache``, and if they differ from these, ``seed`` (0),
    ``checkpoints`` (network → path; none), ``image`` and ``input`` (each network's
    own), ``references`` (of networks that are not known by name).

    Raises:
        WorkloadError: no such network, a checkpoint that doesn't fit, or no space for weights.
    """
    try:
        networks = {name: _prepared(name, request) for name in request["networks"]}
    except OSError as error:
        raise WorkloadError(
            f"weights can't be written: {error.strerror}",
            where=error.filename,
            remedy="free some space",
        ) from error
    versions = {"torch": str(torch.__version__)}
    with suppress(PackageNotFoundError):
        versions["torchvision"] = version("torchvision")
    return {"networks": networks, "versions": versions}


def _prepared(name: str, request: dict[str, Any]) -> dict[str, Any]:
    checkpoint = request.get("checkpoints", {}).get(name)
    # The table first: it is the one that finds an image too small, and quickly.
    network = examine(name, request)
    folder, files = prepare_weights(
        network,
        Path(request["cache"]),
        request.get("seed", 0),
        Path(checkpoint) if checkpoint else None,
    )
    about: dict[str, Any] = {"folder": str(folder)}
    if network.source.has_weights:
        # A network measured with another input may take another path through itself.
        write(cut_file(folder, request), network.cut.to_json().encode())
        about["content"] = content_of(network.source)
    read_through(sorted(folder.glob("*.safetensors")))
    none = (None, 0)
    rows = [
        replace(row, file=files.get(row.part, none)[0], file_bytes=files.get(row.part, none)[1])
        for row in network.rows
    ]
    return {**about, **_sizes(rows, network)}


def describe_layers(request: dict[str, Any]) -> dict[str, Any]:
    """Describe networks: each one's layer table and sizes, without weights on disk.

    The request: ``networks`` (names), ``references`` (of those that are not known by name),
    ``image`` and ``input`` (null: the network's own).
    """
    networks = {}
    for name in request["networks"]:
        network = examine(name, request)
        # A part's file holds its tensors; its header is less than a page.
        rows = [
            replace(row, file_bytes=row.parameter_bytes + row.buffer_bytes) for row in network.rows
        ]
        networks[name] = _sizes(rows, network)
    return {"networks": networks}


def _sizes(rows: list[LayerTableRow], network: ExaminedNetwork) -> dict[str, Any]:
    """Return a network's table and sizes for a manifest.

    A part used twice counts once, and so do tensors with several names, which the row of each part
    counts.
    """
    first = {row.part: row for row in reversed(rows)}.values()
    twice_bytes = sum(
        (len(places) - 1) * network.cut.tensor_at(places[0]).nbytes
        for places in network.tied.values()
    )
    return {
        "table": [asdict(row) for row in rows],
        "parameter_bytes": sum(row.parameter_bytes for row in first) - twice_bytes,
        "file_bytes": sum(row.file_bytes for row in first) - twice_bytes,
    }
