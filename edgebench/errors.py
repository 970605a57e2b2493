"""Every error that a user sees: what is wrong, where, and how to fix it."""

from __future__ import annotations


class EdgebenchError(Exception):
    """A failure that the user can fix.

    Args:
        what: what is wrong, one sentence.
        where: file, key or line at fault.
        remedy: the command or edit that fixes it.
    """

    exit_code = 1

    def __init__(self, what: str, *, where: str | None = None, remedy: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.remedy = remedy

    def __str__(self) -> str:
        lines = [self.what]
        if self.where:
            lines.append(f"  where: {self.where}")
        if self.remedy:
            lines.append(f"  remedy: {self.remedy}")
        return "\n".join(lines)


class UsageError(EdgebenchError):
    """The command line has a wrong argument or flag."""

    exit_code = 2


class ScenarioError(EdgebenchError):
    """A scenario file can't be read or says something impossible."""


class MachineError(EdgebenchError):
    """The machine lacks something: GNU time, swap, disk space, a package."""


class CgroupError(MachineError):
    """A cgroup can't be made, limited, read or removed here."""


class ResultsError(EdgebenchError):
    """A results folder can't be read or written."""


class UnsafePathError(EdgebenchError):
    """The path to write to is not a plain file or folder: it is a link, a FIFO."""


class WorkloadError(EdgebenchError):
    """The workload can't run: no such network, no checkpoint."""


class AcceleratorMemoryError(WorkloadError):
    """The accelerator had no memory left, or no more than its limit: an outcome of its own."""

    outcome = "accelerator-oom"


class SweepIncompleteError(EdgebenchError):
    """The sweep ended, but some trials failed unexpectedly."""

    exit_code = 3


class RegressionError(EdgebenchError):
    """``compare`` found a regression."""

    exit_code = 4


class MemoryBudgetError(EdgebenchError):
    """``minimum --within`` found that more memory is needed."""

    exit_code = 4


class NotFitError(EdgebenchError):
    """``doctor`` found this machine not fit for measuring."""

    exit_code = 5


class FleetError(EdgebenchError):
    """A fleet's inventory has faults, or no machine of it is reached or fit."""


def error_words(error: Exception) -> str:
    """Return a library's error in one line; the name of its class where it has no words."""
    return " ".join(str(error).split()) or type(error).__name__
