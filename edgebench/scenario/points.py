"""The plan of a sweep: its points, what a worker of each imports, and which trials run when.

A planner plans all trials at first, or in rounds, once the records of earlier ones are there.
"""

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

from edgebench.layers.names import TORCH
from edgebench.layers.references import TRANSFORMERS
from edgebench.measures.strategies import strategy_of
from edgebench.records import NOT_REACHED, WRITTEN, LimitSetting, TrialRecord
from edgebench.text import parse_share
from edgebench.workloads.engines.engine import engine_of
from edgebench.workloads.training.names import LIBRARIES, LIBRARIES_OF_DATA, TENSORFLOW

if TYPE_CHECKING:
    from edgebench.scenario.scenario import Scenario


#: Walks of a workload beyond the scenario's repeats, while the last one was killed.
MOST_AGAIN = 1


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


class Planner(Protocol):
    """Plans trials among the points of a sweep. The same records give the same trials."""

    def first(self) -> list[PlannedTrial]:
        """Return the trials to begin with."""

    def further(
        self, planned: Sequence[PlannedTrial], records: Mapping[str, TrialRecord]
    ) -> list[PlannedTrial]:
        """Return the trials to go on with, once all planned ones are recorded; empty at the end."""


@dataclass(frozen=True)
class FixedPlanner:
    """All trials are planned at first."""

    trials: Sequence[PlannedTrial]

    def first(self) -> list[PlannedTrial]:
        """All trials."""
        return list(self.trials)

    def further(
        self, planned: Sequence[PlannedTrial], records: Mapping[str, TrialRecord]
    ) -> list[PlannedTrial]:
        """None."""
        return []


def planner_of(scenario: Scenario, points: Sequence[Point]) -> Planner:
    """Return the planner that a scenario asks for."""
    limits, strategies = scenario.limits, scenario.strategies
    if limits.walks:
        return WalkPlanner(points, scenario.repeats, scenario.seed, strategies, limits.starts)
    # Every point, then each strategy's own trials.
    timed = plan(points, scenario.repeats, scenario.seed)
    return FixedPlanner(timed + own_trials(points, timed, strategies))


@dataclass(frozen=True)
class WalkPlanner:
    """``repeats`` walks of each workload, and a fresh trial for the start at some of its limits.

    A workload whose last walk was killed on the way down is walked ``MOST_AGAIN`` more times at
    most, above that limit. One of which no walk came to its end is walked once more, without any
    limit: only the end of a walk shows the working set.

    ``starts`` are these limits' labels; None: at all.

    The unlimited trial that comes first shows the demand of which limits may be shares: under a
    walk the statistics that tell it are not read, since that may prevent a kill.
    """

    points: Sequence[Point]
    repeats: int
    seed: int
    strategies: Sequence[str] = ()
    starts: Sequence[str] | None = None

    def first(self) -> list[PlannedTrial]:
        """Every workload once, unlimited."""
        return self._block([p for p in self.points if p.unlimited], 0, 0, 1)

    def further(
        self, planned: Sequence[PlannedTrial], records: Mapping[str, TrialRecord]
    ) -> list[PlannedTrial]:
        """Return the walks, fresh trials among the first of them.

        Then each strategy's own trials.
        """
        if any(trial.strategy for trial in planned):
            return []
        if any(trial.walk for trial in planned):
            again = self._more_walks(planned, records)
            return again or own_trials(self.points, planned, self.strategies)
        starts = [p for p in self.points if not p.unlimited and has_start(p, self.starts)]
        trials: list[PlannedTrial] = []
        for repeat in range(self.repeats):
            fresh = starts if repeat == 0 else []
            number = len(planned) + len(trials) + 1
            trials += self._block(fresh, repeat + 1, repeat, number, walked=True)
        return trials

    def _more_walks(
        self, planned: Sequence[PlannedTrial], records: Mapping[str, TrialRecord]
    ) -> list[PlannedTrial]:
        """Return one more walk of each workload whose last walk was killed.

        If there is none, walk each workload without a limit of which no walk came to its end.
        """
        killed = {
            record.walk.walk
            for record in records.values()
            if record.walk and record.direction == "down" and record.outcome == "oom-killed"
        }
        for unlimited in (False, True):
            again: list[PlannedTrial] = []
            for point in (p for p in self.points if p.unlimited):
                walks = [trial for trial in planned if trial.walk and trial.point_id == point.id]
                wanted = walks[-1].trial in killed and len(walks) < self.repeats + MOST_AGAIN
                if unlimited:
                    firsts = [records[walk.trial] for walk in walks if walk.trial in records]
                    # One that fails without a limit would fail again.
                    ran = [record for record in firsts if record.walk and record.outcome == "ok"]
                    unseen = all(r.missing.get("working_set") == NOT_REACHED for r in ran)
                    wanted = bool(ran) and unseen and not any(walk.unlimited for walk in walks)
                if wanted:
                    name, number = f"{len(planned) + len(again) + 1:04d}", len(walks)
                    again.append(
                        PlannedTrial(
                            name, point.id, number + 1, number, walk=True, unlimited=unlimited
                        )
                    )
            if again:
                return again
        return []

    def _block(
        self, fresh: Sequence[Point], block: int, repeat: int, number: int, walked: bool = False
    ) -> list[PlannedTrial]:
        """Fresh trials, and a walk of every workload, in an order drawn from the seed."""
        walks = [p for p in self.points if p.unlimited] if walked else []
        pairs = [(point, False) for point in fresh] + [(point, True) for point in walks]
        order = random.Random(f"{self.seed} {block}").sample(pairs, len(pairs))
        return [
            PlannedTrial(f"{place:04d}", point.id, block, repeat, walk=walk)
            for place, (point, walk) in enumerate(order, start=number)
        ]


def has_start(point: Point, starts: Sequence[str] | None) -> bool:
    """Whether a plan of walks with these starts has a fresh trial of the point."""
    return point.unlimited or starts is None or point.limits.label in starts


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
