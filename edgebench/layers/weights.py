"""The cache of networks' weights: each network has a folder, with one file for each part.

Known networks have random weights from a seed, which don't compress: zeros would flatter zram.
Their scale keeps the activations finite. Whatever a constructor computes (index tables) is kept.
Other networks have the weights of their own constructor, and any may have those of a checkpoint.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch

from edgebench.errors import WorkloadError
from edgebench.layers.disk import digest
from edgebench.layers.empty_network import seeded_network
from edgebench.layers.examination import ExaminedNetwork, refuse_too_large
from edgebench.layers.network import PREPARE_AGAIN, SharedFile
from edgebench.layers.samples import named_tensors
from edgebench.layers.sources import NetworkSource
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
    """The folder with the network's weights, and part → file name and size in bytes.

    The size of a part includes tensors that other parts use too.

    Raises:
        WorkloadError: a checkpoint that is missing, unreadable or doesn't fit.
    """
    source = network.source
    key = _key(seed, checkpoint, _content_here(source) if source.has_weights else None)
    folder = cache / "weights" / f"{source.reference.slug}-{key}"
    if not (folder / INDEX).exists():
        _make(network, folder, seed, checkpoint)
    found = json.loads((folder / INDEX).read_text())
    files = {part: (file, size) for part, (file, size) in found.items()}
    for shared in shared_files(folder):
        for part in shared.parts:
            file, size = files.get(part, (shared.path.name, 0))
            files[part] = (file, size + shared.path.stat().st_size)
    return folder, files


def _content_here(source: NetworkSource) -> str:
    """The content with the paths of the code: ``CODE`` names them, and code may be moved."""
    return " ".join([content_of(source), *(str(file) for file in source.files() if _is_code(file))])


def content_of(source: NetworkSource) -> str:
    """A hash of everything that makes the network: files, code, arguments, library."""
    reference = source.reference
    hashes = [digest(file) for file in source.files()]
    about = [reference.kind, reference.target, reference.to_json()["arguments"], source.version()]
    return hashlib.sha256(json.dumps([about, hashes], default=str).encode()).hexdigest()


def shared_files(folder: Path) -> list[SharedFile]:
    """The files of tensors that have several names; most networks have none."""
    if not (folder / SHARED).exists():
        return []
    places = json.loads((folder / SHARED).read_text())
    named = {name: [(part, key) for part, key in found] for name, found in places.items()}
    return [SharedFile(folder / SHARED_WEIGHTS, named)]


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
            remedy=PREPARE_AGAIN,
        ) from error
    return {part: folder / file for part, (file, _) in index.items()}


def _key(seed: int, checkpoint: Path | None, content: str | None) -> str:
    source = f"seed {seed}" if checkpoint is None else f"checkpoint {digest(checkpoint)}"
    about = f"{FORMAT} {torch.__version__} {source}" + (f" {content}" if content else "")
    return hashlib.sha256(about.encode()).hexdigest()[:12]


def _make(network: ExaminedNetwork, folder: Path, seed: int, checkpoint: Path | None) -> None:
    if checkpoint is not None:
        source = _from_checkpoint(checkpoint, network)
    elif network.source.has_weights:
        source = _constructed(network, seed)
    else:
        source = _random(seed, network.empty.computed)
    make_folder(folder.parent, parents=True)
    with _alone(folder.parent):
        if not folder.exists():
            _write_folder(network, source, folder)


def _is_code(file: Path) -> bool:
    return file.suffix == ".py"


def _from_checkpoint(path: Path, network: ExaminedNetwork) -> Source:
    """The checkpoint's tensors.

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
    wrong = [
        problem
        for key, meta in needed.items()
        if (problem := _problem(key, meta, given, key in spare))
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


def _constructed(network: ExaminedNetwork, seed: int) -> Source:
    """The weights that the network's own constructor makes, with everything random seeded."""
    refuse_too_large(network.source.name, network.empty.model)
    tensors = named_tensors(seeded_network(network.source, seed, weights=True))
    return lambda key, meta: tensors[key]


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
        places = {place for found in shared.values() for place in found}
        for number, part in enumerate(network.cut.parts.values()):
            own = {
                key: source(part.full_name(key), meta)
                for key, meta in part.tensors().items()
                if (part.name, key) not in places
            }
            if own:
                file = f"{number:04d}.safetensors"
                index[part.name] = (file, write_tensors(half_made / file, own))
        if shared:
            metas = {name: network.cut.tensor_at(found[0]) for name, found in shared.items()}
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
