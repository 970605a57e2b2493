"""Whether this machine is fit to measure on: checks, each of which registers itself.

A new check is one function in a module of this package, under ``@registered_check``; rows come in
the order of the modules' names and of the functions in them.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from edgebench.errors import CgroupError
from edgebench.run.checks.base import (
    CHECKS,
    Check,
    CheckResult,
    CheckTarget,
    Status,
)

if TYPE_CHECKING:
    from edgebench.cgroups.parent import Finding, ParentCgroup

__all__ = ["Check", "CheckResult", "all_checks", "check_machine", "finding_result", "is_fit"]


def all_checks() -> Sequence[Check]:
    """Every check of every module here."""
    for module in sorted(found.name for found in pkgutil.iter_modules(__path__)):
        importlib.import_module(f"{__name__}.{module}")
    return CHECKS


def check_machine() -> Iterator[CheckResult]:
    """Yield the result of every check of this machine, one by one; those of cgroups come first."""
    from edgebench.cgroups.parent import check_support

    yield from map(finding_result, check_support())
    with _parent() as parent:
        target = CheckTarget(parent=parent)
        yield from (check.result(target) for check in all_checks())


def finding_result(finding: Finding) -> CheckResult:
    """One finding about cgroups as a check's result; unknown with a remedy is a warning."""
    status: Status = "ok"
    if finding.ok is False:
        status = "fail"
    elif finding.ok is None and finding.remedy:
        status = "warn"
    remedy = None if status == "ok" else finding.remedy or "see docs/verbs/doctor.md"
    return CheckResult(finding.name, status, finding.says, remedy)


@contextmanager
def _parent() -> Iterator[ParentCgroup | None]:
    """Yield the parent cgroup; None if there is none: `check_support` then says why."""
    from edgebench.cgroups.leftovers import Ownership
    from edgebench.cgroups.parent import find_parent

    with Ownership() as ownership:
        parent = None
        with suppress(CgroupError):
            parent = find_parent(ownership)
        yield parent


def is_fit(results: Sequence[CheckResult]) -> bool:
    """Whether nothing failed."""
    return all(result.status != "fail" for result in results)
