"""Sentences on a table of layer costs: the extra time at each limit, its layers and causes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from edgebench.results.spread import SLIGHT
from edgebench.text import as_sentence, joined_words
from edgebench.units import MIB, format_duration, format_limit, format_size, times_as_long
from edgebench.words.claims import why_unsure
from edgebench.words.doubts import collection_note, doubt_sentences

if TYPE_CHECKING:
    from edgebench.analysis.layer_costs.peaks import PeakMethod
    from edgebench.analysis.layer_costs.table import (
        LayerCostTable,
        LayerExtraTime,
        LayerRow,
        PassCost,
        UnfinishedLimit,
    )

GLUE = "the time between layers"
#: From this overlap on, the sum of layers' times is not elapsed time.
OVERLAPS = 1.01
#: The share of the extra time from which one layer is named alone, and three together.
_ALONE, _TOGETHER = 0.4, 0.5
#: The share from which the extra time is "nearly all" in one phase.
_NEARLY_ALL = 0.9
_PHASES = {"load": "loading", "execute": "executing"}
_LEGEND = "medians of the trials; "
_UNLIMITED_LEGEND = (
    "cold: the first execution; warm: a later one; peak: the kernel's, page cache included; above: "
    "the peak above the usage before the layer; share %: the layer's share of a round"
)
_LIMITED_LEGEND = "extra %: the layer's share of the extra time of a round"
PEAKS_TITLE = "peaks of loading and first execution by memory strategy, unlimited, MiB"


def no_cause_sentence(table: LayerCostTable | None) -> str:
    """Why no layer is named as the cause of a slowdown."""
    if table is None:
        return "No layer was timed both unlimited and at a limit."
    if table.tightest() is None:
        return "No trial finished under a limit, so no layer can be compared."
    return "No limit surely slows it, so no layer is to blame."


def layer_cost_sentences(table: LayerCostTable) -> list[str]:
    """A sentence per limit, from the widest to the tightest, then warnings."""
    limits = [cause_sentence(table, cost) for cost in table.costs]
    return [
        *limits,
        *(unfinished_sentence(limit, table) for limit in table.unfinished),
        *warning_sentences(table),
    ]


def cause_sentence(table: LayerCostTable, cost: PassCost, *, alone: bool = False) -> str:
    """One sentence: the layers that cause the extra time, their phase, and the reason.

    ``alone``: with a full stop, and with a capital unless it begins with a layer's name.
    """
    begins_with_name, words = _cause(table, cost)
    if not alone:
        return words
    return f"{words}." if begins_with_name else as_sentence(words)


def _cause(table: LayerCostTable, cost: PassCost) -> tuple[bool, str]:
    """Whether it begins with a layer's name; the sentence."""
    if not cost.surely_slower or cost.extra_s <= 0:
        return False, _no_verdict(cost)
    label = cost.at.label
    busy = " of layers' time" if cost.at.overlap > OVERLAPS else ""
    price = f"the {format_duration(cost.extra_s)}{busy} that {cost.at.limit} adds to a round"
    worst = sorted(table.layers, key=lambda row: -_extra_share(row, label))[:3]
    glue = cost.glue_extra_share or 0.0
    share = _extra_share(worst[0], label) if worst else 0.0
    if not worst or (glue >= _ALONE and glue > share):
        return False, f"{GLUE} causes {glue:.0%} of {price}"
    if not worst[0].at[label].surely_slower:
        why = "each layer's own repeats differ by more"
        return False, f"can't tell which layer causes {price}: {why}"
    if share >= _ALONE:
        own = worst[0].at[label]
        faults = own.steps.major_faults
        reason = _phase([own]) + _why(table, cost, worst[0])
        reason += f"; {faults:,.0f} major faults a round" if faults else ""
        return True, f"{layer_label(table, worst[0])} causes {share:.0%} of {price}{reason}"
    names, rows = _together(table, label, worst)
    if rows:
        together = sum(_extra_share(row, label) for row in rows)
        phase = _phase([row.at[label] for row in rows])
        return True, f"{names} cause {together:.0%} of {price}{phase}"
    return False, (
        f"no layer stands out in {price}: the worst, {layer_label(table, worst[0])}, causes "
        f"{share:.0%}"
    )


def _extra_share(row: LayerRow, label: str) -> float:
    return row.at[label].extra_share or 0.0


