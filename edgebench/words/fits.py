"""Does it fit? Sentences on demand, the limits at which trials finished, and what holds the memory.

What keeps a network from fitting is told apart from what slows it: sizes of the layer table, not
times, are its reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from edgebench.kills import OBSERVER_EFFECT
from edgebench.records import is_count
from edgebench.results.facts import WorkloadFacts
from edgebench.results.point_facts import PointFacts
from edgebench.text import joined_words
from edgebench.units import format_size, swap_words
from edgebench.words.claims import before_end
from edgebench.words.labels import limit_label
from edgebench.words.need import need_words
from edgebench.words.outcomes import IMPORTING, doing_words, outcome_counts
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


def viability_sentences(workload: WorkloadFacts) -> list[str]:
    """Its demand, the limits at which it finished and those at which it did not."""
    lost = [point for point in workload.tried if "ok" not in point.outcomes]
    torn = [point for point in workload.tried if "ok" in point.outcomes and not point.finished]
    said = [_demand(workload), *_working_set(workload)]
    if not workload.tried:
        return [*said, "No limit was tried, so it is not known whether it fits in less."]
    if workload.finished:
        said.append(_finished(workload))
    said += [
        f"At {limit_label(p)} only {p.outcomes['ok']} of {p.made} trials finished "
        f"({outcome_counts([p.outcomes])}{_before_end(workload, [p])}): don't rely on this limit."
        for p in torn
    ]
    if lost:
        where = joined_words(map(limit_label, lost))
        ends = outcome_counts(p.outcomes for p in lost) + _before_end(workload, lost)
        said.append(f"No trial finished at {where}: {ends}.")
    killed = any("oom-killed" in point.outcomes for point in lost)
    if killed and workload.limits.swap_kind == "none":
        said.append("It had no swap: with swap it might finish there, slowly.")
    return [*said, *_killed_with_swap_free(workload)]


def holder_sentences(workload: WorkloadFacts, networks: Mapping[str, Any]) -> list[str]:
    """What holds most of the memory, where the kernel killed trials at a limit; else none.

    Args:
        workload: whose limits.
        networks: the sweep's layer tables, as ``networks.json`` has them.
    """
    point = workload.never_finished
    if point is None:
        return []
    where = f"What keeps it from fitting at {limit_label(point)}"
    base = None if workload.base_bytes is None else format_size(workload.base_bytes)
    doing = doing_words(point.ended_in)
    if doing == IMPORTING:
        size = f", which takes {base}" if base else ""
        return [f"{where} is no layer: it was killed while importing its runtime{size}."]
    layers = _layers_of(workload.settings, networks)
    if not layers:
        return []
    beside = f", beside the runtime's {base}" if base else ""
    killed = f"; it was killed while {doing}" if doing else ""
    return [f"{where}: {_holder_words(workload.settings, layers)}{beside}{killed}."]


def _demand(workload: WorkloadFacts) -> str:
    need = workload.need
    if need is None:
        return "Its demand is not known: no unlimited trial recorded it."
    unlimited = workload.unlimited
    trials = "one trial" if unlimited and unlimited.made == 1 else "median of its trials"
    if need.files_bytes:
        return f"Without a limit it needs {need_words(need)} ({trials})."
    return f"It needs {need_words(need)} without a limit ({trials})."


def _working_set(workload: WorkloadFacts) -> list[str]:
    needs = workload.working_set_bytes
    if needs is None:
        return []
    watched = "" if needs.count == 1 else f", median of {needs.count} rounds that were watched"
    of_that = " of that" if workload.demand_bytes is not None else ""
    less = "with less, rounds read memory again"
    if workload.limits.swap_kind == "none":
        less = "without swap what it uses no more stays in memory, too"
    return [
        f"Once running it uses {format_size(needs.median)}{of_that} in each round (its working set"
        f"{watched}): {less}."
    ]


def _finished(workload: WorkloadFacts) -> str:
    finished, viable = workload.finished, workload.viable
    if not viable:
        names = joined_words(map(limit_label, finished))
        return f"Every trial finished at {names}, but not at every wider limit: repeat the sweep."
    tightest = limit_label(viable[-1])
    if len(viable) == len(workload.tried):
        down = f", down to {tightest}" if len(viable) > 1 else f": {tightest}"
        many = "both" if len(viable) == 2 else f"all {len(viable)}"
        limits = f"{many} limits" if len(viable) > 1 else "the one limit"
        words = f"It finished at {limits} tried{down}"
    elif len(viable) == len(finished):
        words = f"The tightest limit at which every trial finished is {tightest}"
    else:
        others = joined_words(map(limit_label, finished[len(viable) :]))
        words = f"Every trial finished down to {tightest} (and at {others}, but not in between)"
    demand, size = workload.demand_bytes, viable[-1].limit_bytes
    told = demand and size and size < demand and not viable[-1].limits.label.endswith("%")
    share = f", {size / demand:.0%} of its demand" if told and demand and size else ""
    swap = workload.limits
    if swap.swap_kind == "none":
        return f"{words}{share}, without swap."
    return f"{words}{share}, with {swap_words(swap.swap_kind, swap.swap_bytes)}."


def _before_end(workload: WorkloadFacts, lost: Sequence[PointFacts]) -> str:
    """What trials were doing when the widest of these limits ended them, and how slow they were."""
    doing, slow = before_end(workload, lost[0])
    of_all = len({doing_words(point.ended_in) for point in lost}) == 1
    if len(lost) == 1 or (of_all and not slow):
        return f"{doing}, {slow}" if slow else doing
    if not doing and not slow:
        return ""
    at = f", at {limit_label(lost[0])}{doing}"
    return f"{at}{',' * bool(doing)} {slow}" if slow else at


def _killed_with_swap_free(workload: WorkloadFacts) -> list[str]:
    """Limits at which trials were killed although swap was free."""
    marked = [(p, p.swap_free_bytes) for p in workload.points if p.swap_free_bytes]
    if not marked:
        return []
    counts = [f"{free.count} of {p.made} at {limit_label(p)}" for p, free in marked]
    least = min(free.low for _, free in marked)
    return [
        f"Killed while at least {format_size(least)} of swap were free: {joined_words(counts)}. "
        "The kernel found nothing it could reclaim; another trial may finish there "
        f"({OBSERVER_EFFECT})."
    ]


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
