"""What stands in the place of an accelerator, which no test machine has: its library and driver.

Only the edge is made up: :class:`FakeRuntime` is what :class:`CudaRuntime` is, with the host's
memory in the place of the accelerator's, and copies that cost what a test says.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from edgebench.layers.accelerator import AcceleratorIdentity, AllocatorFigures

#: Each mark is so much later than the one before, so a copy takes so long.
COPY_S = 0.001
TOTAL_BYTES = 1 << 30
#: What a forward pass of ``accelerator_network.py`` takes of it until it has ended.
ACTIVATION_BYTES = 64 << 20


class FakeRuntime:
    """In place of :class:`edgebench.layers.accelerator.CudaRuntime`."""

    place = "cpu"
    #: The one that was opened last, for a network that takes memory of it.
    current: ClassVar[FakeRuntime | None] = None

    def __init__(self) -> None:
        self.waits = self.retries = self.ooms = 0
        self.limit_bytes: int | None = None
        self.allocated = self.peak = 0
        self._marks = 0

    def why_missing(self) -> str | None:
        return None

    def open(self, limit_bytes: int | None) -> AcceleratorIdentity:
        """It takes the limit as torch's allocator does: what goes beyond is refused."""
        type(self).current, self.limit_bytes = self, limit_bytes
        return AcceleratorIdentity("made-up accelerator", TOTAL_BYTES, limit_bytes)

    def wait(self) -> None:
        self.waits += 1

    def mark(self) -> Any:
        self._marks += 1
        return self._marks

    def seconds(self, start: Any, end: Any) -> float:
        return float(end - start) * COPY_S

    def figures(self) -> AllocatorFigures:
        now, most = self.allocated, self.peak
        return AllocatorFigures(now, 2 * now, most, 2 * most, self.retries, self.ooms)

    def reset_peaks(self) -> None:
        self.peak = self.allocated

    def allocate(self, size_bytes: int) -> None:
        if self.limit_bytes is not None and self.allocated + size_bytes > self.limit_bytes:
            self.retries += 1
            self.ooms += 1
            raise torch.cuda.OutOfMemoryError(
                f"CUDA out of memory. Tried to allocate {size_bytes} bytes."
            )
        self.allocated += size_bytes
        self.peak = max(self.peak, self.allocated)

    def free(self, size_bytes: int) -> None:
        self.allocated -= size_bytes
