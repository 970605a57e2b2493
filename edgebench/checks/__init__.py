"""Is this machine fit to measure on? A registry of checks, each of which shows and advises.

``fail`` means that a sweep can't run or would measure nonsense; ``warn`` that its numbers need
care; ``absent`` that the machine has no such thing to look at.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from edgebench.checks.base import Advice, Answer, Check, Status
from edgebench.checks.machine import ForeignLoad, FreePages, Governor, GpuMemory, HugePages, Ram
from edgebench.checks.tools import Disk, GnuTime, LimitBites, Surveyed, Swap, Torch
from edgebench.errors import CgroupError
from edgebench.machine.machine import Machine

if TYPE_CHECKING:
    from edgebench.cgroups.place import Place

__all__ = ["Advice", "Answer", "Check", "Status", "all_checks", "is_fit"]


def all_checks() -> Iterator[Check]:
    """Every check of this machine, in the order they are told."""
    from edgebench.cgroups.place import survey

    machine = Machine()
    yield from (Surveyed(finding) for finding in survey())
    with _place() as place:
        yield LimitBites(place)
        yield Ram(place, machine)
    yield from (GnuTime(), Torch(), Swap(), Disk())
    yield from (Governor(machine), HugePages(machine), FreePages(machine))
    yield from (ForeignLoad(), GpuMemory(machine))


@contextmanager
def _place() -> Iterator[Place | None]:
    """The place for cgroups, None if there is none: the survey then says why."""
    from edgebench.cgroups.leftovers import Ownership
    from edgebench.cgroups.place import find_place

    with Ownership() as ownership:
        place = None
        with suppress(CgroupError):
            place = find_place(ownership)
        yield place


def is_fit(answers: list[Answer]) -> bool:
    """Whether nothing failed."""
    return all(answer.status != "fail" for answer in answers)
