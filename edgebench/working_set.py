"""What a steady round needs in memory: the pages that it touches, and what it holds for a while."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class WorkingSet:
    """What of a cgroup's memory a steady round needs, bytes. Below it, rounds read memory again.

    The working set is what a process referenced in its last interval (Denning, "The working set
    model for program behavior", CACM 11(5), 1968); the interval here is one round.

    Args:
        anonymous_bytes: anonymous pages that the round touched and that outlived it.
        file_bytes: pages of files that the cgroup is charged for, without those mapped pages that
            the round did not touch.
        kernel_bytes: the kernel's own memory, page tables among it.
        passing_bytes: what the round held at its peak, and gave back before its end.
    """

    anonymous_bytes: int
    file_bytes: int
    kernel_bytes: int
    passing_bytes: int

    @property
    def total_bytes(self) -> int:
        """All of it."""
        return self.anonymous_bytes + self.file_bytes + self.kernel_bytes + self.passing_bytes