def _together(
    table: LayerCostTable, label: str, worst: Sequence[LayerRow]
) -> tuple[str, Sequence[LayerRow]]:
    """Layers that cause most of the extra time together, and their names; none if none do.

    The worst few, or else the smallest part of the network that does.
    """

    def cause_most(rows: Sequence[LayerRow]) -> bool:
        return sum(_extra_share(row, label) for row in rows) >= _TOGETHER

    rows = [row for row in worst if row.at[label].surely_slower]
    if cause_most(rows):
        return joined_words(layer_label(table, row) for row in rows), rows
    parts: dict[str, list[LayerRow]] = {}
    for row in table.layers:
        words = layer_label(table, row).split(".")
        for depth in range(1, len(words)):
            parts.setdefault(".".join(words[:depth]), []).append(row)
    small = [part for part in parts.items() if len(part[1]) <= len(table.layers) / 2]
    sure = [(name, [row for row in own if row.at[label].surely_slower]) for name, own in small]
    found = [(name, own) for name, own in sure if cause_most(own)]
    if not found:
        return "", []
    name, rows = min(found, key=lambda part: len(part[1]))
    return f"{len(rows)} layers of {name}", rows


def layers_sentence(table: LayerCostTable, shown: Sequence[PassCost], name: str) -> str:
    """The need, the slowdown at the tightest limit that is shown and the layers that cause it.

    Limits that no trial finished follow, or come first where there is no other.
    """
    need = table.demand_bytes
    words = [f"{name or table.network} needs {format_size(need)}"] if need is not None else []
    lost = [unfinished_sentence(limit, table) for limit in table.unfinished]
    if not shown:
        return "; ".join([*words, *lost, unlimited_sentence(table)]) + "."
    tightest = shown[-1]
    if tightest.surely_slower:
        words.append(f"takes {times_as_long(tightest.slowdown)} at {tightest.at.limit}")
    return "; ".join([*words, cause_sentence(table, tightest), *lost]) + "."


def unlimited_title(table: LayerCostTable) -> str:
    """Above the layers without a limit: how long a round takes."""
    clock = format_duration(table.unlimited.clock_s.median)
    return f"unlimited: a round takes {clock}{_warm(table)}"


def _warm(table: LayerCostTable) -> str:
    """How many warm executions the time of a pass contains."""
    steps = (row.unlimited.execute for row in table.layers)
    times = max((step.times for step in steps if step), default=0)
    return f", {times:g} warm executions in it" if times else ""


def limited_title(cost: PassCost) -> str:
    """Above the layers at a limit: how long a round takes."""
    clock = format_duration(cost.at.clock_s.median)
    return f"at {cost.at.limit}: a round takes {clock}, {times_as_long(cost.slowdown)}"


def columns_legend(costs: Sequence[Sequence[PassCost]], verbose: bool) -> str:
    """What the columns of the tables mean that are shown."""
    words = [_UNLIMITED_LEGEND] if verbose or not all(costs) else []
    words += [_LIMITED_LEGEND] if any(costs) else []
    return _LEGEND + "; ".join(words)


def peak_method_words(method: PeakMethod) -> str:
    """How a strategy measures a peak, and its error."""
    off = "" if method.error_bytes is None else f"±{method.error_bytes / MIB:.2g} MiB: "
    return f"{method.strategy}: {method.method}; {off}{method.error_source}"


def unlimited_sentence(table: LayerCostTable) -> str:
    """One sentence: how long a round takes without a limit, and which layers take most of it."""
    worst = sorted(table.layers, key=lambda row: -row.share)[:2]
    most = joined_words(f"{layer_label(table, row)} ({row.share:.0%})" for row in worst)
    clock = format_duration(table.unlimited.clock_s.median)
    return f"without a limit a round takes {clock}, the most in {most}"


