"""What storage takes: seconds a byte and a fault, of a calibrated device or of a declared speed."""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgebench.slowdown.calibration import Calibration


@dataclass(frozen=True)
class StorageCosts:
    """Seconds that storage takes, for so many threads as execute a layer.

    Args:
        in_s, out_s: a byte that comes back from swap, or goes there, beside faults; 0: no swap.
        mapped_in_s: a byte that is read again from a mapped file, beside faults.
        fault_s: a fault, beside the bytes that it brings back.
        fault_bytes, mapped_fault_bytes: what a fault brings back, from swap and from a mapped file.
        touch_s: a byte of memory that is used for the first time.
        file_s: a byte of a file that is read in order.
        held_swap_s, held_file_s: what a byte takes at least, where a declared speed holds the disk;
            0: nothing holds it.
        in_ram: whether swap is in RAM (zram), where nothing is read while the network computes.
        seen: what a slowed network added here ÷ what these costs say; 1 if that was not measured.
    """

    in_s: float
    out_s: float
    mapped_in_s: float
    fault_s: float
    fault_bytes: float
    mapped_fault_bytes: float
    touch_s: float
    file_s: float
    held_swap_s: float = 0.0
    held_file_s: float = 0.0
    in_ram: bool = False
    seen: float = 1.0

    @property
    def held(self) -> bool:
        """Whether a declared speed holds the disk; it then reads on while the network computes."""
        return max(self.held_swap_s, self.held_file_s) > 0

    def again_s(self, mapped: bool) -> float:
        """Return the seconds of a byte that a steady round reads again, faults and all."""
        if mapped:
            own = self.mapped_in_s + self.fault_s / self.mapped_fault_bytes
            return max(self.held_file_s, self.seen * own)
        own = self.in_s + self.fault_s / self.fault_bytes
        # What comes back from zram takes the place of what is written there.
        own += self.out_s + self.touch_s if self.in_ram else 0.0
        return max(self.held_swap_s, self.seen * own)


def storage_costs(calibration: Calibration, threads: int | None = None) -> StorageCosts:
    """Return the costs of a device, as it is or held to a speed.

    Args:
        calibration: its constants.
        threads: how many execute a layer; None: as many as there are cores.
    """
    held = calibration.held
    swap_in, swap_out = calibration.swap_in_bytes_per_s, calibration.swap_out_bytes_per_s
    fault_bytes = calibration.pages_per_fault.value * mmap.PAGESIZE
    if (threads or calibration.environment.get("cpu_cores_usable")) != 1:
        # Threads scan a tensor each in its part: the kernel reads around a fault, not ahead of it
        # (``swap_vma_readahead`` in mm/swap_state.c), and half of that is behind it.
        fault_bytes = max(mmap.PAGESIZE, fault_bytes / 2)
    held_swap_s = 1 / held.swap_bytes_per_s if held and held.swap_bytes_per_s else 0.0
    held_file_s = 1 / held.file_bytes_per_s if held and held.file_bytes_per_s else 0.0
    return StorageCosts(
        in_s=1 / swap_in.value if swap_in else 0.0,
        out_s=1 / swap_out.value if swap_out else 0.0,
        mapped_in_s=1 / calibration.file_fault_bytes_per_s.value,
        fault_s=calibration.fault_s.value,
        fault_bytes=fault_bytes,
        mapped_fault_bytes=calibration.file_pages_per_fault.value * mmap.PAGESIZE,
        touch_s=calibration.minor_fault_s.value / mmap.PAGESIZE,
        file_s=max(held_file_s, 1 / calibration.file_read_bytes_per_s.value),
        held_swap_s=held_swap_s,
        held_file_s=held_file_s,
        in_ram=calibration.swap_kind == "zram",
        seen=calibration.seen_share.value if calibration.seen_share else 1.0,
    )
