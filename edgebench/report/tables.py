"""A report's tables: workloads side by side, a workload's limits and layers, fits, environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from edgebench.report.page import Table
from edgebench.report.sentences import hardly_slowed
from edgebench.report.workload import Workload, briefly, limit_words
from edgebench.units import format_duration, format_size

if TYPE_CHECKING:
    from edgebench.blame.table import BlameTable, LayerRow, PassCost
    from edgebench.results.summary import PointSummary, Spread
    from edgebench.slowdown.ladder import Climb

_TIMES = {"total": "whole", "load": "loading", "first": "first", "execute": "warm"}
_MOST_LAYERS = 10
_NOTHING = "–"
#: What of the environment is told, and how it is called.
_MACHINE = {
    "device": "device",
    "board": "board",
    "cpu_model": "processor",
    "cpu_cores_usable": "usable cores",
    "governor": "governor",
    "architecture": "architecture",
    "os": "system",
    "kernel": "kernel",
    "swappiness": "swappiness",
    "page_cluster": "page cluster",
    "thp": "huge pages",
    "python": "Python",
    "edgebench": "edgebench",
    "captured_utc": "captured",
}


def summary_table(chapters: Sequence[Workload], blamed: Mapping[str, str]) -> Table:
    """One row a workload; ``blamed`` names by workload the layer that costs most.

    What is the same of all is told once, below.
    """
    brief, shared = briefly([one.name for one in chapters])
    columns = ("workload", "demand", "finishes down to", "slowdown there", "≤ 10 % slower down to")
    rows = [[brief[one.name], *_in_short(one), blamed.get(one.name, _NOTHING)] for one in chapters]
    note = f"All of them: {shared}." if shared else ""
    return Table("In short", (*columns, "most to blame there"), rows, frozenset({1, 3}), note)


def limits_table(workload: Workload) -> Table:
    """One row a limit: how trials ended, their times, slowdown, peak."""
    names = [name for name in _TIMES if any(name in p.times_s for p in workload.points)]
    columns = (
        *("limit", "MiB", "finished"),
        *(f"{_TIMES[name]} (s)" for name in names),
        *("slowdown", "peak (MiB)", "swap (MiB)"),
    )
    rows = [_limit_row(point, names) for point in workload.points]
    return Table(
        "Limits",
        columns,
        rows,
        frozenset({1, *range(3, len(columns))}),
        "Medians of the trials that finished, ± the farthest of them. "
        "A peak with * met the limit, so it is not the demand.",
    )


def layers_table(table: BlameTable, cost: PassCost) -> Table:
    """The layers that cause most of what a limit costs."""
    from edgebench.blame.choosing import ordered
    from edgebench.blame.words import limit_words as words_of

    label = cost.at.label
    worst = [r for r in ordered(table, "blame", label) if r.at[label].extra_s > 0][:_MOST_LAYERS]
    several = len({row.network for row in table.layers}) > 1
    columns = ("layer", "type", "weights (MiB)", "blame", "extra", "loading", "executing", "faults")
    return Table(
        f"Layers at {words_of(cost.at)}",
        columns,
        [_layer_row(row, label, several) for row in worst],
        frozenset(range(2, len(columns))),
        "Blame: a layer's share of the extra time of a pass. Loading, executing: × unlimited.",
    )


def fits_table(climbs: Sequence[Climb]) -> Table:
    """One row a curve: the nearest model and how far it is off."""
    columns = ("curve", "limits", "nearest model", "error", "median error", "repeats differ by")
    rows = []
    for climb in climbs:
        step = climb.recommended
        errors = step.errors if step else None
        noise = climb.curve.noise
        rows.append(
            [
                climb.curve.label,
                str(len(climb.curve.limits)),
                step.rung.name if step else _NOTHING,
                f"{errors.mape:.1%}" if errors else _NOTHING,
                f"{errors.median_ape:.1%}" if errors else _NOTHING,
                f"{noise:.1%}" if noise is not None else _NOTHING,
            ]
        )
    note = (
        "Of each curve's own models. Error: of the predicted time at a limit that was left out of "
        "the fit, mean and median."
    )
    return Table("Fits", columns, rows, frozenset({1, 3, 4, 5}), note)


def unfinished_table(workloads: Sequence[Workload]) -> Table:
    """Why trials did not finish, each wording once a point."""
    rows = [
        [one.name, limit_words(point), reason]
        for one in workloads
        for point in one.points
        for reason in point.reasons
    ]
    return Table("Trials that did not finish", ("workload", "limit", "why"), rows)


def environment_table(environment: Mapping[str, Any]) -> Table:
    """The machine as it was when the sweep began; what it doesn't tell is left out."""
    rows = [[name, str(environment[key])] for key, name in _MACHINE.items() if environment.get(key)]
    if isinstance(ram := environment.get("ram_bytes"), int):
        rows.append(["memory", format_size(ram)])
    swaps = environment.get("swap")
    for swap in swaps if isinstance(swaps, list) else []:
        size = swap.get("size_bytes") if isinstance(swap, dict) else None
        if isinstance(size, int):
            rows.append(["swap", f"{swap.get('kind', 'unknown')}, {format_size(size)}"])
    if isinstance(cgroup := environment.get("cgroup"), dict) and cgroup.get("version"):
        rows.append(["cgroup", f"v{cgroup['version']}"])
    if isinstance(git := environment.get("git"), dict) and git.get("commit"):
        changed = ", with changes" if git.get("changed") else ""
        rows.append(["commit", f"{str(git['commit'])[:10]}{changed}"])
    libraries = environment.get("libraries")
    if isinstance(libraries, dict):
        known = [f"{name} {version}" for name, version in libraries.items() if version]
        rows += [["libraries", ", ".join(known)]] if known else []
    return Table("Environment", ("", ""), rows)