def unfinished_sentence(limit: UnfinishedLimit, table: LayerCostTable) -> str:
    """One sentence on a limit at which nothing finished."""
    why = limit.reason or ""
    outcomes = " and ".join(f"{n} {outcome}" for outcome, n in limit.outcomes.items())
    if list(limit.outcomes) == ["oom-killed"] and why:
        # The reason names the outcome.
        outcomes, reason = f"{limit.outcomes['oom-killed']} {why}", ""
    else:
        reason = f", {why}" if why else ""
    words = f"no trial finished at {format_limit(limit.label, limit.limit_bytes)}: "
    words += outcomes + reason
    base, size = table.base_bytes, limit.limit_bytes
    if base is not None and size is not None and size < base:
        words += f"; the runtime alone takes {format_size(base)}"
    if "oom-killed" in limit.outcomes and table.settings.get("swap_kind") == "none":
        words += "; with --swap 2G it might finish"
    return words


def warning_sentences(table: LayerCostTable) -> list[str]:
    """Warnings that a reader of the numbers needs."""
    passes = [table.unlimited, *(cost.at for cost in table.costs)]
    found = []
    overlapping = [one for one in passes if one.overlap > OVERLAPS]
    if overlapping:
        worst = max(overlapping, key=lambda one: one.overlap)
        found.append(
            f"{table.settings.get('schedule')} overlaps layers: their times add up to "
            f"{format_duration(worst.layers_s)} in a round of "
            f"{format_duration(worst.clock_s.median)} on the clock (at {worst.label}); faults and "
            "peaks count what runs beside a layer too"
        )
    for one in passes:
        if one not in overlapping and abs(one.sum_s / one.clock_s.median - 1) > 0.1:
            found.append(
                f"at {one.label} the layers' medians add up to {format_duration(one.sum_s)}, the "
                f"median round takes {format_duration(one.clock_s.median)}: rounds differ"
            )
    if all(one.clock_s.count == 1 for one in passes):
        found.append("one trial per limit, so their spread is unknown; try --repeats 3")
    if table.settings.get("node_times"):
        found.append("nodes have no peaks: ONNX Runtime's profiler knows times, and no memory")
    elif all(row.unlimited.peak_bytes is None for row in table.layers):
        found.append("no peaks: this kernel can't reset its high-water mark")
    if table.collections_s:
        found.append(collection_note(table.collections_s))
    return [*found, *doubt_sentences(table.doubts)]


def layer_label(table: LayerCostTable, row: LayerRow) -> str:
    """The layer's name, with its network's where there are several."""
    several = len({layer.network for layer in table.layers}) > 1
    return f"{row.network}'s {row.name}" if several else row.name


def _no_verdict(cost: PassCost) -> str:
    ratio = cost.ratio
    words = (
        f"at {cost.at.limit} a round takes {format_duration(cost.at.clock_s.median)} "
        f"({times_as_long(ratio.median)})"
    )
    if ratio.is_less:
        return f"{words}, so it is faster there"
    if ratio.is_more:
        return f"{words}, but its layers' times do not add up to more than unlimited"
    if ratio.is_within(SLIGHT):
        return f"{words}, at most 10 % slower"
    return f"{words}: {why_unsure(ratio)}"


def _phase(costs: Sequence[LayerExtraTime]) -> str:
    """``, nearly all in executing``: the phase with most of the extra time."""
    load = sum(cost.load_extra_s for cost in costs)
    execute = sum(cost.execute_extra_s for cost in costs)
    phase, part = ("load", load) if load >= execute else ("execute", execute)
    words = "nearly all" if part >= _NEARLY_ALL * (load + execute) else "mostly"
    slower = costs[0].load_slowdown if phase == "load" else costs[0].execute_slowdown
    times = f" ({times_as_long(slower)})" if slower and len(costs) == 1 else ""
    return f", {words} in {_PHASES[phase]}{times}"


def _why(table: LayerCostTable, cost: PassCost, row: LayerRow) -> str:
    """The reason by sizes; empty where sizes don't explain it."""
    base, limit = table.base_bytes, cost.at.limit_bytes
    if base is None or limit is None:
        return ""
    own = row.parameter_bytes or 0.0
    runtime = f"the runtime's {format_size(base)}"
    if base >= limit:
        on_top = f", its {format_size(own)} of weights on top" if own > 0.01 * limit else ""
        return f": {runtime} alone don't fit{on_top}"
    if own > limit - base:
        return f": its {format_size(own)} of weights don't fit beside {runtime}"
    every = sum(layer.parameter_bytes or 0.0 for layer in table.layers)
    if table.settings.get("schedule") == "bulk" and every > limit - base:
        return f": all layers' {format_size(every)} of weights don't fit beside {runtime}"
    return ""
