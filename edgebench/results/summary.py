"""A sweep point by point: how many trials ended how, times with their spread, slowdown, peaks.

Made from the records alone (no pandas), so it serves a sweep in progress on the board itself.
"""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from edgebench.columns.table import NONE, Table
from edgebench.machine.noise import spread_warnings
from edgebench.records.records import LimitSetting
from edgebench.records.shapes import is_whole_limit
from edgebench.results.reading import Sweep, settings_columns, timed_in
from edgebench.results.times import TIMES

#: Setting of training → its usual value, and how another one is told.
_USUAL: dict[str, tuple[Any, str]] = {
    "learning_rate": (None, "rate {:g}"),
    "data": (None, "{}"),
    "shape": (None, "{}"),
    "framework": ("pytorch", "{}"),
    "depth": (None, "{} deep"),
    "width": (None, "{} wide"),
    "activation": ("relu", "{}"),
    "accumulation": (1, "in {} parts"),
    "precision": ("float32", "{}"),
    "checkpointing": (False, "checkpointing"),
    "trained": ("all", "trained {}"),
    "start": ("scratch", "from {}"),
}


@dataclass(frozen=True)
class Spread:
    """Repeats of one quantity: median and extremes."""

    median: float
    low: float
    high: float
    count: int

    @property
    def farthest(self) -> float:
        """How far the farthest repeat is from the median, as a share of it."""
        if self.median == 0:
            return 0.0
        return max(self.high - self.median, self.median - self.low) / self.median


@dataclass(frozen=True)
class PointSummary:
    """What is known of one point so far.

    ``times_s`` and ``slowdowns`` have the keys of :data:`~edgebench.results.times.TIMES` that the
    point has; only trials that ended ``ok`` count in them. ``limit_bytes`` is as the kernel
    rounded it.
    ``noise`` says what puts the point's numbers in doubt.
    """

    point: str
    workload: str
    settings: dict[str, Any]
    limits: LimitSetting
    planned: int | None
    outcomes: dict[str, int]
    times_s: dict[str, Spread] = field(default_factory=dict)
    slowdowns: dict[str, float] = field(default_factory=dict)
    limit_bytes: int | None = None
    peak_bytes: Spread | None = None
    saturated: bool | None = None
    swap_peak_bytes: Spread | None = None
    demand_bytes: float | None = None
    reasons: list[str] = field(default_factory=list)
    noise: list[str] = field(default_factory=list)


def spread_of(values: Iterable[float | None]) -> Spread | None:
    """Median and extremes of the values that are known; None if none is."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    return Spread(statistics.median(known), min(known), max(known), len(known))


def summarise(sweep: Sweep) -> list[PointSummary]:
    """Every point of a sweep in the plan's order, also those with no trial yet."""
    trials: dict[str, list[int]] = {}
    points = sweep.columns.words("point", range(len(sweep.records)))
    for row, point in enumerate(map(str, points)):
        trials.setdefault(point, []).append(row)
    planned = _planned(sweep.resolved)
    declared = _declared(sweep.resolved)
    ids = dict.fromkeys((*declared, *trials))
    made = [
        _summary(point, sweep, trials.get(point, []), declared.get(point), planned.get(point))
        for point in ids
    ]
    return [_with_slowdowns(point, made) for point in made]


def workload_key(settings: Mapping[str, Any]) -> str:
    """Equal for two workloads that do the same, wherever their weights lie."""
    kept = {k: v for k, v in settings.items() if k != "weights" and v is not None}
    return json.dumps(kept, sort_keys=True, default=str)


def workload_label(settings: Mapping[str, Any]) -> str:
    """``alexnet · linear · copy · batch 1``."""
    columns = settings_columns(settings)
    named = [columns.get(key) for key in ("network", "schedule", "loader", "optimizer", "command")]
    words = [str(word) for word in named if word]
    told = (key for key in ("kernel", "stack", "draw") if key in columns)
    words += [f"{key} {columns[key]}" for key in told]
    if columns.get("batch") is not None:
        words.append(f"batch {columns['batch']}")
    words += _training_words(columns)
    return " · ".join(words) or str(columns.get("kind", "workload"))


def _training_words(columns: Mapping[str, Any]) -> list[str]:
    """How it trains; what is as usual goes unsaid."""
    return [
        how.format(columns[name])
        for name, (usual, how) in _USUAL.items()
        if columns.get(name) not in (None, usual)
    ]


def _planned(resolved: Mapping[str, Any]) -> Counter[str]:
    plan = timed_in(resolved.get("plan"))
    return Counter(str(planned.get("point_id")) for planned in plan)


