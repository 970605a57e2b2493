"""One thread for computing."""

from __future__ import annotations

from edgebench.remedies.base import Remedy, RemedySetting, RemedyTarget, registered_remedy
from edgebench.workloads.engines.registry import TORCH

_VARIABLE = "OMP_NUM_THREADS"


@registered_remedy
class OneThread(Remedy):
    """Each thread has a stack, a part of the allocator's cache, and scratch memory of its own.

    And threads that swap one layer back wait for one another.
    """

    name = "one-thread"
    group = "runtime"
    title = "computes in one thread, which needs less scratch memory"
    costs = "the other cores stand idle"
    source = "OpenMP 5.2, OMP_NUM_THREADS"
    changes = "the last digits: sums are added up in another order"

    def unfit(self, target: RemedyTarget) -> str | None:
        """It has one thread already, or somebody has said how many."""
        if target.cores == 1 or target.settings.get("threads") == 1:
            return "it has one thread already"
        if _VARIABLE in target.environment:
            return f"{_VARIABLE} is set already"
        return None

    def setting(self, target: RemedyTarget) -> RemedySetting:
        """A variable where OpenMP computes and nothing else says how many threads."""
        if target.runtime in (None, TORCH) and not target.settings.get("threads"):
            return RemedySetting(env={_VARIABLE: "1"})
        return RemedySetting(settings={"threads": 1})
