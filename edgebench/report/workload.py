"""A sweep's points by workload: what each takes unlimited, and at every limit, widest first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from edgebench.records.records import LimitSetting
from edgebench.results.reading import settings_columns
from edgebench.results.summary import PointSummary, workload_key, workload_label
from edgebench.units import format_size

#: What of the settings is told in a name only where it sets workloads of one name apart.
_UNTOLD = {"network", "schedule", "loader", "command", "batch"}
#: What stands between the words of a name.
_BETWEEN = " · "


@dataclass(frozen=True)
class Workload:
    """Points that differ in their memory limit alone, the widest limit first."""

    name: str
    settings: dict[str, Any]
    points: tuple[PointSummary, ...]

    @cached_property
    def unlimited(self) -> PointSummary | None:
        """The point without a limit; None if it has no trial that finished."""
        free = (p for p in self.points if p.limits.label == "max" and "total" in p.times_s)
        return next(free, None)

    @cached_property
    def tried(self) -> tuple[PointSummary, ...]:
        """The points below a limit that have a trial."""
        return tuple(p for p in self.points if p.limits.label != "max" and p.outcomes)

    @cached_property
    def finished(self) -> tuple[PointSummary, ...]:
        """Those of :attr:`tried` at which all trials finished."""
        return tuple(p for p in self.tried if set(p.outcomes) == {"ok"})

    @property
    def demand_bytes(self) -> float | None:
        """What it needs when nothing limits it; None if no trial told."""
        return next((p.demand_bytes for p in self.points if p.demand_bytes is not None), None)

    @property
    def limits(self) -> LimitSetting:
        """What all its limits have in common: swap, cores, CPU quota."""
        return self.points[0].limits

    @property
    def pass_words(self) -> str:
        """What ``total`` times: a round, or the whole trial where there are none."""
        rounds = any(name != "total" for point in self.points for name in point.times_s)
        return "a round" if rounds else "the whole trial"


def workloads(points: Iterable[PointSummary]) -> list[Workload]:
    """Every workload of a sweep, in the order of its points, each with a name of its own."""
    groups: dict[tuple[Any, ...], list[PointSummary]] = {}
    for point in points:
        groups.setdefault(_key(point), []).append(point)
    names = _names([group[0] for group in groups.values()])
    return [
        Workload(name, group[0].settings, tuple(sorted(group, key=_order)))
        for name, group in zip(names, groups.values(), strict=True)
    ]


def briefly(names: Sequence[str]) -> tuple[dict[str, str], str]:
    """Each name without the words that all have, and those words; a single name keeps its own."""
    parts = {name: name.split(_BETWEEN) for name in names}
    shared = set.intersection(*map(set, parts.values())) if len(parts) > 1 else set()
    brief = {
        name: _BETWEEN.join(word for word in own if word not in shared) or name
        for name, own in parts.items()
    }
    first = next(iter(parts.values()), [])
    return brief, _BETWEEN.join(word for word in first if word in shared)


def limit_words(point: PointSummary) -> str:
    """``150.0 MiB``, or ``75% (242.1 MiB)`` for a share; ``unlimited``."""
    size = limit_size(point)
    if size is None:
        return "unlimited" if point.limits.label == "max" else point.limits.label
    told = format_size(size)
    return f"{point.limits.label} ({told})" if point.limits.label.endswith("%") else told


def limit_size(point: PointSummary) -> float | None:
    """The limit's bytes as the kernel rounded them; None for unlimited, and a share still open."""
    return point.limit_bytes if point.limit_bytes is not None else point.limits.memory_bytes


def swap_words(limits: LimitSetting) -> str:
    """``swap file 2.00 GiB``, ``swap none``."""
    size = "" if limits.swap_bytes is None else f" {format_size(limits.swap_bytes)}"
    return f"swap {limits.swap_kind}{size}"


def apart(limits: LimitSetting) -> str:
    """What else of the limits sets points of one workload apart: `` · swap none · 2 cores``."""
    words = [swap_words(limits)]
    words += [f"{limits.cores} cores"] if limits.cores is not None else []
    words += [f"{limits.cpu_quota:g} CPUs"] if limits.cpu_quota is not None else []
    return "".join(f" · {word}" for word in words)


def _key(point: PointSummary) -> tuple[Any, ...]:
    at = point.limits
    return workload_key(point.settings), at.swap_kind, at.swap_bytes, at.cores, at.cpu_quota


def _order(point: PointSummary) -> float:
    size = limit_size(point)
    return -float("inf") if size is None else -size


def _names(firsts: Sequence[PointSummary]) -> list[str]:
    """A name each; what else sets two of one name apart is told in both."""
    names = [f"{workload_label(p.settings)}{apart(p.limits)}" for p in firsts]
    alike = Counter(names)
    columns = [settings_columns(p.settings) for p in firsts]
    return [
        name + _told_apart(own, [c for n, c in zip(names, columns, strict=True) if n == name])
        if alike[name] > 1
        else name
        for name, own in zip(names, columns, strict=True)
    ]


def _told_apart(own: Mapping[str, Any], group: Sequence[Mapping[str, Any]]) -> str:
    keys = [key for key in dict.fromkeys(k for one in group for k in one) if key not in _UNTOLD]
    different = [key for key in keys if len({str(one.get(key)) for one in group}) > 1]
    return "".join(f" · {key} {own[key]}" for key in different if own.get(key) is not None)
