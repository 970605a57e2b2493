"""No huge pages: for one process, or for all that don't ask for them."""

from __future__ import annotations

from edgebench.measures.machine.system_files import SystemFiles, UnreadableError
from edgebench.remedies.base import (
    LINE,
    KernelRemedy,
    Remedy,
    RemedySetting,
    RemedyTarget,
    registered_remedy,
)
from edgebench.workloads.engines.registry import TORCH

_FILE = "/sys/kernel/mm/transparent_hugepage/enabled"
_SOURCE = "Documentation/admin-guide/mm/transhuge.rst"
_COSTS = "more entries of page tables: a few percent slower where memory is no limit"


@registered_remedy
class NoHugePages(Remedy):
    """A huge page is in memory as a whole, 2 MiB on most machines, even if few bytes are used."""

    name = "no-huge-pages"
    group = "runtime"
    title = "uses pages of the usual size only, so that nothing is in memory that is not used"
    costs = _COSTS
    source = f"prctl(2), PR_SET_THP_DISABLE; {_SOURCE}"
    effort = LINE

    def unfit(self, target: RemedyTarget) -> str | None:
        """Only where the kernel gives them unasked."""
        if target.kind == "command":
            return "edgebench can't set it in a program"
        if target.kind == "inference" and target.runtime != TORCH:
            return f"edgebench does not set it for {target.runtime}"
        if target.settings.get("huge_pages") is False:
            return "it does so already"
        return why_none_are_given(SystemFiles())

    def setting(self, target: RemedyTarget) -> RemedySetting:
        """The setting ``huge_pages``."""
        line = "ctypes.CDLL(None).prctl(41, 1, 0, 0, 0)   # PR_SET_THP_DISABLE; children inherit it"
        return RemedySetting(settings={"huge_pages": False}, code=(line,))


@registered_remedy
class HugePagesOnRequest(KernelRemedy):
    """For programs in which nothing can be set."""

    name = "huge-pages-on-request"
    title = "the kernel gives huge pages to those programs only that ask for them"
    costs = _COSTS
    source = _SOURCE
    file, value = _FILE, "madvise"

    def unfit(self, target: RemedyTarget) -> str | None:
        """Only where the kernel gives them unasked."""
        return why_none_are_given(SystemFiles())


def why_none_are_given(machine: SystemFiles) -> str | None:
    """Why no program has huge pages that it didn't ask for; None: programs have."""
    try:
        found = machine.text(_FILE[1:])
    except UnreadableError:
        return "the kernel has no transparent huge pages"
    return None if "[always]" in found else "the kernel gives them only to those who ask for them"
