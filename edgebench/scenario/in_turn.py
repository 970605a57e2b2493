"""Two versions of a workload in turn: which of their points are pairs, and in what order they run.

What a machine does to all times (its clock rate, its neighbours, the state of its disk) changes
from minute to minute. The trials of a pair are made one right after the other, so it is in both.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import structs

from edgebench.errors import UsageError
from edgebench.scenario.limits import GRID
from edgebench.scenario.planner import FixedPlanner
from edgebench.scenario.points import PlannedTrial, Point, own_trials, plan, points

if TYPE_CHECKING:
    from edgebench.scenario.scenario import Scenario

Version: TypeAlias = Literal["old", "new"]


def check_in_turn(old: Scenario, new: Scenario) -> None:
    """Check that trials of both scenarios can be made in turn.

    Raises:
        UsageError: they plan or watch their trials differently, or no point has a partner.
    """
    if GRID not in (old.limits.plan, new.limits.plan) or old.limits.plan != new.limits.plan:
        raise UsageError(
            "versions are run in turn trial by trial, so both need all their trials planned: "
            f'plan is "{old.limits.plan}" in {old.name}, "{new.limits.plan}" in {new.name}',
            remedy="add: --plan grid",
        )
    for key in ("repeats", "sampler"):
        if getattr(old, key) != getattr(new, key):
            raise UsageError(
                f"the two scenarios differ in {key}, so their trials make no pairs",
                where=f"{old.name} and {new.name}",
                remedy=f"give both the same {key}",
            )
    if not paired_points(points(old), points(new)):
        raise UsageError(
            "the two scenarios have no points to compare: no limit of one is a limit of the other, "
            "or one has more workloads there",
            where=f"{old.name} and {new.name}",
            remedy="give both the same memory limits and as many workloads",
        )


def paired_points(old: Sequence[Point], new: Sequence[Point]) -> dict[str, str]:
    """The old version's point → the new version's point that it is compared with.

    A point that both have is a pair. Of the others, those of one kind of workload at one memory
    limit are, the most alike first, if both versions have equally many there.
    """
    pairs = {
        one.id: other.id
        for one, other in itertools.product(old, new)
        if one.settings == other.settings and one.limits == other.limits
    }
    left_old = _grouped(one for one in old if one.id not in pairs)
    left_new = _grouped(one for one in new if one.id not in set(pairs.values()))
    for group, ours in left_old.items():
        theirs = left_new.get(group, [])
        if len(ours) == len(theirs):
            pairs |= _most_alike(ours, theirs)
    return {one.id: pairs[one.id] for one in old if one.id in pairs}


def _grouped(left: Iterator[Point]) -> dict[tuple[str, str], list[Point]]:
    groups: dict[tuple[str, str], list[Point]] = {}
    for point in left:
        groups.setdefault((point.settings["kind"], point.limits.label), []).append(point)
    return groups


def _most_alike(ours: Sequence[Point], theirs: Sequence[Point]) -> dict[str, str]:
    ranked = sorted(itertools.product(ours, theirs), key=lambda pair: -_alike(*pair))
    pairs: dict[str, str] = {}
    for one, other in ranked:
        if one.id not in pairs and other.id not in pairs.values():
            pairs[one.id] = other.id
    return pairs


def _alike(one: Point, other: Point) -> int:
    """In how many settings and limits two points agree."""
    ours, theirs = ({**point.settings, **structs.asdict(point.limits)} for point in (one, other))
    return sum(key in theirs and theirs[key] == value for key, value in ours.items())


def planners_in_turn(old: Scenario, new: Scenario) -> tuple[FixedPlanner, FixedPlanner]:
    """A planner for each version; within a block, partners come in the same order."""
    of_old, of_new = points(old), points(new)
    pairs = paired_points(of_old, of_new)
    shares = [point for point in of_old if point.needs_demand]
    needed = {p.id for p in of_old if p.unlimited and any(map(p.same_workload, shares))}
    # Where an old point shows demand, its partner comes first too.
    first = {pairs[name] for name in needed if name in pairs}
    timed_new = plan(of_new, new.repeats, new.seed, first)
    timed_old = _following(of_old, timed_new, {b: a for a, b in pairs.items()})
    return (
        FixedPlanner(timed_old + own_trials(of_old, timed_old, old.strategies)),
        FixedPlanner(timed_new + own_trials(of_new, timed_new, new.strategies)),
    )


def _following(
    made: Sequence[Point], others: Sequence[PlannedTrial], partners: Mapping[str, str]
) -> list[PlannedTrial]:
    """Trials of these points in the order of their partners, with those that have none."""
    # What shows demand comes before shares of it.
    alone = [point for point in made if point.id not in partners.values()]
    first, last = ([p.id for p in alone if p.unlimited == is_first] for is_first in (True, False))
    ordered = [
        (block, name)
        for block, trials in itertools.groupby(others, key=lambda planned: planned.block)
        for name in (
            *first,
            *(partners[t.point_id] for t in trials if t.point_id in partners),
            *last,
        )
    ]
    width = max(4, len(str(len(ordered))))
    return [
        PlannedTrial(f"{number:0{width}d}", name, block, block)
        for number, (block, name) in enumerate(ordered, start=1)
    ]


def trials_in_turn(
    old: Sequence[PlannedTrial], new: Sequence[PlannedTrial], pairs: Mapping[str, str]
) -> Iterator[tuple[Version, PlannedTrial]]:
    """Both versions' plans as one: block by block, the two trials of a pair in a row.

    Which of them comes first alternates from pair to pair and from block to block.
    """
    names = {b: (rank, a) for rank, (a, b) in enumerate(pairs.items())}
    timed = [one for one in old if one.strategy is None and one.point_id in pairs]
    partners = {(one.block, one.point_id): one for one in timed}
    of_old, of_new = _by_block(old), _by_block(new)
    for block in sorted({*of_old, *of_new}):
        waiting = iter(of_old.get(block, ()))
        for one in of_new.get(block, ()):
            rank, name = names.get(one.point_id, (0, ""))
            partner = None if one.strategy else partners.get((block, name))
            if partner is None:
                yield "new", one
                continue
            for before in waiting:
                if before == partner:
                    break
                yield "old", before
            both: list[tuple[Version, PlannedTrial]] = [("old", partner), ("new", one)]
            yield from reversed(both) if (rank + block) % 2 else both
        yield from (("old", planned) for planned in waiting)


def _by_block(
    trials: Iterator[PlannedTrial] | Sequence[PlannedTrial],
) -> dict[int, list[PlannedTrial]]:
    blocks: dict[int, list[PlannedTrial]] = {}
    for one in trials:
        blocks.setdefault(one.block, []).append(one)
    return blocks
