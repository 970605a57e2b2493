"""What the heap's strategies share: from a profile to a reading."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from edgebench.errors import ResultsError
from edgebench.measures.heap.linking import Boundaries, SpanHeap, boundaries, link
from edgebench.measures.heap.profile import HeapProfile
from edgebench.measures.strategy import ErrorBar, Holder, Reading, Seen, Strategy


class HeapStrategy(Strategy):
    """A heap profiler around the workload, in a trial of its own."""

    own_trial = True
    #: For a person: how much slower it makes the workload, as benchmarks/heap_cost.py measured.
    cost: ClassVar[str]
    #: How it tells a peak.
    method: ClassVar[str]

    @abstractmethod
    def profile(self, folder: Path, told: Boundaries) -> HeapProfile:
        """What the profiler left in the trial's folder.

        Args:
            folder: as :meth:`wrap` had it.
            told: the boundaries that the profiler was told.

        Raises:
            ResultsError: it left nothing that can be read; says why, as far as that shows.
        """

    def read(self, seen: Seen) -> Reading:
        """The heap's peak, its line over time, and each span's figures.

        Raises:
            ResultsError: as :meth:`profile`.
        """
        if seen.folder is None:
            raise ResultsError(f"{self.title} needs a trial of its own")
        told = boundaries(seen.events)
        profile = self.profile(seen.folder, told)
        heaps = link(profile.points, seen.spans, told)
        error = ErrorBar(profile.unseen_bytes, profile.error)
        linked = "the order of allocation" if told else "time"
        return Reading(
            strategy=self.name,
            peak_bytes=profile.peak_bytes,
            method=self.method,
            error=error,
            spans=tuple(heap.reading for heap in heaps),
            span_method=f"{self.method}; linked to spans by {linked}",
            span_error=error,
            line=profile.line or tuple((p.t_ns, p.live_bytes) for p in profile.points),
            parts=_parts(heaps) if profile.counts_mapped else {},
            missing={f"note {number}": note for number, note in enumerate(profile.notes, 1)},
            holders=tuple(
                Holder(heap.span.id, stack.live_bytes, stack.frames)
                for heap in heaps
                for stack in heap.stacks
            ),
        )


def _parts(heaps: Sequence[SpanHeap]) -> dict[str, int]:
    """``parameters``: by how much the heap grew over the loads of the first round's layers.

    None where threads overlap: what one allocates falls into the other's spans.
    """
    layers = [heap for heap in heaps if heap.span.layer is not None]
    first = min((heap.span.round for heap in layers), default=None)
    layers = [heap for heap in layers if heap.span.round == first]
    loads = [heap.reading for heap in layers if heap.span.phase == "load"]
    if not loads or len({heap.span.thread for heap in layers}) > 1:
        return {}
    return {"parameters": sum((r.after_bytes or 0) - (r.before_bytes or 0) for r in loads)}
