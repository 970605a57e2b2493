"""What the strategies of the heap profilers share: from a profile to a reading."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from edgebench.errors import ResultsError
from edgebench.measures.heap.profile import Boundaries, HeapProfile, SpanHeap, boundaries, link
from edgebench.measures.reading import ErrorBar, Holder, Reading
from edgebench.measures.strategy import Strategy, TrialData
from edgebench.safe_files import write
from edgebench.safe_reading import read_file

#: More than this much between the two looks, and the clock was set.
STEP_NS = 20_000_000
_FILE = "clock"


def offset_ns() -> int:
    """Wall clock − ``CLOCK_MONOTONIC``, within about a microsecond."""
    before = time.monotonic_ns()
    wall = time.time_ns()
    return wall - (before + time.monotonic_ns()) // 2


def keep_offset(folder: Path) -> None:
    """Keep the offset of now in the folder."""
    write(folder / _FILE, f"{offset_ns()}\n".encode())


def kept_offset(folder: Path) -> tuple[int, str | None]:
    """The offset that was kept, and a note if the wall clock was set since then."""
    kept, now = int(read_file(folder / _FILE, 100)), offset_ns()
    if abs(now - kept) <= STEP_NS:
        return kept, None
    return kept, f"the wall clock was set by {(now - kept) / 1e9:.3f} s while the trial was running"


class HeapStrategy(Strategy):
    """A heap profiler around the workload, in a trial of its own."""

    own_trial = True
    #: Whether what the program maps, such as weights, is counted.
    counts_mapped: ClassVar[bool] = False
    #: How much slower it makes the workload, in words, as benchmarks/heap_cost.py measured.
    cost: ClassVar[str]
    #: How a peak is measured.
    method: ClassVar[str]

    def wrap(
        self, command: Sequence[str], env: Mapping[str, str], folder: Path
    ) -> tuple[list[str], dict[str, str]]:
        """As usual; the wall clock's offset is kept in the folder."""
        keep_offset(folder)
        return super().wrap(command, env, folder)

    @abstractmethod
    def profile(self, folder: Path, numbered: Boundaries, offset_ns: int) -> HeapProfile:
        """What the profiler left in the trial's folder.

        Args:
            folder: as :meth:`wrap` had it.
            numbered: the boundaries that the profiler knows by number.
            offset_ns: wall clock − ``CLOCK_MONOTONIC``.

        Raises:
            ResultsError: it left nothing that can be read; says why, as far as known.
        """

    def read(self, trial: TrialData) -> Reading:
        """The heap's peak, its line over time, and each span's figures.

        Raises:
            ResultsError: as :meth:`profile`.
        """
        if trial.folder is None:
            raise ResultsError(f"{self.title} needs a trial of its own")
        numbered = boundaries(trial.events)
        offset_ns, stepped = kept_offset(trial.folder)
        profile = self.profile(trial.folder, numbered, offset_ns)
        notes = (*profile.notes, *([stepped] if stepped else []))
        heaps = link(profile.points, trial.spans, numbered)
        error = ErrorBar(profile.unseen_bytes, profile.error)
        linked = "the order of allocation" if numbered else "time"
        return Reading(
            strategy=self.name,
            peak_bytes=profile.peak_bytes,
            method=self.method,
            error=error,
            spans=tuple(heap.reading for heap in heaps),
            span_method=f"{self.method}; linked to spans by {linked}",
            span_error=error,
            line=profile.line or tuple((p.t_ns, p.live_bytes) for p in profile.points),
            parts=_parts(heaps) if self.counts_mapped else {},
            missing={f"note {number}": note for number, note in enumerate(notes, 1)},
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
