"""A network before anything is measured: its input, its cut into layers, its layer table.

All of it comes from forward passes on ``meta``, which take no memory. Of a network that can't run
there (its path depends on values, or it mixes in tensors of its own) they are made for real.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from edgebench.errors import EdgebenchError, WorkloadError
from edgebench.layers.disk import refuse_too_large
from edgebench.layers.input_specs import parse_inputs
from edgebench.layers.network import (
    CallArguments,
    Cut,
    LayerPart,
    Place,
    Sample,
    cut,
    make_sample,
    map_sample,
    run_model,
    tensors_in,
    watching,
)
from edgebench.layers.references import KNOWN, ModelReference
from edgebench.layers.sources import (
    EmptyNetwork,
    NetworkSource,
    empty_network,
    network_source,
    seeded,
    seeded_network,
)


@dataclass(frozen=True)
class LayerTableRow:
    """One layer. Bytes at the network's own precision; ``flops`` of one forward pass.

    ``part`` names the module whose weights it uses: two layers may share one. A row of a
    container's own parameters has type ``… (own)`` and no output. ``live_…_bytes`` are the
    tensors alive before, at most during, and after its execution, the network's input among them
    and weights not; ``workspace_bytes`` is what convolutions copy beside the most of these.
    ``tied_bytes``: of its weights those that other parts use too, by name; they are loaded once.
    """

    order: int
    name: str
    type: str
    part: str
    parameter_bytes: int
    buffer_bytes: int
    output_bytes: int
    flops: int
    live_before_bytes: int = 0
    live_peak_bytes: int = 0
    live_after_bytes: int = 0
    workspace_bytes: int = 0
    file: str | None = None
    file_bytes: int = 0
    tied_bytes: dict[str, int] = field(default_factory=dict)


#: A network that is run for real needs its weights, and about as much again for its work.
_REAL_SHARE = 1.5
#: Convolutions of so few channels read the plain layout.
_PLAIN_CHANNELS = 3


@dataclass(frozen=True)
class ExaminedNetwork:
    """A network on ``meta`` with its cut and its layer table.

    ``tied``: tensors that several places use, see :meth:`Cut.tied_places`.
    """

    source: NetworkSource
    empty: EmptyNetwork
    cut: Cut
    tied: dict[str, list[Place]]
    rows: list[LayerTableRow]


def reference_of(name: str, settings: Mapping[str, Any]) -> ModelReference:
    """Return the reference that settings (or a request) give; by default a known network's."""
    reference = (settings.get("references") or {}).get(name)
    return ModelReference.from_json(reference) if reference else ModelReference(KNOWN, name, name)


def sample_of(
    source: NetworkSource, model: nn.Module, settings: Mapping[str, Any], batch: int
) -> Sample:
    """Make the network's input as ``input`` or ``prompt`` describe it, or the network itself.

    Raises:
        WorkloadError: nothing describes it; or a prompt, of a network that has no vocabulary or
            takes fewer tokens.
    """
    seed = settings.get("seed", 0)
    if described := settings.get("input"):
        return make_sample(parse_inputs(described), batch, seed)
    prompt = settings.get("prompt")
    if not prompt:
        return source.own_sample(model, batch, settings.get("image"), seed)
    config: Any = getattr(model, "config", None)
    words = getattr(config, "vocab_size", None)
    if not isinstance(words, int):
        raise WorkloadError(
            "it generates no text: its configuration has no vocab_size",
            where=source.name,
            remedy="leave prompt and new_tokens out, or name a language model: transformers:gpt2",
        )
    most, new_tokens = (
        getattr(config, "max_position_embeddings", None),
        settings.get("new_tokens", 0),
    )
    if isinstance(most, int) and prompt + new_tokens > most:
        raise WorkloadError(
            f"a prompt of {prompt} tokens and {new_tokens} new ones: it takes {most} at most",
            where=source.name,
            remedy="make prompt or new_tokens smaller",
        )
    tokens = torch.randint(words, (batch, prompt), generator=seeded(seed))
    # The layer table has no cache: its bytes are measured, and a row of their own in ledgers.
    return CallArguments(kwargs={"input_ids": tokens, "use_cache": False})


def examine(name: str, settings: Mapping[str, Any], batch: int = 1) -> ExaminedNetwork:
    """Build it empty, cut it, and list its layers.

    Raises:
        WorkloadError: it can't be built, or can't run on its input.
    """
    source = network_source(reference_of(name, settings))
    seed = settings.get("seed", 0)
    empty = empty_network(source, seed)
    sample = sample_of(source, empty.model, settings, batch)
    try:
        network_cut, rows = _cut_and_table(empty.model, _on_meta(sample), empty)
    except Exception as error:
        if not source.has_weights:
            raise _cant_run(source, empty.model, sample, error) from error
        refuse_large_model(source.name, empty.model)
        model = seeded_network(source, seed, weights=False)
        try:
            network_cut, rows = _cut_and_table(model, sample, empty)
        except EdgebenchError:
            raise
        except Exception as real_error:
            raise _cant_run(source, model, sample, real_error) from real_error
        network_cut = Cut.from_json(network_cut.to_json(), empty.model)
    return ExaminedNetwork(source, empty, network_cut, network_cut.tied_places(empty.tied), rows)


def _cut_and_table(
    model: nn.Module, sample: Sample, empty: EmptyNetwork
) -> tuple[Cut, list[LayerTableRow]]:
    # Of copies: a network may write into its input.
    network_cut = cut(model, map_sample(sample, torch.clone))
    return network_cut, table_of(model, map_sample(sample, torch.clone), network_cut, empty.tied)


