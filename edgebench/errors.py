"""The one exception tree. Each error says what is wrong, where, and what mends it."""

from __future__ import annotations


class EdgebenchError(Exception):
    """Any failure that a person can mend.

    Args:
        what: what is wrong, one sentence.
        where: file, key or line at fault.
        remedy: the command or edit that mends it.
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
    """The command line's words are off."""

    exit_code = 2


class ScenarioError(EdgebenchError):
    """A scenario file can't be read or says something impossible."""


class MachineError(EdgebenchError):
    """The machine lacks something: GNU time, swap, disk space, a package."""


class CgroupError(MachineError):
    """A cgroup can't be made, limited, read or removed here."""


class ResultsError(EdgebenchError):
    """A results folder can't be read or written."""


class WorkloadError(EdgebenchError):
    """The workload itself can't do what was asked of it: no such network, no checkpoint."""


class SweepIncompleteError(EdgebenchError):
    """The sweep ended, but some trials failed unexpectedly."""

    exit_code = 3


class RegressionError(EdgebenchError):
    """``compare`` found a regression."""

    exit_code = 4


class NotFitError(EdgebenchError):
    """``doctor`` found this machine not fit for measuring."""

    exit_code = 5


class InterruptedSweepError(EdgebenchError):
    """The person stopped the work; everything finished is kept."""

    exit_code = 130
