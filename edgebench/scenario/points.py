"""From a scenario to its points, what a worker of each imports, and an ordered plan of trials."""

from __future__ import annotations

import hashlib
import json
import mmap
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import to_builtins
from msgspec.structs import replace

from edgebench.layers.references import TRANSFORMERS
from edgebench.measures.strategies import strategy_of
from edgebench.records import WRITTEN, LimitSetting
from edgebench.text import parse_share
from edgebench.workloads.engines.engine import TORCH, engine_of
from edgebench.workloads.training.names import LIBRARIES, LIBRARIES_OF_DATA, TENSORFLOW

if TYPE_CHECKING:
    from edgebench.scenario.scenario import Scenario


@dataclass(frozen=True)
class Point:
    """One combination of workload settings and limits.

    ``share`` is the part of measured demand that the limit is; None for a size or ``max``.
    """

    id: str
    settings: dict[str, Any] = field(hash=False)
    limits: LimitSetting
    share: float | None = None

    @property
    def unlimited(self) -> bool:
        """Whether nothing limits its memory, so that its trials show demand."""
        others = (getattr(self.limits, size) for size in WRITTEN)
        return all(size is None for size in others) and not self.needs_demand

    @property
    def needs_demand(self) -> bool:
        """Whether one of its limits is a share of measured demand."""
        return any(share is not None for share in self.shares.values())

    @property
    def shares(self) -> dict[str, float | None]:
        """Of each limit of memory the share of demand that it is; None for a size or none."""
        written = {size: getattr(self.limits, label) for size, label in WRITTEN.items()}
        shares = {size: parse_share(label) for size, label in written.items() if label}
        return {**shares, "memory_bytes": self.share}

    def same_workload(self, other: Point) -> bool:
        """Whether both do the same work on the same cores: then their demand is the same.

        Swap doesn't count: what nothing limits is not swapped.
        """
        mine = self.settings, self.limits.cores, self.limits.cpu_quota
        return mine == (other.settings, other.limits.cores, other.limits.cpu_quota)


@dataclass(frozen=True)
class PlannedTrial:
    """One trial to come. ``trial`` is its place in the plan, the same after every resume.

    ``strategy`` names the way of telling memory whose own trial it is; None: it is timed.
    ``timeout_s`` is its own time limit; None: the scenario's. ``walk``: its limit is moved through
    all those of its workload while it lives; ``unlimited``: through none of them.
    """

    trial: str
    point_id: str
    block: int
    repeat: int
    strategy: str | None = None
    timeout_s: float | None = None
    walk: bool = False
    unlimited: bool = False


def points(scenario: Scenario) -> list[Point]:
    """Every combination of the scenario's axes, always in the same order."""
    limits = list(scenario.limits.settings())
    # On the processor alone, points with and without an accelerator's limit are the same.
    bare = list(dict.fromkeys(replace(one, accelerator_bytes=None) for one in limits))
    combinations = [
        (settings, one)
        for settings in scenario.workload_settings()
        for one in (limits if settings.get("accelerator") else bare)
    ]
    width = max(3, len(str(len(combinations))))
    return [
        Point(f"p{number:0{width}d}", settings, one, parse_share(one.label))
        for number, (settings, one) in enumerate(combinations, start=1)
    ]


def points_digest(made: Iterable[Point]) -> str:
    """Return what tells points from others: a hash of all that they say."""
    said = [to_builtins(point) for point in made]
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def plan(points: Sequence[Point], repeats: int, seed: int) -> list[PlannedTrial]:
    """``repeats`` blocks, each with every point once, in an order drawn from the seed.

    In the first block, the unlimited points whose demand gives others their limit come first.
    """
    rng = random.Random(seed)
    width = max(4, len(str(len(points) * repeats)))
    planned: list[PlannedTrial] = []
    for block in range(repeats):
        order = rng.sample(list(points), len(points))
        if block == 0:
            needed = showing_demand(order)
            order.sort(key=lambda point: point.id not in needed)
        planned += [
            PlannedTrial(f"{number:0{width}d}", point.id, block, block)
            for number, point in enumerate(order, start=len(planned) + 1)
        ]
    return planned


