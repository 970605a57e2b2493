"""The tables of a report: all workloads, one workload's limits and layers, models, environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from edgebench.analysis.environments import NAMES, value_text
from edgebench.report.content import ReportTable
from edgebench.results.facts import WorkloadFacts
from edgebench.results.rounds import START, STEADY
from edgebench.results.workload_key import brief_names, short_names
from edgebench.throughput import THROUGHPUT
from edgebench.units import format_duration, format_size
from edgebench.words.labels import limit_label, throughput_column, times_shown

if TYPE_CHECKING:
    from edgebench.analysis.layer_costs.table import LayerCostTable, LayerRow, PassCost
    from edgebench.results.point_facts import PointFacts
    from edgebench.results.spread import Spread
    from edgebench.slowdown.models.fitting import CurveFits

_TIMES = {
    "import": "import",
    "total": "whole",
    "start": "start",
    "steady": "steady",
    "load": "loading",
    "first": "first",
    "execute": "warm",
    "prefill": "prefill",
    "decode": "a token",
}
_MOST_LAYERS = 10
#: Of curves: whole rounds, or trials without any, and their throughput.
_WHOLE_PHASES = (START, "total", THROUGHPUT)
_NOTHING = "–"
#: Why a walked limit's slowdown is not the quotient of two medians of the same table.
_OWN_ROUNDS = (
    "A walk compares a process with itself, so its slowdown is not the quotient of two medians. "
)


def summary_table(chapters: Sequence[WorkloadFacts], slowest: Mapping[str, str]) -> ReportTable:
    """One row a workload; ``slowest``: workload → the layer that adds most time.

    What all names share stands once, below the table.
    """
    names = [one.name for one in chapters]
    brief, (_, shared) = brief_names(names), short_names(names)
    columns = ("workload", "demand", "finishes down to", "slowdown there", "≤ 10 % slower down to")
    rows = [[brief[one.name], *_in_short(one), slowest.get(one.name, _NOTHING)] for one in chapters]
    note = f"All workloads: {shared}." if shared else ""
    if len(names) == 1 and names[0] != brief[names[0]]:
        note = f"The workload: {names[0]}."
    return ReportTable(
        "Summary", (*columns, "layer that costs most there"), rows, frozenset({1, 3}), note
    )


def limits_table(workload: WorkloadFacts) -> ReportTable:
    """One row a limit: outcomes, times, slowdown, peak."""
    shown = times_shown([workload])
    phases = {name for p in workload.points for name in p.times_s} - {"total", START, STEADY}
    names = [name for name in _TIMES if name in shown or name in phases]
    counted = throughput_column(workload)
    columns = (
        *("limit", "MiB", "finished"),
        *(f"{_TIMES[name]} (s)" for name in names),
        *counted,
        *("slowdown", "peak (MiB)", "swap (MiB)"),
    )
    rows = [_limit_row(point, names, bool(counted)) for point in workload.points]
    return ReportTable(
        "Limits",
        columns,
        rows,
        frozenset({1, *range(3, len(columns))}),
        "Medians of the trials that finished, ± the largest deviation. Import: of the runtime, by "
        "fresh processes. Start: the first round "
        "after the import. Phases: of steady rounds, if more than one was run. "
        + ("Slowdown: of the throughput. " if counted else "Slowdown: of them too. ")
        + (_OWN_ROUNDS if any(point.steady_relative for point in workload.points) else "")
        + "A peak marked * reached the limit, so it is not the demand.",
    )


def layers_table(table: LayerCostTable, cost: PassCost) -> ReportTable:
    """The layers that add most time at a limit."""
    from edgebench.analysis.layer_costs.selection import sorted_layers

    label = cost.at.label
    worst = [r for r in sorted_layers(table, "cost", label) if r.at[label].extra_s > 0][
        :_MOST_LAYERS
    ]
    several = len({row.network for row in table.layers}) > 1
    columns = ("layer", "type", "weights (MiB)", "share", "extra", "loading", "executing", "faults")
    return ReportTable(
        f"Layers at {cost.at.limit}",
        columns,
        [_layer_row(row, label, several) for row in worst],
        frozenset(range(2, len(columns))),
        "Share: the layer's part of the extra time of a round. Loading, executing: slowdown.",
    )


def fits_table(fits: Sequence[CurveFits]) -> ReportTable:
    """One row a curve of whole rounds: the model that interpolates it, and its error."""
    columns = ("curve", "limits", "model", "error", "median error", "repeats differ by")
    rows = []
    for one in (one for one in fits if one.curve.phase in _WHOLE_PHASES):
        best = one.best
        errors = best.errors if best else None
        noise = one.curve.noise
        rows.append(
            [
                one.curve.label,
                str(len(one.curve.limits)),
                best.model if best else _NOTHING,
                f"{errors.mape:.1%}" if errors else _NOTHING,
                f"{errors.median_ape:.1%}" if errors else _NOTHING,
                f"{noise:.1%}" if noise is not None else _NOTHING,
            ]
        )
    note = (
        "Models that interpolate one curve. Error: mean and median error of the predicted time at "
        "limits left out of the fit. `edgebench fit` has each phase, and models of the device."
    )
    return ReportTable("Fits", columns, rows, frozenset({1, 3, 4, 5}), note)


def unfinished_table(workloads: Sequence[WorkloadFacts]) -> ReportTable:
    """The reasons for which trials did not finish, each once a point."""
    rows = [
        [one.name, limit_label(point), reason]
        for one in workloads
        for point in one.points
        for reason in point.reasons
    ]
    return ReportTable("Trials that did not finish", ("workload", "limit", "reason"), rows)


def environment_table(environment: Mapping[str, Any]) -> ReportTable:
    """The machine when the sweep began; what could not be read stands in one row."""
    told = {**NAMES, "captured_utc": "captured"}
    known = {name: environment[key] for key, name in told.items() if key in environment}
    rows = [[name, value_text(value)] for name, value in known.items() if value is not None]
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
        versions = [f"{name} {version}" for name, version in libraries.items() if version]
        rows += [["libraries", ", ".join(versions)]] if versions else []
    unknown = ", ".join(name for name, value in known.items() if value is None)
    rows += [["not known", unknown]] if unknown else []
    return ReportTable("Environment", ("", ""), rows)


def worst_layer(table: LayerCostTable, workload: WorkloadFacts) -> str:
    """The layer that adds most time at the tightest limit, with its share; ``–`` if none does."""
    cost = table.slowed(workload)
    if cost is None:
        return _NOTHING
    worst = max(table.layers, key=lambda row: row.at[cost.at.label].extra_s)
    own = worst.at[cost.at.label]
    return f"{worst.name}, {own.extra_share or 0:.0%}" if own.surely_slower else _NOTHING


def _in_short(workload: WorkloadFacts) -> list[str]:
    demand, viable = workload.demand_bytes, workload.viable
    hardly = workload.fast
    down_to = "none" if workload.tried else "no limit tried"
    if workload.finished:
        down_to = limit_label(viable[-1]) if viable else "not at the widest limits"
    return [
        _NOTHING if demand is None else format_size(demand),
        down_to,
        _times(viable[-1].slowdown if viable else None) or _NOTHING,
        limit_label(hardly) if hardly else _NOTHING,
    ]


def _limit_row(point: PointFacts, names: Sequence[str], counted: bool) -> list[str]:
    made = sum(point.outcomes.values())
    others = [f"{n} {outcome}" for outcome, n in point.outcomes.items() if outcome != "ok"]
    # A walk may come to a limit more often than trials were planned.
    finished = f"{point.outcomes.get('ok', 0)} of {max(point.planned or 0, made)}"
    size = point.limit_bytes if point.limit_bytes is not None else point.limits.memory_bytes
    return [
        point.limits.label,
        _mib(size),
        ", ".join([finished, *others]),
        *(_spread(point.times_s.get(name)) for name in names),
        *([_throughput(point)] if counted else []),
        _times(point.slowdown),
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
        "" if cost.extra_share is None else f"{cost.extra_share:.0%}",
        format_duration(cost.extra_s),
        _times(cost.load_slowdown),
        _times(cost.execute_slowdown),
        "" if faults is None else f"{faults:,.0f}",
    ]


def _mib(size_bytes: float | None, digits: int = 0) -> str:
    return "" if size_bytes is None else f"{size_bytes / 2**20:.{digits}f}"


def _times(factor: float | None) -> str:
    return "" if factor is None else f"×{factor:.3g}" if factor < 100 else f"×{factor:.0f}"


def _throughput(point: PointFacts) -> str:
    return _spread(point.throughput_per_s)


def _spread(times: Spread | None) -> str:
    if times is None:
        return ""
    words = f"{times.median:.0f}" if times.median >= 100 else f"{times.median:.3g}"
    return f"{words} ±{times.farthest:.0%}" if times.count > 1 else words
