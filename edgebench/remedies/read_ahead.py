"""How much the kernel reads ahead of a file."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path

from edgebench.identity import caller_identity
from edgebench.measures.machine.disks import whole_disk
from edgebench.measures.machine.system_files import SystemFiles, UnreadableError
from edgebench.remedies.base import KernelRemedy, RemedySetting, RemedyTarget, registered_remedy
from edgebench.workloads.preparation import cache_folder


class _ReadAhead(KernelRemedy):
    """Of the disk that has the weights, or of a program's working folder."""

    source = "Documentation/ABI/stable/sysfs-block, queue/read_ahead_kb"

    def unfit(self, target: RemedyTarget) -> str | None:
        """It is so already, or which disk it is can't be told."""
        try:
            file = _file(target)
            now = SystemFiles().number(file[1:])
        except UnreadableError as reason:
            return str(reason)
        return None if self.changes_from(now) else f"{file} is {now} already"

    @abstractmethod
    def changes_from(self, now_kb: int) -> bool:
        """Whether the disk reads more, or less, than it would then."""

    def setting(self, target: RemedyTarget) -> RemedySetting:
        """The disk's file."""
        return RemedySetting(kernel={_file(target): self.value})


@registered_remedy
class LessReadAhead(_ReadAhead):
    """What is read beside what was asked for takes memory that others need."""

    name = "less-read-ahead"
    title = "reads at most 32 KiB of a file ahead"
    costs = "files that are read in order are read more slowly"
    value = "32"

    def changes_from(self, now_kb: int) -> bool:
        """From a larger value."""
        return now_kb > int(self.value)


@registered_remedy
class MoreReadAhead(_ReadAhead):
    """A disk is faster in large pieces, and weights are mostly read in order."""

    name = "more-read-ahead"
    title = "reads up to 4 MiB of a file ahead"
    costs = "memory for what is read and not used"
    value = "4096"

    def changes_from(self, now_kb: int) -> bool:
        """From a smaller value."""
        return now_kb < int(self.value)


def _file(target: RemedyTarget) -> str:
    """The disk's file.

    Raises:
        UnreadableError: the folder lies on no disk, or on several.
    """
    if target.kind == "command":
        place = Path(target.settings.get("cwd") or ".")
    else:
        place = cache_folder(caller_identity())
    there = next(one for one in (place.absolute(), *place.absolute().parents) if one.exists())
    return f"/sys/block/{whole_disk(SystemFiles(), there).name}/queue/read_ahead_kb"
