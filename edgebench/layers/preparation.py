"""Networks' layer tables, with weights on disk or without, made outside any limit."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from edgebench.errors import WorkloadError
from edgebench.layers.disk import read_through
from edgebench.layers.examination import ExaminedNetwork, cut_file, examine
from edgebench.layers.layer_table import LayerTableRow, table_with_sizes
from edgebench.layers.weights import content_of, prepare_weights
from edgebench.safe_files import write


def manifest(request: dict[str, Any]) -> dict[str, Any]:
    """Each network's folder, layer table and sizes, with its weights on disk.

    The request: ``networks``, ``cache``, and if they differ from these, ``seed`` (0),
    ``checkpoints`` (network → path; none), ``batch`` (1), ``image`` and ``input`` (each network's
    own), ``references`` (of networks that are not known by name).

    Raises:
        WorkloadError: no such network, a checkpoint that doesn't fit, or no space for weights.
    """
    try:
        networks = {name: _network(name, request) for name in request["networks"]}
    except OSError as error:
        raise WorkloadError(
            f"weights can't be written: {error.strerror}",
            where=error.filename,
            remedy="free some space",
        ) from error
    return {"networks": networks, "versions": _versions()}


def _versions() -> dict[str, str]:
    found = {"torch": str(torch.__version__)}
    with suppress(PackageNotFoundError):
        found["torchvision"] = version("torchvision")
    return found


def _network(name: str, request: dict[str, Any]) -> dict[str, Any]:
    checkpoint = request.get("checkpoints", {}).get(name)
    # The table first: it is the one that finds an image too small, and quickly.
    network = examine(name, request, request.get("batch", 1))
    folder, files = prepare_weights(
        network,
        Path(request["cache"]),
        request.get("seed", 0),
        Path(checkpoint) if checkpoint else None,
    )
    made: dict[str, Any] = {"folder": str(folder)}
    if network.source.has_weights:
        # A network measured with another input may take another path through itself.
        write(cut_file(folder, request), network.cut.to_json().encode())
        made["content"] = content_of(network.source)
        made["built_light"] = network.empty.light
    read_through(sorted(folder.glob("*.safetensors")))
    none = (None, 0)
    rows = [
        replace(row, file=files.get(row.part, none)[0], file_bytes=files.get(row.part, none)[1])
        for row in network.rows
    ]
    return {**made, **_sizes(rows, network)}


def describe_layers(request: dict[str, Any]) -> dict[str, Any]:
    """Each network's layer table and sizes, without weights on disk.

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
    """Tensors with several names count once, though the row of each part counts them."""
    made = table_with_sizes(rows)
    twice_bytes = sum(
        (len(places) - 1) * network.cut.tensor_at(places[0]).nbytes
        for places in network.tied.values()
    )
    return made | {key: made[key] - twice_bytes for key in ("parameter_bytes", "file_bytes")}
