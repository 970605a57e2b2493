"""Points with given times, and workloads made of them, for tests of answers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from edgebench.records import LimitSetting
from edgebench.results.facts import WorkloadFacts, workload_facts
from edgebench.results.point_facts import PointFacts
from edgebench.results.spread import Ratio, Spread, ratio_of

MIB = 1 << 20
NETWORK = {"kind": "inference", "networks": ["alexnet"], "schedule": "bulk", "batch": 1}


def point(
    label: str,
    seconds: tuple[float, ...] = (),
    *,
    outcomes: dict[str, int] | None = None,
    swap: str = "file",
    settings: dict[str, Any] | None = None,
    loads: float | None = None,
) -> PointFacts:
    free = label == "max"
    size = None if free else int(label.rstrip("M")) * MIB
    times = {}
    if seconds:
        middle = sorted(seconds)[len(seconds) // 2]
        times["total"] = Spread(middle, min(seconds), max(seconds), len(seconds))
    if loads is not None:
        times["load"] = Spread(loads, loads, loads, 3)
    return PointFacts(
        point=f"p-{label}",
        workload="alexnet · bulk · batch 1",
        settings=settings or NETWORK,
        limits=LimitSetting(label, size, swap, 64 * MIB if swap == "file" else None),
        planned=3,
        outcomes=outcomes or {"ok": len(seconds)},
        times_s=times,
        limit_bytes=size,
        demand_bytes=200.0 * MIB if free and seconds else None,
    )


FREE = point("max", (1.9, 2.0, 2.1), loads=1.0)
STEADY = point("max", (1.98, 2.0, 2.02), loads=1.0)
KILLED = {"oom-killed": 3}


def made(*points: PointFacts) -> WorkloadFacts:
    free = next((p.times_s for p in points if p.limits.label == "max"), {})
    free_relative = next((p.steady_relative for p in points if p.limits.label == "max"), None)
    ratios = [
        {name: ratio_of(times, free[name]) for name, times in p.times_s.items() if name in free}
        | _walked_ratio(p, free_relative)
        for p in points
    ]
    (workload,) = workload_facts(
        replace(p, ratios=own, slowdowns={name: ratio.median for name, ratio in own.items()})
        for p, own in zip(points, ratios, strict=True)
    )
    return workload


def rounds(label: str, start_s: float, steady_s: float | None) -> PointFacts:
    one = point(label, (steady_s or start_s,) * 3)
    known = {"start": start_s, "steady": steady_s}
    own = {name: Spread(s, s, s, 3) for name, s in known.items() if s is not None}
    return replace(one, times_s={**one.times_s, **own})


def walked(label: str, steady_s: float, relative: tuple[float, float, float]) -> PointFacts:
    low, middle, high = relative
    return replace(point(label, (steady_s,) * 3), steady_relative=Spread(middle, low, high, 3))


def _walked_ratio(one: PointFacts, free: Spread | None) -> dict[str, Ratio]:
    if one.steady_relative is None or free is None:
        return {}
    return {"total": ratio_of(one.steady_relative, free)}
