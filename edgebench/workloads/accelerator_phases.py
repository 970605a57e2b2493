"""What an accelerator does in each phase, told by the worker as events of their own.

At each boundary of a span the worker waits for the accelerator, so that a phase's time is that of
its own work, and reads the allocator's peaks, which are then reset.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from edgebench.errors import AcceleratorMemoryError
from edgebench.workloads.events import SpanPlace

if TYPE_CHECKING:
    from edgebench.layers.accelerator import Accelerator, AcceleratorUse
    from edgebench.workloads.recorder import Recorder

_REMEDY = "lower the batch or the precision, or give it more: accelerator_memory in [limits]"


@dataclass
class _OpenSpan:
    place: SpanPlace
    use: AcceleratorUse


@dataclass
class AcceleratorPhases:
    """Follows a recorder's spans; it is called under the recorder's lock, but for :meth:`wait`."""

    accelerator: Accelerator
    _open: dict[int, _OpenSpan] = field(default_factory=dict)
    #: Phase, round, network, and whether of spans of layers → their use.
    _ended: dict[tuple[str, int | None, str | None, bool], AcceleratorUse] = field(
        default_factory=dict
    )

    def __post_init__(self) -> None:
        from edgebench.layers.accelerator import AcceleratorUse

        self._nothing = self._total = AcceleratorUse()

    def wait(self) -> None:
        """Wait for the accelerator before a boundary's time is read."""
        self.accelerator.wait()

    def begin_span(self, number: int, place: SpanPlace) -> None:
        """Begin a span of that number."""
        self._open[number] = _OpenSpan(place, self._nothing)

    def end_spans(self, ending: Iterable[int]) -> dict[str, Any] | None:
        """End these spans at a boundary; returns the data of an event if all have ended."""
        use = self.accelerator.use_since_last()
        self._total += use
        for span in self._open.values():
            span.use += use
        for number in ending:
            # What began before the accelerator did is not known.
            if (ended := self._open.pop(number, None)) is not None:
                place = ended.place
                key = place.phase, place.round, place.network, place.layer is not None
                self._ended[key] = self._ended.get(key, self._nothing) + ended.use
        if self._open or not self._ended:
            return None
        return self.report()

    def report(self) -> dict[str, Any]:
        """Return the phases that have ended since the last call, and the sums so far."""
        phases = [
            {"phase": phase, "round": number, "network": network, **asdict(use)}
            for (phase, number, network, of_layers), use in self._ended.items()
            # A span of the whole phase holds those of its layers.
            if not (of_layers and (phase, number, network, False) in self._ended)
        ]
        self._ended.clear()
        figures = self.accelerator.figures()
        events = ("allocated_bytes", "reserved_bytes", "retries", "ooms")
        now = {name: getattr(figures, name) for name in events}
        return {"phases": phases, "total": {**asdict(self._total), **now}}


def start_accelerator(settings: Mapping[str, Any], recorder: Recorder) -> None:
    """Start the accelerator of the settings, if they name one, and follow the recorder's spans.

    Settings: ``accelerator``, and the limit of its memory as ``accelerator_bytes``.

    Raises:
        MachineError: there is none.
        WorkloadError: it has less memory than the limit.
    """
    if name := settings.get("accelerator"):
        from edgebench.layers.accelerator import Accelerator

        accelerator = Accelerator(settings.get("accelerator_bytes"))
        recorder.accelerator_event(identity={"name": name, **accelerator.identity._asdict()})
        recorder.accelerator = AcceleratorPhases(accelerator)


@contextmanager
def reported_accelerator(recorder: Recorder) -> Iterator[None]:
    """Report the accelerator's memory at the end, also where it ran out.

    Raises:
        AcceleratorMemoryError: in the place of torch's own error.
    """
    try:
        yield
    except Exception as error:
        if recorder.accelerator is None:
            raise
        from edgebench.layers.accelerator import is_accelerator_memory_error

        if not is_accelerator_memory_error(error):
            raise
        recorder.accelerator_event(**recorder.accelerator.report())
        words = (str(error).strip().splitlines() or ["out of memory"])[0]
        title = recorder.accelerator.accelerator.identity.title
        raise AcceleratorMemoryError(words, where=title, remedy=_REMEDY) from error
    if recorder.accelerator is not None:
        recorder.accelerator_event(**recorder.accelerator.report())
