"""An accelerator: a processor with an allocator of its own, to which tensors are copied.

At each boundary of a span the worker waits for it, so that a phase's time is that of its own work,
and reads the allocator's peaks, which are then reset. What it did in each phase are events.

Only :class:`CudaRuntime` calls ``torch.cuda``: tests replace that one class where there is no GPU.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import nn

from edgebench.errors import AcceleratorMemoryError, MachineError, WorkloadError
from edgebench.layers.names import CUDA
from edgebench.text import format_size


class AcceleratorIdentity(NamedTuple):
    """Its driver's name for it, all of its memory, and the allocator's limit; bytes."""

    title: str
    total_bytes: int
    limit_bytes: int | None


class AllocatorFigures(NamedTuple):
    """The allocator's bytes now and at most since the last reset; its events so far."""

    allocated_bytes: int
    reserved_bytes: int
    peak_allocated_bytes: int
    peak_reserved_bytes: int
    retries: int
    ooms: int


class CudaRuntime:
    """``torch.cuda``, the current GPU."""

    #: Torch's name of where tensors go.
    place = CUDA

    def why_missing(self) -> str | None:
        """Why it can't be used here; None if it can."""
        if torch.version.cuda is None:
            return f"this torch has no CUDA: {torch.__version__} is built without it"
        return None if torch.cuda.is_available() else "torch finds no GPU that it can use"

    def open(self, limit_bytes: int | None) -> AcceleratorIdentity:
        """Make the context, and hold torch's allocator to the limit.

        The context's memory is the driver's and not the allocator's.
        """
        torch.cuda.init()  # type: ignore[no-untyped-call]
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        total = int(properties.total_memory)
        if limit_bytes is not None:
            torch.cuda.set_per_process_memory_fraction(min(1.0, limit_bytes / total))
        torch.cuda.synchronize()
        return AcceleratorIdentity(str(properties.name), total, limit_bytes)

    def wait(self) -> None:
        """Return when everything that was asked of it is done."""
        torch.cuda.synchronize()

    def mark(self) -> Any:
        """Mark a moment on its own clock, behind everything that was asked of it before."""
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event

    def seconds(self, start: Any, end: Any) -> float:
        """Between two marks, to about half a microsecond."""
        end.synchronize()
        return float(start.elapsed_time(end)) / 1e3

    def figures(self) -> AllocatorFigures:
        """Of the caching allocator; before its first allocation it has none, which is 0."""
        stats = torch.cuda.memory_stats()
        keys = (
            *("allocated_bytes.all.current", "reserved_bytes.all.current"),
            *("allocated_bytes.all.peak", "reserved_bytes.all.peak"),
            *("num_alloc_retries", "num_ooms"),
        )
        return AllocatorFigures(*(int(stats.get(key, 0)) for key in keys))

    def reset_peaks(self) -> None:
        """Let its peaks begin again at what is in use."""
        torch.cuda.reset_peak_memory_stats()


@dataclass(frozen=True)
class AcceleratorUse:
    """Copies, and the most memory, between two moments; bytes and the accelerator's seconds.

    ``to`` is the way to the accelerator, ``from`` the way back.
    """

    to_bytes: int = 0
    to_s: float = 0.0
    from_bytes: int = 0
    from_s: float = 0.0
    peak_allocated_bytes: int = 0
    peak_reserved_bytes: int = 0

    def __add__(self, other: AcceleratorUse) -> AcceleratorUse:
        """Add the copies of both, and take the larger peaks."""
        return AcceleratorUse(
            self.to_bytes + other.to_bytes,
            self.to_s + other.to_s,
            self.from_bytes + other.from_bytes,
            self.from_s + other.from_s,
            max(self.peak_allocated_bytes, other.peak_allocated_bytes),
            max(self.peak_reserved_bytes, other.peak_reserved_bytes),
        )


#: Phase, round, network, and whether of spans of layers.
_Place = tuple[str, int | None, str | None, bool]


