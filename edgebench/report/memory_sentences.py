"""What keeps a network from fitting where its limit killed it: the part that holds most memory.

It is told apart from what slows a network: sizes of the layer table, not times, are its reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from edgebench.kills import IMPORTING
from edgebench.records import is_count
from edgebench.report.workload import WorkloadPoints, limit_label
from edgebench.units import format_size
from edgebench.workloads.engines.engine import WHOLE

#: Schedules that hold all weights at once.
_HOLD_ALL = ("bulk", WHOLE)
#: The share of all memory from which one layer is named alone, and a part of the network.
_ALONE, _PART = 0.4, 0.5
#: Settings with which a network holds other bytes than its layer table says.
_OTHER_BYTES = ("engine", "precision", "accelerator", "new_tokens")


class _LayerBytes(NamedTuple):
    """What one layer holds: its weights, and tensors while it is executed."""

    name: str
    weights: int
    tensors: int


def fit_sentences(workload: WorkloadPoints, networks: Mapping[str, Any]) -> list[str]:
    """What holds most of the memory, where the kernel killed trials at a limit; else none.

    Args:
        workload: whose limits.
        networks: the sweep's layer tables, as ``networks.json`` has them.
    """
    point = next((p for p in workload.tried if "oom-killed" in p.outcomes), None)
    if point is None:
        return []
    where = f"What keeps it from fitting at {limit_label(point)}"
    base = None if workload.base_bytes is None else format_size(workload.base_bytes)
    if point.ended_in == IMPORTING:
        size = f", which takes {base}" if base else ""
        return [f"{where} is no layer: it was killed while importing its runtime{size}."]
    layers = _layers_of(workload.settings, networks)
    if not layers:
        return []
    beside = f", beside the runtime's {base}" if base else ""
    killed = f"; it was killed while {point.ended_in}" if point.ended_in else ""
    return [f"{where}: {_holder_words(workload.settings, layers)}{beside}{killed}."]


def _layers_of(settings: Mapping[str, Any], networks: Mapping[str, Any]) -> list[_LayerBytes]:
    """Each layer's bytes; empty where the table doesn't say what was in memory."""
    names = settings.get("networks")
    copied = settings.get("kind") == "inference" and settings.get("loader") == "copy"
    if not copied or not names or len(names) > 1 or any(map(settings.get, _OTHER_BYTES)):
        return []
    found = networks.get("networks")
    network = found.get(names[0]) if isinstance(found, dict) else None
    table = network.get("table") if isinstance(network, dict) else None
    rows = [row for row in table if isinstance(row, dict)] if isinstance(table, list) else []
    batch, seen = settings.get("batch") or 1, set()
    layers = []
    for row in rows:
        # What is used twice is loaded once.
        weights = 0 if row.get("part") in seen else _sum(row, "parameter_bytes", "buffer_bytes")
        seen.add(row.get("part"))
        tensors = _sum(row, "live_peak_bytes", "workspace_bytes")
        layers.append(_LayerBytes(str(row.get("name")), weights, tensors * batch))
    return layers if any(layer.weights for layer in layers) else []


def _sum(row: Mapping[str, Any], *names: str) -> int:
    return sum(row[name] for name in names if is_count(row.get(name)))


def _holder_words(settings: Mapping[str, Any], layers: Sequence[_LayerBytes]) -> str:
    """``layer4 holds the most, 32.0 MiB of the 51.3 MiB that …``."""
    if settings.get("schedule") not in _HOLD_ALL:
        most = max(layers, key=lambda layer: layer.weights + layer.tensors)
        size = format_size(most.weights + most.tensors)
        return f"of its layers {most.name} holds the most, {size} of weights and activations"
    busiest = max(layers, key=lambda layer: layer.tensors)
    whole = sum(layer.weights for layer in layers) + busiest.tensors
    of = f"of the {format_size(whole)} that weights and activations take at their peak"
    heaviest = max(layers, key=lambda layer: layer.weights)
    if max(heaviest.weights, busiest.tensors) >= _ALONE * whole:
        if busiest.tensors > heaviest.weights:
            size = format_size(busiest.tensors)
            return f"the activations of {busiest.name} hold the most, {size} {of}"
        return f"{heaviest.name} holds the most, {format_size(heaviest.weights)} {of}"
    name, weights = _heaviest_part(layers, _PART * whole)
    return f"{name} holds the most, {format_size(weights)} {of}"


def _heaviest_part(layers: Sequence[_LayerBytes], enough: float) -> tuple[str, int]:
    """The smallest part of the network with enough bytes; else the heaviest, up to half of it."""
    parts: dict[str, list[int]] = {}
    for layer in layers:
        words = layer.name.split(".")
        for depth in range(1, len(words) + 1):
            parts.setdefault(".".join(words[:depth]), []).append(layer.weights)
    small = {name: own for name, own in parts.items() if 2 * len(own) <= len(layers)}
    sums = {name: sum(own) for name, own in (small or parts).items()}
    most = [name for name, size in sums.items() if size >= enough]
    name = min(most, key=lambda one: len(parts[one])) if most else max(sums, key=sums.__getitem__)
    return name, sums[name]