def cut_of(source: NetworkSource, model: nn.Module, sample: Sample) -> Cut:
    """Cut a network on ``meta``.

    Raises:
        WorkloadError: it can't run on such an input.
    """
    try:
        return cut(model, _on_meta(sample))
    except Exception as error:
        raise _cant_run(source, model, sample, error) from error


def _on_meta(sample: Sample) -> Sample:
    return map_sample(sample, lambda tensor: tensor.to("meta"))


def refuse_large_model(name: str, model: nn.Module) -> None:
    """Refuse a network that has to be run for real and does not fit into memory.

    Raises:
        WorkloadError: it needs more than is free.
    """
    weights = sum(tensor.nbytes for tensor in (*model.parameters(), *model.buffers()))
    refuse_too_large(name, int(_REAL_SHARE * weights))


def _cant_run(
    source: NetworkSource, model: nn.Module, sample: Sample, error: Exception
) -> WorkloadError:
    words = (str(error).strip().splitlines() or [type(error).__name__])[0]
    shapes = ", ".join(str(tuple(tensor.shape)) for tensor in tensors_in(sample))
    what = f"this network can't run on an input of {shapes}: {words}"
    return WorkloadError(what, where=source.name, remedy=source.input_remedy(model))


def cut_file(folder: Path, settings: Mapping[str, Any]) -> Path:
    """Name the file that keeps the cut for the worker: another input may take another path."""
    key = json.dumps([settings.get("input"), settings.get("image")])
    return folder / f"cut-{hashlib.sha256(key.encode()).hexdigest()[:12]}.json"


def table_of(
    model: nn.Module, sample: Sample, network_cut: Cut, tied: Sequence[Sequence[str]]
) -> list[LayerTableRow]:
    """List the layers of a cut network in the order of their calls; ``meta`` takes no memory.

    FLOPs count multiplications and additions of matrix products, convolutions and attention
    (``torch.utils.flop_counter``); other operations count as none. ``tied``: groups of names that
    are one tensor.
    """
    tied_bytes: dict[str, dict[str, int]] = {}
    for name, places in network_cut.tied_places(tied).items():
        for part_name, _ in places:
            tied_bytes.setdefault(part_name, {})[name] = network_cut.tensor_at(places[0]).nbytes
    rows: list[LayerTableRow] = []
    inside: list[tuple[int, int]] = []
    counter, alive = FlopCounterMode(display=False), _Liveness(sample, model)

    def enter(part: LayerPart) -> None:
        inside.append((len(rows), counter.get_total_flops()))
        tensors = {id(tensor): tensor for tensor in part.tensors().values()}.values()
        row = LayerTableRow(
            order=len(rows),
            name=part.name or "(network)",
            type=type(part.module).__name__ + (" (own)" if part.own_only else ""),
            part=part.name,
            parameter_bytes=sum(t.nbytes for t in tensors if isinstance(t, nn.Parameter)),
            buffer_bytes=sum(t.nbytes for t in tensors if not isinstance(t, nn.Parameter)),
            output_bytes=0,
            flops=0,
            live_before_bytes=alive.now_bytes,
            tied_bytes=tied_bytes.get(part.name, {}),
        )
        rows.append(row)
        alive.restart()

    def leave(part: LayerPart, output: Any) -> None:
        order, before = inside.pop()
        if not part.own_only:
            rows[order] = replace(
                rows[order],
                flops=counter.get_total_flops() - before,
                output_bytes=sum(tensor.nbytes for tensor in tensors_in(output)),
                live_peak_bytes=alive.peak_bytes,
                live_after_bytes=alive.now_bytes,
                workspace_bytes=alive.working_bytes - alive.peak_bytes,
            )

    # Not inference mode: under it, operations made of others would not show what these make.
    with counter, alive, torch.no_grad(), watching(network_cut.parts.values(), enter, leave):
        run_model(model, sample)
    return rows


class _Liveness(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the bytes of all tensors made under it, and of the input.

    Weights don't count, nor do views of them. ``now_bytes`` are alive; ``peak_bytes`` is the most
    since :meth:`restart`, and ``working_bytes`` the most together with the copies that
    convolutions make.
    """

    def __init__(self, sample: Sample, model: nn.Module) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now_bytes = self.peak_bytes = self.working_bytes = 0
        weights = itertools.chain(model.parameters(), model.buffers())
        self._known = {tensor.untyped_storage()._cdata for tensor in weights}
        for tensor in tensors_in(sample):
            self._count(tensor)

    def restart(self) -> None:
        self.peak_bytes = self.working_bytes = self.now_bytes

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(output):
            if isinstance(leaf, torch.Tensor):
                self._count(leaf)
        if func is torch.ops.aten.convolution.default:
            # oneDNN computes in a layout of its own (ATen/native/mkldnn/Conv.cpp): copies of
            # weights, input and output first; then the plain output beside its copy, the others
            # being gone. That output, counted as alive already, is made after the computation.
            inside, weight = args[:2]
            copied_input = 0 if inside.shape[1] <= _PLAIN_CHANNELS else inside.nbytes
            copies = max(weight.nbytes + copied_input, output.nbytes)
            self.working_bytes = max(self.working_bytes, self.now_bytes + copies)
        return output

    def _count(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._known:
            return
        self._known.add(key)
        self.now_bytes += storage.nbytes()
        self.peak_bytes = max(self.peak_bytes, self.now_bytes)
        self.working_bytes = max(self.working_bytes, self.now_bytes)
        weakref.finalize(storage, self._forget, key, storage.nbytes())

    def _forget(self, key: int, size_bytes: int) -> None:
        self._known.discard(key)
        self.now_bytes -= size_bytes
