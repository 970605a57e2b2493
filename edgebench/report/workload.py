"""The points of a sweep by workload: unlimited first, then from the widest limit down."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from edgebench.boards.board import emulation_words
from edgebench.records import LimitSetting
from edgebench.results.spread import Spread
from edgebench.results.stages import START, STEADY
from edgebench.results.summary import PointSummary
from edgebench.results.sweep_reader import settings_columns
from edgebench.results.workload_key import WorkloadKey, workload_label
from edgebench.storage_speed import AS_IS, storage_words
from edgebench.units import format_duration, format_limit, format_size

#: Settings that every name has; others are added where two names would be equal.
_IN_NAME = {"network", "schedule", "loader", "command", "batch"}
#: Separates the words of a name.
_SEPARATOR = " · "


@dataclass(frozen=True)
class WorkloadPoints:
    """Points that differ in their memory limit alone, the widest limit first."""

    name: str
    settings: dict[str, Any]
    points: tuple[PointSummary, ...]

    @property
    def key(self) -> WorkloadKey:
        """What sets it apart from all others."""
        return self.points[0].key

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

    @cached_property
    def least_viable(self) -> PointSummary | None:
        """The tightest limit with no kill at it or above; None where nothing was killed."""
        killed = [n for n, p in enumerate(self.tried) if "oom-killed" in p.outcomes]
        safe = [p for p in self.tried[: killed[0]] if p in self.finished] if killed else []
        return safe[-1] if safe else None

    @cached_property
    def viable(self) -> tuple[PointSummary, ...]:
        """Those of :attr:`finished` wider than every limit at which a trial did not finish."""
        return tuple(itertools.takewhile(lambda p: set(p.outcomes) == {"ok"}, self.tried))

    @property
    def demand_bytes(self) -> float | None:
        """Its demand; None if no trial recorded it."""
        return next((p.demand_bytes for p in self.points if p.demand_bytes is not None), None)

    @property
    def working_set_bytes(self) -> Spread | None:
        """What its steady rounds need of it; None where no walk watched that."""
        return self.unlimited.working_set_bytes if self.unlimited else None

    @property
    def base_bytes(self) -> float | None:
        """The runtime's footprint without a limit; None if no trial recorded it."""
        return self.unlimited.base_bytes if self.unlimited else None

    @property
    def limits(self) -> LimitSetting:
        """What all its limits have in common: swap, cores, CPU quota."""
        return self.points[0].limits

    @cached_property
    def has_steady(self) -> bool:
        """Whether ``total`` is a steady round's time, and ``start`` another."""
        return any(STEADY in point.times_s for point in self.points)

    @cached_property
    def has_rounds(self) -> bool:
        """Whether its trials have rounds, if only one."""
        return any(START in point.times_s for point in self.points)

    @property
    def pass_words(self) -> str:
        """What ``total`` times: a round, or the whole trial where there are none."""
        if self.has_steady:
            return "a steady round"
        return "the first round" if self.has_rounds else "the whole trial"


def workloads(points: Iterable[PointSummary]) -> list[WorkloadPoints]:
    """Every workload of a sweep, in the order of its points, each with a name of its own."""
    groups: dict[WorkloadKey, list[PointSummary]] = {}
    for point in points:
        groups.setdefault(point.key, []).append(point)
    names = _names([group[0] for group in groups.values()])
    return [
        WorkloadPoints(name, group[0].settings, tuple(sorted(group, key=_order)))
        for name, group in zip(names, groups.values(), strict=True)
    ]


def throughput_column(workload: WorkloadPoints) -> list[str]:
    """The title of its column, ``tokens/s``; none where no throughput was measured."""
    point = next((p for p in workload.points if p.throughput_per_s), None)
    return [f"{point.unit or 'per s'}{'/s' if point.unit else ''}"] if point else []


def energy_column(workload: WorkloadPoints) -> list[str]:
    """The title of its column, ``J (module)``; none where no energy was measured."""
    point = next((p for p in workload.points if p.energy), None)
    return [f"J ({point.energy.domain})"] if point and point.energy else []