def _declared(resolved: Mapping[str, Any]) -> dict[str, tuple[dict[str, Any], LimitSetting]]:
    listed = resolved.get("points")
    points = listed if isinstance(listed, list) else []
    return {
        str(p["id"]): (_table(p.get("settings")), _limits(_table(p.get("limits"))))
        for p in points
        if isinstance(p, dict) and "id" in p
    }


def _table(data: object) -> dict[str, Any]:
    return data if isinstance(data, dict) else {}


def _limits(data: Mapping[str, Any]) -> LimitSetting:
    known = {f.name for f in fields(LimitSetting)}
    limits = LimitSetting(**{key: value for key, value in data.items() if key in known})
    return limits if is_whole_limit(limits) else LimitSetting()


def _summary(
    point: str,
    sweep: Sweep,
    rows: Sequence[int],
    declared: tuple[dict[str, Any], LimitSetting] | None,
    planned: int | None,
) -> PointSummary:
    """One point, of these rows of the sweep's columns."""
    columns = sweep.columns
    last = sweep.records[rows[-1]] if rows else None
    settings, limits = (last.settings, last.limits) if last else declared or ({}, LimitSetting())
    spreads = {name: spread_of(columns.values(f"times_{name}", rows)) for name in TIMES}
    demand = spread_of(columns.values("demand_bytes", rows))
    return PointSummary(
        point=point,
        workload=workload_label(settings),
        settings=settings,
        limits=limits,
        planned=planned,
        outcomes=dict(Counter(map(str, columns.words("outcome", rows)))),
        times_s={name: spread for name, spread in spreads.items() if spread},
        limit_bytes=last.limit_bytes if last else limits.memory_bytes,
        peak_bytes=spread_of(columns.values("peak_bytes", rows)),
        saturated=any(columns.values("saturated", rows)) if rows else None,
        swap_peak_bytes=spread_of(columns.values("swap_peak_bytes", rows)),
        demand_bytes=demand.median if demand else None,
        reasons=_reasons(columns, rows),
        noise=_noise(columns, rows),
    )


def _reasons(columns: Table, rows: Sequence[int]) -> list[str]:
    """Why trials didn't end ``ok``, each wording once."""
    pairs = zip(columns.words("outcome", rows), columns.words("reason", rows), strict=True)
    bad = dict.fromkeys(pair for pair in pairs if pair[0] != "ok")
    words = (f"{outcome}: {reason or 'no reason recorded'}" for outcome, reason in bad)
    # A reason of several lines must not pass for several of ours.
    return list(dict.fromkeys(" ".join(line.split()) for line in words))


def _noise(columns: Table, rows: Sequence[int]) -> list[str]:
    words = spread_warnings([time_s for time_s in columns.values("times_total", rows) if time_s])
    doubted = [row for row in rows if columns.texts["warnings"].codes[row] != NONE]
    trials, lists = columns.words("trial", doubted), columns.words("warnings", doubted)
    return words + [
        f"trial {trial}: {warning}"
        for trial, listed in zip(trials, lists, strict=True)
        for warning in json.loads(listed or "[]")
    ]


def _with_slowdowns(point: PointSummary, points: Sequence[PointSummary]) -> PointSummary:
    twin = unlimited_twin(point, points)
    if twin is None:
        return point
    slowdowns = {
        name: spread.median / twin.times_s[name].median
        for name, spread in point.times_s.items()
        if name in twin.times_s and twin.times_s[name].median > 0
    }
    demand = point.demand_bytes if point.demand_bytes is not None else twin.demand_bytes
    return replace(point, slowdowns=slowdowns, demand_bytes=demand)


def unlimited_twin(point: PointSummary, points: Sequence[PointSummary]) -> PointSummary | None:
    """The same workload on the same cores without a memory limit; the same swap if there is one."""
    twins = [p for p in points if p.limits.memory_bytes is None and _same_but_memory(p, point)]
    twins = [p for p in twins if p.limits.label == "max" and p.times_s]
    swap = (point.limits.swap_kind, point.limits.swap_bytes)
    same_swap = [p for p in twins if (p.limits.swap_kind, p.limits.swap_bytes) == swap]
    return next(iter([*same_swap, *twins]), None)


def _same_but_memory(one: PointSummary, other: PointSummary) -> bool:
    return (
        workload_key(one.settings) == workload_key(other.settings)
        and one.limits.cores == other.limits.cores
        and one.limits.cpu_quota == other.limits.cpu_quota
    )
