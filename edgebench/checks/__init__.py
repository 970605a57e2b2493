"""Is this machine fit to measure on? A registry of checks, each of which shows and advises.

``fail`` means that a sweep can't run or would measure nonsense; ``warn`` that its numbers need
care; ``absent`` that the machine has no such thing to look at.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from edgebench.checks.base import Advice, Answer, Check, Status
from edgebench.checks.machine import ForeignLoad, Governor, GpuMemory, HugePages, Ram
from edgebench.checks.tools import Disk, GnuTime, LimitBites, Surveyed, Swap, Torch
from edgebench.errors import CgroupError
from edgebench.machine import Machine

if TYPE_CHECKING:
    from edgebench.cgroups.place import Place

__all__ = ["Advice", "Answer", "Check", "Status", "all_checks", "is_fit"]


def all_checks() -> Iterator[Check]:
    """Every check of this machine, in the order they are told."""
    from edgebench.cgroups.place import survey

    machine, place = Machine(), _place()
    yield from (Surveyed(finding) for finding in survey())
    yield LimitBites(place)
    yield from (GnuTime(), Torch(), Swap(), Disk())
    yield Ram(place, machine)
    yield from (Governor(machine), HugePages(machine), ForeignLoad(), GpuMemory(machine))


def _place() -> Place | None:
    from edgebench.cgroups.place import find_place

    try:
        return find_place()
    except CgroupError:
        # The survey says why, and what to do about it.
        return None


def is_fit(answers: list[Answer]) -> bool:
    """Whether nothing failed."""
    return all(answer.status != "fail" for answer in answers)