def showing_demand(points: Sequence[Point]) -> set[str]:
    """Return the unlimited points whose demand gives others their limit."""
    shares = [point for point in points if point.needs_demand]
    return {p.id for p in points if p.unlimited and any(map(p.same_workload, shares))}


def series_of(points: Sequence[Point]) -> list[list[Point]]:
    """Points that differ in their memory limit alone, in the order of the points."""
    groups: dict[str, list[Point]] = {}
    for point in points:
        same = replace(point.limits, label="", memory_bytes=None)
        groups.setdefault(repr((point.settings, same)), []).append(point)
    return list(groups.values())


def own_trials(
    points: Sequence[Point], timed: Sequence[PlannedTrial], strategies: Sequence[str]
) -> list[PlannedTrial]:
    """Each strategy's own trial of every point, in a block of its own after all timed ones.

    A strategy for limited points alone has none of the unlimited ones, and one that reads a
    library's figures none of points that run without it.
    """
    block = max((planned.block for planned in timed), default=-1) + 1
    pairs = [(name, point) for name in strategies for point in points if has_own_trial(name, point)]
    return [
        PlannedTrial(f"{number:04d}", point.id, block, 0, strategy)
        for number, (strategy, point) in enumerate(pairs, start=len(timed) + 1)
    ]


def has_own_trial(strategy: str, point: Point) -> bool:
    """Whether the strategy has a trial of its own of the point."""
    found = strategy_of(strategy)
    if found and found.limited_only and point.unlimited:
        return False
    return has_library(strategy, point.settings)


class HasDemand(Protocol):
    """A record, or what is remembered of one."""

    @property
    def demand_bytes(self) -> int | None:
        """What the trial needed; None if that is not known."""


def asked_sizes(points: Iterable[Point]) -> set[str]:
    """Which limits of memory some of the points have."""
    return {
        size
        for point in points
        for size, label in WRITTEN.items()
        if getattr(point.limits, label) not in (None, "max")
    }


def limits_of(point: Point, demand_bytes: int) -> LimitSetting:
    """Return the point's limits; a share is that part of the demand, rounded up to a whole page."""
    sizes: dict[str, Any] = {
        size: int(-(-share * demand_bytes // mmap.PAGESIZE)) * mmap.PAGESIZE
        for size, share in point.shares.items()
        if share is not None
    }
    return replace(point.limits, **sizes)


def demand_of(
    point: Point,
    points: Mapping[str, Point],
    planned: Sequence[PlannedTrial],
    records: Mapping[str, HasDemand],
) -> int | None:
    """Demand of the point's workload, from its first unlimited trial that finished, if any did."""
    for one in planned:
        record = records.get(one.trial)
        if record and record.demand_bytes and points[one.point_id].same_workload(point):
            return record.demand_bytes
    return None


def libraries(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the modules that a worker of a point's settings imports; none for a command."""
    if settings["kind"] == "inference":
        return engine_of(settings.get("engine")).libraries
    if settings["kind"] != "training":
        # The extra with torch brings numpy as well.
        return ("torch",) if settings["kind"] in ("convolution", "hot-base") else ()
    references = settings.get("references", {}).values()
    own = [TRANSFORMERS] if any(one["kind"] == TRANSFORMERS for one in references) else []
    of_data = LIBRARIES_OF_DATA.get(settings["data"], ())
    return (LIBRARIES[settings["framework"]], *own, *of_data)


def runtime_of(settings: Mapping[str, Any]) -> str:
    """Return the engine whose library a worker of these settings imports."""
    framework = settings.get("framework")
    return TENSORFLOW if framework == TENSORFLOW else str(settings.get("engine", TORCH))


def has_library(strategy: str, settings: Mapping[str, Any]) -> bool:
    """Whether a worker of these settings imports the library that the strategy reads, if any.

    A worker of which no library is known may import it.
    """
    found, imported = strategy_of(strategy), libraries(settings)
    return not (found and found.library and imported) or found.library in imported
