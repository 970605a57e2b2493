"""Swap in compressed memory."""

from __future__ import annotations

from edgebench.remedies.base import KernelRemedy, RemedyTarget, registered_remedy


@registered_remedy
class ZramSwap(KernelRemedy):
    """Pages are compressed instead of written to a disk."""

    name = "zram-swap"
    title = "swaps into compressed memory instead of to a disk"
    costs = "memory for the compressed pages, and time of the processor"
    source = "Documentation/admin-guide/blockdev/zram.rst"
    by_hand = "edgebench advise --swap zram:1G …"

    def unfit(self, target: RemedyTarget) -> str | None:
        """It is what it has already."""
        return "its swap is zram already" if target.swap_kind == "zram" else super().unfit(target)
