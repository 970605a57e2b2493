"""A network before anything is measured: its input, its cut into layers, its layer table.

All of it comes from forward passes on ``meta``, which take no memory. Of a network that can't run
there (its path depends on values, or it mixes in tensors of its own) they are made for real.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from torch import nn

from edgebench.errors import EdgebenchError, WorkloadError
from edgebench.layers.cut import Call, Cut, LayerPart, cut
from edgebench.layers.input_specs import parse_inputs
from edgebench.layers.references import ModelReference
from edgebench.layers.samples import (
    Sample,
    fresh_sample,
    make_sample,
    sample_on_meta,
    tensors_in,
)
from edgebench.layers.sources import known, network_source
from edgebench.layers.sources.base import NetworkSource
from edgebench.layers.sources.empty import EmptyNetwork, empty_network, seeded_network
from edgebench.layers.table import table_of
from edgebench.layers.table_row import LayerTableRow
from edgebench.layers.tied import rows_with_tied
from edgebench.units import format_size

#: A network that is run for real needs its weights, and about as much again for its work.
_REAL_SHARE = 1.5


@dataclass(frozen=True)
class ExaminedNetwork:
    """A network on ``meta`` with its cut and its layer table."""

    source: NetworkSource
    empty: EmptyNetwork
    cut: Cut
    rows: list[LayerTableRow]


def reference_of(name: str, settings: Mapping[str, Any]) -> ModelReference:
    """What the settings (or a request) say of a network; without a word it is a known one."""
    found = (settings.get("references") or {}).get(name)
    return ModelReference.from_json(found) if found else known(name)


def sample_of(
    source: NetworkSource, model: nn.Module, settings: Mapping[str, Any], batch: int
) -> Sample:
    """What the network is called with: as described in ``input``, or as it describes itself.

    Raises:
        WorkloadError: nothing describes it.
    """
    seed = settings.get("seed", 0)
    if described := settings.get("input"):
        return make_sample(parse_inputs(described), batch, seed)
    if prompt := settings.get("prompt"):
        return source.prompt(model, (batch, prompt), settings.get("new_tokens", 0), seed)
    return source.own_sample(model, batch, settings.get("image"), seed)


def examine(name: str, settings: Mapping[str, Any], batch: int = 1) -> ExaminedNetwork:
    """Build it empty, cut it, and list its layers.

    Raises:
        WorkloadError: it can't be had, or can't run on its input.
    """
    source = network_source(reference_of(name, settings))
    empty = empty_network(source, settings.get("seed", 0))
    sample = sample_of(source, empty.model, settings, batch)
    try:
        on_meta = sample_on_meta(sample)
        found = cut(empty.model, on_meta)
        rows = table_of(empty.model, on_meta, found)
        return ExaminedNetwork(source, empty, found, _tied(rows, found, empty))
    except Exception as error:
        if not source.has_weights:
            raise _cant_run(source, empty.model, sample, error) from error
    return _examined_for_real(source, empty, sample, settings.get("seed", 0))


def cut_of(source: NetworkSource, model: nn.Module, sample: Sample) -> Cut:
    """The cut of a network on ``meta``.

    Raises:
        WorkloadError: it can't run on such an input.
    """
    try:
        return cut(model, sample_on_meta(sample))
    except Exception as error:
        raise _cant_run(source, model, sample, error) from error


def _examined_for_real(
    source: NetworkSource, empty: EmptyNetwork, sample: Sample, seed: int
) -> ExaminedNetwork:
    refuse_too_large(source.name, empty.model)
    model = seeded_network(source, seed, weights=False)
    try:
        found = cut(model, fresh_sample(sample))
        rows = table_of(model, fresh_sample(sample), found)
    except EdgebenchError:
        raise
    except Exception as error:
        raise _cant_run(source, model, sample, error) from error
    return ExaminedNetwork(source, empty, _moved(found, empty.model), _tied(rows, found, empty))


def _tied(rows: list[LayerTableRow], found: Cut, empty: EmptyNetwork) -> list[LayerTableRow]:
    return rows_with_tied(rows, list(found.parts.values()), empty.tied)


def refuse_too_large(name: str, model: nn.Module) -> None:
    """A network that has to be in memory as a whole must fit there.

    Raises:
        WorkloadError: it needs more than is free.
    """
    needed = int(_REAL_SHARE * weights_bytes(model))
    free = psutil.virtual_memory().available
    if needed > free:
        raise WorkloadError(
            f"{name} needs about {format_size(needed)} to be built, and {format_size(free)} "
            "are free on this machine",
            remedy="make it smaller by its arguments, or prepare it on a larger machine",
        )


def weights_bytes(model: nn.Module) -> int:
    """Bytes of all parameters and buffers."""
    return sum(tensor.nbytes for tensor in (*model.parameters(), *model.buffers()))


def _cant_run(
    source: NetworkSource, model: nn.Module, sample: Sample, error: Exception
) -> WorkloadError:
    words = (str(error).strip().splitlines() or [type(error).__name__])[0]
    shapes = [tuple(tensor.shape) for tensor in tensors_in(sample)]
    shown = ", ".join(map(str, shapes))
    what = f"this network can't run on an input of {shown}: {words}"
    return WorkloadError(what, where=source.name, remedy=source.input_remedy(model))


def _moved(found: Cut, model: nn.Module) -> Cut:
    """The same cut of another instance of the network."""
    parts = {
        part.name: LayerPart(part.name, model.get_submodule(part.name), part.own_only, part.silent)
        for part in found.parts.values()
    }
    return Cut(parts, tuple(Call(call.order, parts[call.part.name]) for call in found.calls))


def cut_file(folder: Path, settings: Mapping[str, Any]) -> Path:
    """Where the cut is kept for the worker: another input may take another path."""
    key = json.dumps([settings.get("input"), settings.get("image")])
    return folder / f"cut-{hashlib.sha256(key.encode()).hexdigest()[:12]}.json"


def cut_as_json(found: Cut) -> bytes:
    """A cut, for :func:`stored_cut`."""
    parts = {part.name: [part.own_only, *part.silent] for part in found.parts.values()}
    return json.dumps({"parts": parts, "calls": [c.part.name for c in found.calls]}).encode()


def stored_cut(file: Path, model: nn.Module) -> Cut:
    """The cut of a network from the file that was made when it was prepared."""
    data = json.loads(file.read_text())
    parts = {
        name: LayerPart(name, model.get_submodule(name), own_only, tuple(silent))
        for name, (own_only, *silent) in data["parts"].items()
    }
    return Cut(parts, tuple(Call(n, parts[name]) for n, name in enumerate(data["calls"])))