class Accelerator:
    """One accelerator that was started, and what it does in each phase of a recorder.

    Copies may come from several threads; spans are begun and ended under the recorder's lock.

    Args:
        limit_bytes: the most that torch's allocator may take of it.

    Raises:
        MachineError: there is none.
        WorkloadError: it has less memory than the limit.
    """

    def __init__(self, limit_bytes: int | None = None) -> None:
        self._runtime = CudaRuntime()
        if reason := self._runtime.why_missing():
            remedy = f'leave "{CUDA}" out of accelerator, or: edgebench doctor'
            raise MachineError(reason, remedy=remedy)
        self.identity = self._runtime.open(limit_bytes)
        if limit_bytes is not None and limit_bytes > self.identity.total_bytes:
            total = f"{self.identity.title} has {format_size(self.identity.total_bytes)}"
            raise WorkloadError(
                f"a limit of {format_size(limit_bytes)} has no effect: {total}",
                remedy='leave it out of accelerator_memory, or write "max"',
            )
        #: Copies whose time is not known yet: to it or not, bytes, and the marks around them.
        self._pending: list[tuple[bool, int, Any, Any]] = []
        #: Spans under way, and what ended since the last report: their places and use.
        self._open: dict[int, tuple[_Place, AcceleratorUse]] = {}
        self._ended: dict[_Place, AcceleratorUse] = {}
        self._total = AcceleratorUse()

    def to_accelerator(self, tensor: torch.Tensor) -> torch.Tensor:
        """Copy the tensor into its memory."""
        with self._copied(True, tensor.nbytes):
            return tensor.to(self._runtime.place)

    def to_host(self, tensor: torch.Tensor) -> torch.Tensor:
        """Copy the tensor into the host's memory."""
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
        """Return when everything that was asked of it is done."""
        self._runtime.wait()

    def figures(self) -> AllocatorFigures:
        """Read the figures of torch's allocator."""
        return self._runtime.figures()

    def use_since_last(self) -> AcceleratorUse:
        """Return the copies and peaks since the last call; :meth:`wait` comes before it."""
        figures = self._runtime.figures()
        self._runtime.reset_peaks()
        use = AcceleratorUse(
            peak_allocated_bytes=figures.peak_allocated_bytes,
            peak_reserved_bytes=figures.peak_reserved_bytes,
        )
        # A copy that another thread adds meanwhile belongs to the next call.
        done = [self._pending.pop(0) for _ in range(len(self._pending))]
        for to_it, size, start, end in done:
            seconds = self._runtime.seconds(start, end)
            if to_it:
                use = replace(use, to_bytes=use.to_bytes + size, to_s=use.to_s + seconds)
            else:
                use = replace(use, from_bytes=use.from_bytes + size, from_s=use.from_s + seconds)
        return use

    def begin_span(
        self, number: int, phase: str, of_round: int | None, network: str | None, is_layer: bool
    ) -> None:
        """Begin a span of that number."""
        self._open[number] = (phase, of_round, network, is_layer), AcceleratorUse()

    def end_spans(self, ending: Iterable[int]) -> dict[str, Any] | None:
        """End these spans at a boundary; returns the data of an event if all have ended."""
        new = self.use_since_last()
        self._total += new
        self._open = {number: (place, use + new) for number, (place, use) in self._open.items()}
        for number in ending:
            # What began before the accelerator did is not known.
            if number in self._open:
                place, use = self._open.pop(number)
                self._ended[place] = self._ended.get(place, AcceleratorUse()) + use
        return None if self._open or not self._ended else self.report()

    def report(self) -> dict[str, Any]:
        """Return the phases that have ended since the last call, and the sums so far."""
        phases = [
            {"phase": phase, "round": number, "network": network, **asdict(use)}
            for (phase, number, network, of_layers), use in self._ended.items()
            # A span of the whole phase holds those of its layers.
            if not (of_layers and (phase, number, network, False) in self._ended)
        ]
        self._ended.clear()
        figures = self.figures()
        events = ("allocated_bytes", "reserved_bytes", "retries", "ooms")
        now = {name: getattr(figures, name) for name in events}
        return {"phases": phases, "total": {**asdict(self._total), **now}}

    def memory_error(self, error: Exception) -> AcceleratorMemoryError | None:
        """Word torch's error if its memory ran out."""
        if not is_accelerator_memory_error(error):
            return None
        words = (str(error).strip().splitlines() or ["out of memory"])[0]
        return AcceleratorMemoryError(
            words,
            where=self.identity.title,
            remedy="lower the batch or the precision, or give it more: accelerator_memory in "
            "[limits]",
        )


def is_memory_error(error: BaseException) -> bool:
    """Whether torch found no memory: the host's, or the accelerator's."""
    return "allocate memory" in str(error) or is_accelerator_memory_error(error)


def is_accelerator_memory_error(error: BaseException | None) -> bool:
    """Whether the accelerator had no memory left, also where that caused another error."""
    while error is not None:
        text = str(error)
        ran_out = "CUDA" in text and "out of memory" in text
        # CUDA's libraries take memory beside torch's allocator.
        ran_out = ran_out or "STATUS_ALLOC_FAILED" in text
        if ran_out or isinstance(error, torch.cuda.OutOfMemoryError):
            return True
        error = error.__cause__
    return False
