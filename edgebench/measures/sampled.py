"""The sampler's readings of the cgroup's usage, and of what it consists of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from edgebench.measures.strategy import ErrorBar, Reading, Seen, SpanReading, Strategy
from edgebench.records.phases import Span

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: What the sampled usage consists of, as far as the kernel tells it.
SPLIT = (
    *("anon_bytes", "file_bytes", "mapped_file_bytes", "shmem_bytes", "kernel_bytes"),
    *("page_tables_bytes", "slab_bytes", "swap_bytes", "swapcached_bytes"),
)


class Sampled(Strategy):
    """Usage read up to 1,000 times a second from outside, its split some 100 times."""

    name = "sampled"
    title = "sampled usage"
    counts = (
        "what the kernel's mark counts, at each sample; beside it, less often, anonymous memory, "
        "page cache, shared memory, the kernel's memory and swap apart"
    )
    blind_to = (
        "whatever comes and goes between two samples; else what the kernel's mark is blind to"
    )

    def read(self, seen: Seen) -> Reading:
        """From the sampler's tables. A span that no sample fell into has no peak."""
        times, usage = _column(seen, "t_ns"), _column(seen, "usage_bytes")
        if times is None or usage is None or not len(times):
            why = "the trial kept no samples"
            nothing = ErrorBar(None, why)
            return Reading(self.name, None, why, nothing, missing={"peak_bytes": why})
        at = int(usage.argmax())
        spans = tuple(_span(times, usage, span) for span in seen.spans)
        unseen = sum(span.peak_bytes is None for span in spans)
        missing = {"spans": f"no sample fell into {unseen} of {len(spans)} spans"} if unseen else {}
        return Reading(
            strategy=self.name,
            peak_bytes=int(usage[at]),
            method=f"the largest of {len(times)} samples",
            error=self._error(seen, int(usage[at])),
            spans=spans,
            span_method="the largest sample between the span's start and end",
            span_error=ErrorBar(None, _gaps(seen)),
            parts=split_at_peak(seen),
            missing=missing,
        )

    @staticmethod
    def _error(seen: Seen, peak_bytes: int) -> ErrorBar:
        """Against the kernel's exact mark where there is one."""
        record = seen.record
        if record is None or record.peak_bytes is None or record.peak_source != "kernel":
            return ErrorBar(None, _gaps(seen))
        missed = max(0, record.peak_bytes - peak_bytes)
        return ErrorBar(missed, f"what the kernel's mark saw beyond it; {_gaps(seen)}")


def split_at(seen: Seen, t_ns: int) -> dict[str, int]:
    """The split of the slow sample nearest to a moment, bytes; what isn't told is left out."""
    times = _column(seen, "t_ns", slow=True)
    if times is None or not len(times):
        return {}
    nearest = int(abs(times - t_ns).argmin())
    found: dict[str, int] = {"split_age_ns": int(abs(times[nearest] - t_ns))}
    for name in SPLIT:
        column = _column(seen, name, slow=True)
        if column is not None and column[nearest] >= 0:
            found[name] = int(column[nearest])
    return found


def split_at_peak(seen: Seen) -> dict[str, int]:
    """The split of the slow sample whose pages come to the most: all of it is of one moment."""
    import numpy as np

    times = _column(seen, "t_ns", slow=True)
    parts = (_column(seen, name, slow=True) for name in ("anon_bytes", "file_bytes"))
    told = [part.clip(0) for part in parts if part is not None]
    if times is None or not len(times) or not told:
        return {}
    return split_at(seen, int(times[np.sum(told, axis=0).argmax()]))


def split_at_most(seen: Seen, span: Span) -> dict[str, int]:
    """The split of the span's slow sample with the most anonymous memory; empty without one."""
    times, anon = _column(seen, "t_ns", slow=True), _column(seen, "anon_bytes", slow=True)
    if times is None or anon is None:
        return {}
    first, end = times.searchsorted(span.start_ns), times.searchsorted(span.end_ns)
    inside = anon[first:end]
    return split_at(seen, int(times[first + inside.argmax()])) if len(inside) else {}


def _gaps(seen: Seen) -> str:
    sampler = seen.record.sampler if seen.record else None
    if sampler is None or sampler.achieved_s is None or sampler.largest_gap_s is None:
        return "how often it was sampled is not known"
    every, gap = sampler.achieved_s * 1e3, sampler.largest_gap_s * 1e3
    return f"a sample each {every:.2g} ms, the largest gap {gap:.2g} ms"


def _span(times: NDArray[Any], usage: NDArray[Any], span: Span) -> SpanReading:
    """The last samples before start and end, and the largest between them."""
    first = int(times.searchsorted(span.start_ns, "right"))
    end = int(times.searchsorted(span.end_ns, "right"))
    inside = usage[first:end]
    return SpanReading(
        id=span.id,
        before_bytes=int(usage[first - 1]) if first else None,
        peak_bytes=int(inside.max()) if len(inside) else None,
        after_bytes=int(usage[end - 1]) if end else None,
    )


def _column(seen: Seen, name: str, slow: bool = False) -> NDArray[Any] | None:
    import numpy as np

    table = seen.stat if slow else seen.samples
    column: Sequence[Any] | None = table.get(name)
    return None if column is None else np.nan_to_num(np.asarray(column, dtype="float64"), nan=-1)