def times_shown(found: Sequence[WorkloadPoints]) -> list[str]:
    """The times that answer for these workloads: ``start`` and ``steady``, or ``total``."""
    known = {name for one in found for point in one.points for name in point.times_s}
    whole = {"total"} if any(not one.has_rounds for one in found) else set()
    return [name for name in ("total", START, STEADY) if name in whole or name in known - {"total"}]


def short_names(names: Sequence[str]) -> tuple[dict[str, str], str]:
    """Each name without the words that all share, and these words; a single name is kept."""
    parts = {name: name.split(_SEPARATOR) for name in names}
    shared = set.intersection(*map(set, parts.values())) if len(parts) > 1 else set()
    brief = {
        name: _SEPARATOR.join(word for word in own if word not in shared) or name
        for name, own in parts.items()
    }
    first = next(iter(parts.values()), [])
    return brief, _SEPARATOR.join(word for word in first if word in shared)


def brief_names(names: Iterable[str]) -> dict[str, str]:
    """Each workload's name without the words that all share; its network, if nothing is left."""
    brief, _ = short_names(list(dict.fromkeys(names)))
    return {name: b if b != name else name.split(_SEPARATOR)[0] for name, b in brief.items()}


def limit_label(point: PointSummary) -> str:
    """The limit as text: ``150.0 MiB``, ``75% (242.1 MiB)`` or ``unlimited``."""
    return format_limit(point.limits.label, limit_size(point))


def limit_size(point: PointSummary) -> float | None:
    """The limit's bytes as the kernel rounded them; None for unlimited, and a share still open."""
    return point.limit_bytes if point.limit_bytes is not None else point.limits.memory_bytes


def spread_words(times: Spread, repeats: str = "trials") -> str:
    """``3.2 s (3 trials, 3.1 s to 3.3 s)``, or ``3.2 s (one trial)``."""
    words = format_duration(times.median)
    if times.count < 2:
        return f"{words} (one trial)"
    low, high = format_duration(times.low), format_duration(times.high)
    return f"{words} ({times.count} {repeats}, {low} to {high})"


def swap_label(limits: LimitSetting) -> str:
    """``swap file 2.00 GiB``, ``swap none``."""
    size = "" if limits.swap_bytes is None else f" {format_size(limits.swap_bytes)}"
    return f"swap {limits.swap_kind}{size}"


def other_limits_label(limits: LimitSetting) -> str:
    """The limits other than memory: `` · swap none · 2 cores``."""
    words = [emulation_words(limits.board)] if limits.board else []
    words += [swap_label(limits)]
    words += [] if limits.storage == AS_IS else [storage_words(limits.storage)]
    words += [f"{limits.cores} cores"] if limits.cores is not None else []
    words += [f"{limits.cpu_quota:g} CPUs"] if limits.cpu_quota is not None else []
    own = limits.accelerator_bytes
    words += [] if own is None else [f"accelerator {format_size(own)}"]
    return "".join(f" · {word}" for word in words)


def _order(point: PointSummary) -> float:
    size = limit_size(point)
    return -float("inf") if size is None else -size


def _names(firsts: Sequence[PointSummary]) -> list[str]:
    """A name each; two equal names get the settings in which they differ."""
    names = [f"{workload_label(p.settings)}{other_limits_label(p.limits)}" for p in firsts]
    alike = Counter(names)
    columns = [settings_columns(p.settings) for p in firsts]
    return [
        name + _differences(own, [c for n, c in zip(names, columns, strict=True) if n == name])
        if alike[name] > 1
        else name
        for name, own in zip(names, columns, strict=True)
    ]


def _differences(own: Mapping[str, Any], group: Sequence[Mapping[str, Any]]) -> str:
    keys = [key for key in dict.fromkeys(k for one in group for k in one) if key not in _IN_NAME]
    different = [key for key in keys if len({str(one.get(key)) for one in group}) > 1]
    return "".join(f" · {key} {own[key]}" for key in different if own.get(key) is not None)
