"""An accelerator: a processor with an allocator of its own, to which tensors are copied.

How it is asked is in :mod:`edgebench.layers.accelerator_runtime`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from edgebench.errors import MachineError, WorkloadError
from edgebench.layers.accelerator_runtime import RUNTIMES, AllocatorFigures
from edgebench.layers.loaders import Tensors
from edgebench.units import format_size


@dataclass(frozen=True)
class AcceleratorUse:
    """Copies, and the most memory, between two moments; bytes and the accelerator's seconds."""

    to_bytes: int = 0
    to_s: float = 0.0
    from_bytes: int = 0
    from_s: float = 0.0
    peak_allocated_bytes: int = 0
    peak_reserved_bytes: int = 0

    def __add__(self, other: AcceleratorUse) -> AcceleratorUse:
        """Copies of both, and the larger peaks."""
        return AcceleratorUse(
            self.to_bytes + other.to_bytes,
            self.to_s + other.to_s,
            self.from_bytes + other.from_bytes,
            self.from_s + other.from_s,
            max(self.peak_allocated_bytes, other.peak_allocated_bytes),
            max(self.peak_reserved_bytes, other.peak_reserved_bytes),
        )


class Accelerator:
    """One accelerator under way. Copies may come from several threads.

    Args:
        name: its name in a scenario.
        limit_bytes: the most that torch's allocator may take of it.

    Raises:
        MachineError: there is none.
        WorkloadError: it has less memory than the limit.
    """

    def __init__(self, name: str, limit_bytes: int | None = None) -> None:
        self.name = name
        self._runtime = RUNTIMES[name]()
        if reason := self._runtime.why_missing():
            raise no_accelerator(name, reason)
        self.identity = self._runtime.open(limit_bytes)
        if limit_bytes is not None and limit_bytes > self.identity.total_bytes:
            total = format_size(self.identity.total_bytes)
            raise WorkloadError(
                f"a limit of {format_size(limit_bytes)} has no effect: {self.identity.title} has "
                f"{total}",
                remedy='leave it out of accelerator_memory, or write "max"',
            )
        #: Copies whose time is not known yet: to it or not, bytes, and the marks around them.
        self._pending: list[tuple[bool, int, Any, Any]] = []

    def to_accelerator(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor in its memory."""
        with self._copied(True, tensor.nbytes):
            return tensor.to(self._runtime.place)

    def to_host(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor in the host's memory."""
        with self._copied(False, tensor.nbytes):
            return tensor.to("cpu")

    def move_network(self, network: nn.Module) -> None:
        """Have all its parameters and buffers in the accelerator's memory; shared ones once."""
        stored = {*network.parameters(), *network.buffers()}
        with self._copied(True, sum(tensor.nbytes for tensor in stored)):
            network.to(self._runtime.place)

    @contextmanager
    def _copied(self, to_it: bool, size_bytes: int) -> Iterator[None]:
        start = self._runtime.mark()
        yield
        self._pending.append((to_it, size_bytes, start, self._runtime.mark()))

    def wait(self) -> None:
        """Return when all that was asked of it is done."""
        self._runtime.wait()

    def figures(self) -> AllocatorFigures:
        """What torch's allocator tells now."""
        return self._runtime.figures()

    def use_since_last(self) -> AcceleratorUse:
        """Copies and peaks since the last call; :meth:`wait` comes before it."""
        told = self._runtime.figures()
        self._runtime.reset_peaks()
        use = AcceleratorUse(
            peak_allocated_bytes=told.peak_allocated_bytes,
            peak_reserved_bytes=told.peak_reserved_bytes,
        )
        # Another thread may add one meanwhile: it is of the next call.
        done = [self._pending.pop(0) for _ in range(len(self._pending))]
        for to_it, size, start, end in done:
            seconds = self._runtime.seconds(start, end)
            if to_it:
                use = replace(use, to_bytes=use.to_bytes + size, to_s=use.to_s + seconds)
            else:
                use = replace(use, from_bytes=use.from_bytes + size, from_s=use.from_s + seconds)
        return use


def loader_to(
    accelerator: Accelerator, load: Callable[[Path], Tensors]
) -> Callable[[Path], Tensors]:
    """Loads into the host's memory and copies that, which is then given back."""
    return lambda path: {k: accelerator.to_accelerator(t) for k, t in load(path).items()}


def no_accelerator(name: str, reason: str) -> MachineError:
    """The error where an accelerator that is asked for can't be used."""
    return MachineError(reason, remedy=f'leave "{name}" out of accelerator, or: edgebench doctor')


def is_memory_error(error: BaseException) -> bool:
    """Whether torch found no memory: the host's, or the accelerator's."""
    return "allocate memory" in str(error) or is_accelerator_memory_error(error)


def is_accelerator_memory_error(error: BaseException | None) -> bool:
    """Whether the accelerator had no memory left, also where another error was made of that."""
    while error is not None:
        text = str(error)
        ran_out = "CUDA" in text and "out of memory" in text
        # A library of CUDA's that takes memory of its own, beside torch's allocator.
        if (
            isinstance(error, torch.cuda.OutOfMemoryError)
            or ran_out
            or "STATUS_ALLOC_FAILED" in text
        ):
            return True
        error = error.__cause__
    return False
