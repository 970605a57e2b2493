"""What a check is and what it results in; the register that all checks put themselves into."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from edgebench.errors import MachineError
from edgebench.measures.machine.system_files import SystemFiles, UnreadableError

if TYPE_CHECKING:
    from edgebench.cgroups.parent import ParentCgroup

#: ``fail``: a sweep can't run, or would measure nonsense. ``warn``: its numbers need care.
#: ``absent``: the machine has no such thing to look at.
Status = Literal["ok", "warn", "fail", "absent"]


@dataclass(frozen=True)
class CheckTarget:
    """The machine to check, and its parent cgroup; None: there is none."""

    machine: SystemFiles = field(default_factory=SystemFiles)
    parent: ParentCgroup | None = None


@dataclass(frozen=True)
class Observation:
    """What a check found, in one line. With a ``remedy`` (a command or an edit) it is a warning."""

    says: str
    remedy: str | None = None
    fails: bool = False


@dataclass(frozen=True)
class CheckResult:
    """One row: what a check found, how serious that is, what mends it."""

    check: str
    status: Status
    says: str
    remedy: str | None = None


@dataclass(frozen=True)
class Check:
    """One thing to look at.

    ``look`` raises UnreadableError where the machine has no such thing, and MachineError where
    something is lacking that every sweep needs.
    """

    name: str
    look: Callable[[CheckTarget], Observation]

    def result(self, target: CheckTarget) -> CheckResult:
        """Return the check's row for that machine."""
        try:
            found = self.look(target)
        except UnreadableError as reason:
            return CheckResult(self.name, "absent", str(reason))
        except MachineError as error:
            return CheckResult(self.name, "fail", error.what, error.remedy)
        status: Status = "fail" if found.fails else "warn" if found.remedy else "ok"
        return CheckResult(self.name, status, found.says, found.remedy)


#: All checks of the modules that were imported so far.
CHECKS: list[Check] = []


def registered_check(name: str) -> Callable[[Callable[[CheckTarget], Observation]], Check]:
    """Make a function a check of that name, and register it."""

    def register(look: Callable[[CheckTarget], Observation]) -> Check:
        check = Check(name, look)
        CHECKS.append(check)
        return check

    return register