def worst_layer(table: BlameTable) -> str:
    """The layer most to blame at the tightest limit, with its share; ``–`` if none is."""
    cost = table.tightest()
    if cost is None or not cost.told_apart or cost.extra_s <= 0:
        return _NOTHING
    worst = max(table.layers, key=lambda row: row.at[cost.at.label].extra_s)
    return f"{worst.name}, {worst.at[cost.at.label].blame or 0:.0%}"


def _in_short(workload: Workload) -> list[str]:
    demand, finished = workload.demand_bytes, workload.finished
    hardly = hardly_slowed(workload)
    slowdown = finished[-1].slowdowns.get("total") if finished else None
    return [
        _NOTHING if demand is None else format_size(demand),
        limit_words(finished[-1])
        if finished
        else "no limit tried"
        if not workload.tried
        else "none",
        _times(slowdown) or _NOTHING,
        limit_words(hardly) if hardly else _NOTHING,
    ]


def _limit_row(point: PointSummary, names: Sequence[str]) -> list[str]:
    made = sum(point.outcomes.values())
    others = [f"{n} {outcome}" for outcome, n in point.outcomes.items() if outcome != "ok"]
    finished = f"{point.outcomes.get('ok', 0)} of {point.planned or made}"
    size = point.limit_bytes if point.limit_bytes is not None else point.limits.memory_bytes
    return [
        point.limits.label,
        _mib(size),
        ", ".join([finished, *others]),
        *(_spread(point.times_s.get(name)) for name in names),
        _times(point.slowdowns.get("total")),
        _mib(point.peak_bytes.median if point.peak_bytes else None)
        + ("*" if point.saturated else ""),
        _mib(point.swap_peak_bytes.median if point.swap_peak_bytes else None),
    ]


def _layer_row(row: LayerRow, label: str, several: bool) -> list[str]:
    cost = row.at[label]
    faults = cost.steps.major_faults
    return [
        f"{row.network} {row.name}" if several else row.name,
        row.type,
        _mib(row.parameter_bytes, 1),
        "" if cost.blame is None else f"{cost.blame:.0%}",
        format_duration(cost.extra_s),
        _times(cost.load_slowdown),
        _times(cost.execute_slowdown),
        "" if faults is None else f"{faults:,.0f}",
    ]


def _mib(size_bytes: float | None, digits: int = 0) -> str:
    return "" if size_bytes is None else f"{size_bytes / 2**20:.{digits}f}"


def _times(factor: float | None) -> str:
    return "" if factor is None else f"×{factor:.3g}" if factor < 100 else f"×{factor:.0f}"


def _spread(times: Spread | None) -> str:
    if times is None:
        return ""
    words = f"{times.median:.0f}" if times.median >= 100 else f"{times.median:.3g}"
    return f"{words} ±{times.farthest:.0%}" if times.count > 1 else words
