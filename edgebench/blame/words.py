"""The table of blame in words: what each limit costs, through which layers, and why."""

from __future__ import annotations

from collections.abc import Sequence

from edgebench.blame.table import BlameTable, Cost, LayerRow, Lost, Pass, PassCost
from edgebench.units import format_duration, format_size

GLUE = "what lies between the layers"
#: From this on, layers' times added up are no time on the clock.
OVERLAPS = 1.01
#: A layer with this share of the extra time is to blame alone, and three together with that.
_ALONE, _TOGETHER = 0.4, 0.5
#: From this share on a growth lies "nearly all" in one phase.
_NEARLY_ALL = 0.9
_PHASES = {"load": "loading", "execute": "executing"}


def said(table: BlameTable) -> list[str]:
    """A sentence a limit, from the widest to the tightest, then what a reader must know."""
    limits = [verdict(table, cost) for cost in table.costs]
    return [*limits, *(lost_words(lost, table) for lost in table.lost), *notes(table)]


def verdict(table: BlameTable, cost: PassCost) -> str:
    """One sentence: which layers cause what the limit costs, in which phase, and why."""
    if not cost.told_apart or cost.extra_s <= 0:
        return _no_verdict(table, cost)
    worst = sorted(_blames(table, cost), key=lambda blamed: -blamed[1])[:3]
    busy = " of layers' time" if cost.at.overlap > OVERLAPS else ""
    price = f"the {format_duration(cost.extra_s)}{busy} that {limit_words(cost.at)} costs a pass"
    name, blame = worst[0]
    if isinstance(name, str):
        return f"{name} causes {blame:.0%} of {price}"
    if blame >= _ALONE:
        return (
            f"{layer_words(table, name)} causes {blame:.0%} of {price}{_reason(table, cost, name)}"
        )
    rows = [row for row, _ in worst if isinstance(row, LayerRow)]
    together = sum(row.at[cost.at.label].blame or 0.0 for row in rows)
    if together >= _TOGETHER:
        names = _listed([layer_words(table, row) for row in rows])
        where = _phase([row.at[cost.at.label] for row in rows])
        return f"{names} cause {together:.0%} of {price}{where}"
    return (
        f"no layer stands out in {price}: the worst, {layer_words(table, name)}, causes {blame:.0%}"
    )


def lost_words(lost: Lost, table: BlameTable) -> str:
    """One sentence on a limit at which nothing finished."""
    outcomes = " and ".join(f"{n} {outcome}" for outcome, n in lost.outcomes.items())
    words = f"at {_named(lost.label, lost.limit_bytes)} no trial finished: {outcomes}"
    words += f", {lost.reason}" if lost.reason else ""
    base, limit = table.base_bytes, lost.limit_bytes
    if base is not None and limit is not None and limit < base:
        words += f"; the runtime alone takes {format_size(base)}"
    if "oom-killed" in lost.outcomes and table.settings.get("swap_kind") == "none":
        words += "; with --swap 2G it might finish"
    return words


def notes(table: BlameTable) -> list[str]:
    """What a reader must know so as not to be misled by the numbers."""
    passes = [table.unlimited, *(cost.at for cost in table.costs)]
    said = []
    overlapping = [one for one in passes if one.overlap > OVERLAPS]
    if overlapping:
        worst = max(overlapping, key=lambda one: one.overlap)
        said.append(
            f"{table.settings.get('schedule')} overlaps layers: their times add up to "
            f"{format_duration(worst.layers_s)} in a pass of "
            f"{format_duration(worst.clock_s.median)} on the clock (at {worst.label}); faults and "
            "peaks count what runs beside a layer too"
        )
    for one in passes:
        if one not in overlapping and abs(one.sum_s / one.clock_s.median - 1) > 0.1:
            said.append(
                f"at {one.label} the layers' medians add up to {format_duration(one.sum_s)}, the "
                f"median pass takes {format_duration(one.clock_s.median)}: passes differ"
            )
    if all(one.clock_s.count == 1 for one in passes):
        said.append("one trial at each limit: how much they differ is unknown; try --repeats 3")
    if all(row.unlimited.peak_bytes is None for row in table.layers):
        said.append("no peaks: this kernel can't reset its high-water mark")
    if table.noise:
        others = f" (and {len(table.noise) - 1} more trials)" if len(table.noise) > 1 else ""
        said.append(f"noise{others}: {table.noise[-1]}")
    return said


def limit_words(at: Pass) -> str:
    """``150.0 MiB``, or ``75% (242.1 MiB)`` for a share; ``unlimited``."""
    return _named(at.label, at.limit_bytes)


def layer_words(table: BlameTable, row: LayerRow) -> str:
    """The layer's name, with its network's where there are several."""
    several = len({layer.network for layer in table.layers}) > 1
    return f"{row.network}'s {row.name}" if several else row.name


def _named(label: str, limit_bytes: float | None) -> str:
    if limit_bytes is None:
        return "unlimited"
    size = format_size(limit_bytes)
    return f"{label} ({size})" if label.endswith("%") else size


def _blames(table: BlameTable, cost: PassCost) -> list[tuple[LayerRow | str, float]]:
    layers = [(row, row.at[cost.at.label].blame or 0.0) for row in table.layers]
    return [*layers, (GLUE, cost.glue_blame or 0.0)]


def _no_verdict(table: BlameTable, cost: PassCost) -> str:
    low, high = (
        format_duration(s) for s in (table.unlimited.clock_s.low, table.unlimited.clock_s.high)
    )
    takes = f"at {limit_words(cost.at)} a pass takes {format_duration(cost.at.clock_s.median)}"
    return f"{takes} (×{cost.slowdown:.3g}), which can't be told from unlimited ({low} to {high})"


def _reason(table: BlameTable, cost: PassCost, row: LayerRow) -> str:
    own = row.at[cost.at.label]
    return _phase([own]) + _why(table, cost, row) + _faults(own)


def _phase(costs: Sequence[Cost]) -> str:
    """``, nearly all in executing``: where the growth lies."""
    load = sum(cost.load_extra_s for cost in costs)
    execute = sum(cost.execute_extra_s for cost in costs)
    phase, part = ("load", load) if load >= execute else ("execute", execute)
    words = "nearly all" if part >= _NEARLY_ALL * (load + execute) else "mostly"
    slower = costs[0].load_slowdown if phase == "load" else costs[0].execute_slowdown
    times = f" (×{slower:.3g})" if slower and len(costs) == 1 else ""
    return f", {words} in {_PHASES[phase]}{times}"


def _why(table: BlameTable, cost: PassCost, row: LayerRow) -> str:
    """What of sizes explains it; nothing where they don't."""
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


def _faults(cost: Cost) -> str:
    faults = cost.steps.major_faults
    return f"; {faults:,.0f} major faults a pass" if faults else ""


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
