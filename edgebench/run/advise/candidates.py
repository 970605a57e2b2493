"""What ``advise`` tries: the plain workload, it with each remedy, and with two of them at once."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from edgebench.processes import given_environment
from edgebench.remedies import Remedy, all_remedies
from edgebench.remedies.base import RemedySetting, RemedyTarget
from edgebench.scenario.points import Point

PLAIN = "plain"
_LOSSY = "it changes results: --lossy tries it"
#: Remedies at once, and how they are set.
_Set = tuple[tuple[Remedy, ...], RemedySetting]


@dataclass(frozen=True)
class Candidate:
    """The workload as it is, or with remedies: its settings, and its points without and with limit.

    ``name`` is :data:`PLAIN`, a remedy's, or two joined by ``+``. ``any_loss``: it was asked for
    what changes results, too.
    """

    name: str
    remedies: tuple[Remedy, ...]
    setting: RemedySetting
    unlimited: Point
    limited: Point
    any_loss: bool = False

    @property
    def effort(self) -> int:
        """What it takes to set all of it."""
        return sum(1 + one.effort for one in self.remedies)

    @property
    def changes(self) -> str:
        """What it may change in results; empty: nothing."""
        return "; ".join(one.changes for one in self.remedies if one.changes)

    @property
    def tolerance(self) -> float:
        """How far its outputs may be off, as a part of the plain ones."""
        return max((one.tolerance for one in self.remedies if one.changes), default=0.0)

    @property
    def lossy(self) -> bool:
        """Whether it may change what is learnt: by its nature, or since that was asked for."""
        return any(one.lossy for one in self.remedies) or (self.any_loss and bool(self.changes))


@dataclass(frozen=True)
class UntriedRemedy:
    """A remedy that is not tried, and why."""

    name: str
    reason: str


def remedy_target(plain: Point) -> RemedyTarget:
    """Return what remedies are asked about.

    The point's workload on this machine, as it would be run.
    """
    settings, limits = plain.settings, plain.limits
    cores = limits.cores or len(os.sched_getaffinity(0))
    environment = {**given_environment(), **(settings.get("env") or {})}
    return RemedyTarget(settings, limits.swap_kind, cores, environment, limits.memory_bytes)


def candidates_of(
    unlimited: Point, limited: Point, *, lossy: bool
) -> tuple[list[Candidate], list[UntriedRemedy]]:
    """Return what is tried, the plain workload first; and what is not, with the reasons.

    ``lossy``: remedies that change results are tried too.
    """
    target = remedy_target(limited)
    fit: list[tuple[Remedy, RemedySetting]] = []
    untried = []
    for remedy in all_remedies():
        reason = remedy.unfit(target) or (_LOSSY if remedy.lossy and not lossy else None)
        if reason:
            untried.append(UntriedRemedy(remedy.name, reason))
        else:
            fit.append((remedy, remedy.setting(target)))
    named: list[_Set] = [((), RemedySetting())]
    named += [((remedy,), setting) for remedy, setting in fit]
    named += _pairs(fit)
    made = _with_points(named, unlimited, limited)
    return [replace(one, any_loss=lossy) for one in made], untried


def _pairs(fit: Sequence[tuple[Remedy, RemedySetting]]) -> Iterator[_Set]:
    for (one, own), (other, others) in itertools.combinations(fit, 2):
        both = own.with_other(others) if one.group != other.group else None
        if both:
            yield (one, other), both


def _with_points(named: Sequence[_Set], unlimited: Point, limited: Point) -> Iterator[Candidate]:
    for number, (remedies, setting) in enumerate(named):
        name = "+".join(one.name for one in remedies) or PLAIN
        own = _settings(limited.settings, name, setting) if remedies else limited.settings
        free, held = (
            replace(point, id=f"p{2 * number + place:03d}", settings=own)
            for place, point in enumerate((unlimited, limited), start=1)
        )
        yield Candidate(name, remedies, setting, free, held)


def _settings(plain: Mapping[str, Any], name: str, setting: RemedySetting) -> dict[str, Any]:
    """Return the workload's settings with the remedy's, and its name, which tells it apart."""
    env = {**(plain.get("env") or {}), **setting.env}
    own: dict[str, Any] = {**plain, **setting.settings, "remedy": name}
    return own | ({"env": env} if env else {})
