"""Which swap is filled first."""

from __future__ import annotations

from edgebench.measures.machine.disks import swap_devices
from edgebench.measures.machine.system_files import SystemFiles, UnreadableError
from edgebench.remedies.base import KernelRemedy, RemedyTarget, registered_remedy


@registered_remedy
class SwapOrder(KernelRemedy):
    """Areas of one priority are used in turns, others from the highest on."""

    name = "swap-order"
    title = "fills the fastest swap first: zram before a disk, a disk before a memory card"
    costs = "nothing, if there is room: all that is swapped comes back into memory meanwhile"
    source = "swapon(8), --priority; swapon(2)"
    by_hand = "sudo swapoff DEVICE && sudo swapon --priority 100 DEVICE   # of the fastest"

    def unfit(self, target: RemedyTarget) -> str | None:
        """Only of the machine's own swap, and only of several areas."""
        if target.swap_kind == "none":
            return "there is no swap"
        if target.swap_kind != "system":
            return "edgebench's own swap is one area"
        try:
            return None if len(swap_devices(SystemFiles())) > 1 else "there is one swap area"
        except UnreadableError as reason:
            return str(reason)
