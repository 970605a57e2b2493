"""Networks made ready outside the limit, and the pipeline that is built of them inside.

In the cache of weights each network has a folder, with one file for each part. Known networks have
random weights from a seed, which don't compress: zeros would flatter zram. Their scale keeps the
activations finite. Whatever a constructor computes (index tables) is kept. Other networks have the
weights of their own constructor, and any may have those of a checkpoint.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Protocol

import torch
from torch.utils._pytree import tree_map_only

from edgebench.errors import WorkloadError
from edgebench.layers.accelerator import Accelerator
from edgebench.layers.disk import digest, read_through
from edgebench.layers.examination import (
    ExaminedNetwork,
    LayerTableRow,
    cut_file,
    cut_of,
    examine,
    reference_of,
    refuse_large_model,
    sample_of,
)
from edgebench.layers.names import ADMISSION, GENERATE, INT8, STREAM
from edgebench.layers.network import (
    PREPARE_AGAIN,
    Cut,
    LayeredNetwork,
    Sample,
    SharedFile,
    map_sample,
    named_tensors,
    some_values,
    tensor_bytes,
)
from edgebench.layers.references import refuse_changed_files
from edgebench.layers.schedules import (
    Admission,
    Bulk,
    DeepEye,
    DeepEyeFrugal,
    Generate,
    Linear,
    Partial,
    Schedule,
    Spans,
)
from edgebench.layers.sources import NetworkSource, empty_network, network_source, seeded_network
from edgebench.layers.stream import MemoryRoom, Stream, can_swap
from edgebench.layers.tensor_files import (
    LOADERS,
    int8_loader,
    loaded_bytes,
    loader_in,
    map_file,
    map_read_only,
    read_checkpoint,
    with_int8,
    write_tensors,
)
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


#: Numbers of the outputs that a trial keeps.
_VALUES = 16
SCHEDULES: dict[str, type[Schedule]] = {
    "linear": Linear,
    "bulk": Bulk,
    "partial": Partial,
    "deepeye": DeepEye,
    "deepeye-frugal": DeepEyeFrugal,
    ADMISSION: Admission,
    STREAM: Stream,
}


@dataclass(frozen=True)
class Pipeline:
    """A schedule over its networks, and an input for each."""

    schedule: Schedule
    inputs: tuple[Sample, ...]


def build_pipeline(
    settings: Mapping[str, Any], spans: Spans, accelerator: Accelerator | None = None
) -> Pipeline:
    """Build the networks without memory for weights, and make each one's input from the seed.

    With an accelerator inputs lie in its memory, and so do weights when they are loaded; outputs
    are copied back at the end of each round.

    Raises:
        WorkloadError: no such network; no weights; an image that is too small.
    """
    built = [_layered(name, settings, accelerator) for name in settings["networks"]]
    networks = [network for network, _ in built]
    schedule: Schedule
    if settings["schedule"] == GENERATE:
        schedule = Generate(networks, spans, settings["new_tokens"])
    else:
        kind = SCHEDULES[settings["schedule"]]
        free_bytes = settings.get("free_bytes")
        schedule = kind(networks, spans, settings["warm"], settings["workers"], free_bytes)
    samples = tuple(sample for _, sample in built)
    if accelerator is not None:
        samples = tuple(map_sample(sample, accelerator.to_accelerator) for sample in samples)
        schedule.fetch = lambda outputs: tree_map_only(torch.Tensor, accelerator.to_host, outputs)
    return Pipeline(schedule, samples)


def _layered(
    name: str, settings: Mapping[str, Any], accelerator: Accelerator | None
) -> tuple[LayeredNetwork, Sample]:
    source = network_source(reference_of(name, settings))
    # A name that is no network has no weights; what builds it refuses it.
    folder = Path(settings["weights"].get(name, ""))
    source.use(folder)
    model = empty_network(source, settings["seed"]).model
    sample = sample_of(source, model, settings, settings["batch"])
    loader = LOADERS[settings["loader"]]
    if settings["schedule"] == STREAM and loader is map_file:
        loader = map_read_only
    precision = settings.get("precision")
    if precision == INT8:
        model = with_int8(model)
        loader = int8_loader(model, weight_files(folder))
    elif precision:
        # Only floating-point numbers change.
        kind: torch.dtype = getattr(torch, precision)
        sample = map_sample(sample, lambda t: t.to(kind) if t.is_floating_point() else t)
        model, loader = model.to(kind), loader_in(kind)
    if accelerator is not None:
        # The host's memory is given back once it is copied.
        load, to_accelerator = loader, accelerator.to_accelerator
        loader = lambda path: {k: to_accelerator(t) for k, t in load(path).items()}  # noqa: E731
    if source.has_weights:
        refuse_changed_files(json.loads((folder / CODE).read_text()), source.name)
        network_cut = Cut.from_json(cut_file(folder, settings).read_text(), model)
    else:
        network_cut = cut_of(source, model, sample)
    files, shared = weight_files(folder), shared_files(folder)
    return LayeredNetwork(name, model, network_cut, files, loader, shared), sample


class RoundsRecorder(Spans, Protocol):
    """What rounds tell a worker's recorder beside spans."""

    def note(self, **data: Any) -> None:
        """Record anything else worth keeping."""

    def gauge(self, name: str, read: Callable[[], int]) -> None:
        """Have a strategy read this figure too, bytes."""

    def free_bytes(self, limit_bytes: int | None) -> int | None:
        """Subtract what is in use now from a limit."""


class PipelineRounds:
    """Rounds of a worker that load and execute a pipeline.

    Args:
        settings: as of :func:`build_pipeline`; ``limit_bytes``, ``swaps``.
        recorder: of the worker.
        accelerator: as of :func:`build_pipeline`.
        after_round: called at the end of each round, within its time.

    Raises:
        WorkloadError: as :func:`build_pipeline`.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        recorder: RoundsRecorder,
        accelerator: Accelerator | None,
        after_round: Callable[[], None],
    ) -> None:
        recorder.gauge("weights_bytes", loaded_bytes)
        limit = settings.get("limit_bytes")
        if settings["schedule"] == ADMISSION:
            free = recorder.free_bytes(limit)
            recorder.note(free_bytes=free)
            settings = {**settings, "free_bytes": free}
        self._pipeline = build_pipeline(settings, recorder, accelerator)
        self._recorder = recorder
        self._values: list[float | None] = []
        schedule = self._pipeline.schedule
        schedule.after_round = after_round
        if isinstance(schedule, Stream):
            swaps = bool(settings.get("swaps")) and can_swap()
            schedule.room = MemoryRoom(limit, swaps, lambda: recorder.free_bytes(limit))
        if isinstance(schedule, Generate):
            recorder.gauge("key_value_cache_bytes", schedule.cache_bytes)

    def run(self, number: int) -> list[bytes]:
        """Run one round; returns the bytes of each network's output."""
        outputs = self._pipeline.schedule.run(self._pipeline.inputs, number)
        self._values = some_values(outputs, _VALUES)
        return [b"".join(tensor_bytes(output)) for output in outputs]

    def close(self) -> None:
        """Note some values of the last outputs, and what the schedule keeps of all rounds."""
        self._recorder.note(output_values=self._values, **self._pipeline.schedule.notes())
