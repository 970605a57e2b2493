"""What a steady round needs in memory: the pages that it touches, and what it holds for a while."""

from __future__ import annotations

from dataclasses import dataclass

#: Why a walk has none, in its record's ``missing``.
NOT_REACHED = "it is seen in a round at a walk's end, which this walk did not come to"


@dataclass(frozen=True)
class WorkingSet:
    """What of a cgroup's memory a steady round needs, bytes. Below it, rounds read memory again.

    The working set is what a process referenced in its last interval (Denning, "The working set
    model for program behavior", CACM 11(5), 1968); the interval here is one round.

    Args:
        anonymous_bytes: anonymous pages that the round touched and that outlived it.
        file_bytes: pages of mapped files that the round touched, its mapped weights among them, as
            far as the cgroup is charged for them.
        kernel_bytes: the kernel's own memory, page tables among it.
        passing_bytes: what the round held at its peak, and gave back before its end.
        cached_bytes: no part of it: pages of other files. What of them is read by calls in each
            round comes from the disk again where there is no room for it.
    """

    anonymous_bytes: int
    file_bytes: int
    kernel_bytes: int
    passing_bytes: int
    cached_bytes: int

    @property
    def total_bytes(self) -> int:
        """All that must be in memory."""
        return self.anonymous_bytes + self.file_bytes + self.kernel_bytes + self.passing_bytes
