"""What is asked of an accelerator's library, and CUDA's answer.

Only :class:`CudaRuntime` calls ``torch.cuda``: tests replace that one class where there is no GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import torch

from edgebench.layers.names import CUDA


class AcceleratorIdentity(NamedTuple):
    """Its driver's name for it, all of its memory, and the allocator's limit; bytes."""

    title: str
    total_bytes: int
    limit_bytes: int | None


class AllocatorFigures(NamedTuple):
    """What torch's allocator tells: bytes now and at most since the last reset; events so far."""

    allocated_bytes: int
    reserved_bytes: int
    peak_allocated_bytes: int
    peak_reserved_bytes: int
    retries: int
    ooms: int


class AcceleratorRuntime(Protocol):
    """What is asked of an accelerator's library."""

    #: Torch's name of where tensors go.
    place: str

    def why_missing(self) -> str | None:
        """Why it can't be used here; None if it can."""

    def open(self, limit_bytes: int | None) -> AcceleratorIdentity:
        """Start it, and hold torch's allocator to the limit."""

    def wait(self) -> None:
        """Return when all that was asked of it is done."""

    def mark(self) -> Any:
        """A moment on its own clock, behind all that was asked of it before."""

    def seconds(self, start: Any, end: Any) -> float:
        """Between two marks that both have passed."""

    def figures(self) -> AllocatorFigures:
        """What the allocator tells now."""

    def reset_peaks(self) -> None:
        """Let its peaks begin again at what is in use."""


class CudaRuntime:
    """``torch.cuda``, the current GPU."""

    place = CUDA

    def why_missing(self) -> str | None:
        """Torch's own word on it."""
        if torch.version.cuda is None:
            return f"this torch has no CUDA: {torch.__version__} is built without it"
        return None if torch.cuda.is_available() else "torch finds no GPU that it can use"

    def open(self, limit_bytes: int | None) -> AcceleratorIdentity:
        """Make the context, whose memory is the driver's and not the allocator's."""
        torch.cuda.init()  # type: ignore[no-untyped-call]
        told = torch.cuda.get_device_properties(torch.cuda.current_device())
        total = int(told.total_memory)
        if limit_bytes is not None:
            torch.cuda.set_per_process_memory_fraction(min(1.0, limit_bytes / total))
        torch.cuda.synchronize()
        return AcceleratorIdentity(str(told.name), total, limit_bytes)

    def wait(self) -> None:
        """All streams."""
        torch.cuda.synchronize()

    def mark(self) -> Any:
        """An event in the current stream."""
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event

    def seconds(self, start: Any, end: Any) -> float:
        """CUDA tells milliseconds, to about half a microsecond."""
        end.synchronize()
        return float(start.elapsed_time(end)) / 1e3

    def figures(self) -> AllocatorFigures:
        """Of the caching allocator; before its first allocation it has none, which is 0."""
        told = torch.cuda.memory_stats()
        return AllocatorFigures(
            *(
                int(told.get(key, 0))
                for key in (
                    "allocated_bytes.all.current",
                    "reserved_bytes.all.current",
                    "allocated_bytes.all.peak",
                    "reserved_bytes.all.peak",
                    "num_alloc_retries",
                    "num_ooms",
                )
            )
        )

    def reset_peaks(self) -> None:
        """Those of the caching allocator."""
        torch.cuda.reset_peak_memory_stats()


#: Name in a scenario → what runs it.
RUNTIMES: dict[str, Callable[[], AcceleratorRuntime]] = {CUDA: CudaRuntime}
