"""Strategies that read what any trial leaves behind: its record, its samples and its events.

These are the kernel's high-water mark, the sampler's readings with their parts, GNU time's figure,
and the sum of parameters, live outputs and workspace. The sum takes from the events which layers
were loaded and executed when, and their sizes from the layer table.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from edgebench.measures.gnu_time import NO_REPORT
from edgebench.measures.strategies import (
    ErrorBar,
    Reading,
    SpanReading,
    Strategy,
    TrialData,
    registered_strategy,
)
from edgebench.spans import Span

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Pages that the kernel charges ahead on each CPU (mm/memcontrol.c, MEMCG_CHARGE_BATCH).
BATCH_PAGES = 64
CANT_RESET = "this kernel can't reset its mark: a span has the cgroup's usage at its ends alone"


def batching(trial: TrialData) -> ErrorBar:
    """Return what the kernel may have charged ahead of use."""
    if trial.cpus is None:
        return ErrorBar(None, f"{BATCH_PAGES} pages charged ahead on each CPU, which are not known")
    slack = BATCH_PAGES * trial.page_bytes * trial.cpus
    return ErrorBar(slack, f"{BATCH_PAGES} pages charged ahead on each of {trial.cpus} CPUs")


@registered_strategy
class KernelMark(Strategy):
    """``memory.max_usage_in_bytes`` (version 1) or ``memory.peak`` (version 2).

    Of the whole trial, and of each span where the kernel lets the mark be reset at its start.
    """

    name = "kernel"
    title = "kernel's high-water mark"
    counts = (
        "every page charged to the trial's cgroup: anonymous memory, page cache that the trial "
        "brought in, shared memory, page tables and the kernel's other memory for it"
    )
    blind_to = (
        "pages in swap; file pages that another cgroup brought in first; how much of the peak the "
        "kernel could have dropped; demand under a limit, where the mark stops at the limit"
    )

    def read(self, trial: TrialData) -> Reading:
        """Read the record and the events."""
        record = trial.record
        has_mark = record is not None and record.peak_source == "kernel"
        resets = any(span.peak_bytes is not None for span in trial.spans)
        missing = {} if has_mark else {"peak_bytes": "this kernel keeps no mark of a cgroup"}
        if not resets:
            missing["spans"] = CANT_RESET if trial.spans else "the workload records no spans"
        return Reading(
            strategy=self.name,
            peak_bytes=record.peak_bytes if record and has_mark else None,
            method="the cgroup's mark over the whole trial",
            error=batching(trial),
            spans=tuple(
                SpanReading(s.id, s.usage_before_bytes, s.peak_bytes, s.usage_after_bytes)
                for s in trial.spans
            ),
            span_method="the mark, reset at the span's start" if resets else CANT_RESET,
            span_error=batching(trial),
            missing=missing,
        )


#: What the sampled usage consists of, as far as the kernel reports it.
SPLIT = (
    *("anon_bytes", "file_bytes", "mapped_file_bytes", "shmem_bytes", "kernel_bytes"),
    *("page_tables_bytes", "slab_bytes", "swap_bytes", "swapcached_bytes"),
)


STATISTICS = "statistics"
#: What a timed trial under a limit lacks, and how to get it.
STATISTICS_REMEDY = (
    "memory.stat isn't read in a timed trial under a limit, because that can prevent a kill; "
    'for trials of its own give [sampler] stat_interval = "10ms"'
)


@registered_strategy
class Sampled(Strategy):
    """Usage read up to 1,000 times a second from outside, its split some 100 times."""

    name = "sampled"
    title = "sampled usage"
    counts = (
        "what the kernel's high-water mark counts, at each sample; less often also anonymous "
        "memory, page cache, shared memory, the kernel's memory and swap, each separately"
    )
    blind_to = (
        "memory allocated and freed between two samples; and what the kernel's high-water mark is "
        "blind to"
    )

    def read(self, trial: TrialData) -> Reading:
        """Read the sampler's tables. A span that no sample fell into has no peak.

        Unless samples are rare while usage stays the same, and it is the same before and after.
        """
        times, usage = _column(trial, "t_ns"), _column(trial, "usage_bytes")
        if times is None or usage is None or not len(times):
            why = "the trial kept no samples"
            nothing = ErrorBar(None, why)
            return Reading(self.name, None, why, nothing, missing={"peak_bytes": why})
        record, peak_bytes = trial.record, int(usage.max())
        slows_down = bool(record and record.watched and record.watched.quiet_interval_s is not None)
        spans = tuple(_sampled_span(times, usage, span, slows_down) for span in trial.spans)
        unseen = sum(span.peak_bytes is None for span in spans)
        missing = {"spans": f"no sample fell into {unseen} of {len(spans)} spans"} if unseen else {}
        parts = split_at_peak(trial)
        if not parts and record and "stat_samples" in record.missing:
            missing["parts"] = record.missing["stat_samples"]
        gaps = "how often it was sampled is not known"
        sampler = record.sampler if record else None
        if sampler and sampler.achieved_s is not None and sampler.largest_gap_s is not None:
            every, gap = sampler.achieved_s * 1e3, sampler.largest_gap_s * 1e3
            when = " while usage changes" if slows_down else ""
            gaps = f"a sample each {every:.2g} ms{when}, the largest gap {gap:.2g} ms"
        error = ErrorBar(None, gaps)
        if record and record.peak_bytes is not None and record.peak_source == "kernel":
            missed = max(0, record.peak_bytes - peak_bytes)
            error = ErrorBar(missed, f"what the kernel's mark saw beyond it; {gaps}")
        return Reading(
            strategy=self.name,
            peak_bytes=peak_bytes,
            method=f"the largest of {len(times)} samples",
            error=error,
            spans=spans,
            span_method="the largest sample between the span's start and end",
            span_error=ErrorBar(None, gaps),
            parts=parts,
            missing=missing,
        )


@registered_strategy
class Statistics(Sampled):
    """The sampler's whole table, under a limit: what usage consists of, over time.

    Each reading of ``memory.stat`` makes the kernel flush the statistics by which it reclaims, and
    may keep a trial from being killed. So timed trials under a limit are never watched like this.
    """

    name = STATISTICS
    title = "sampled kinds of memory, under a limit"
    counts = (
        "at each sample anonymous memory, page cache, shared memory, the kernel's memory and swap, "
        "each separately; refaults and major faults"
    )
    blind_to = (
        "memory allocated and freed between two samples; kills, some of which reading the "
        "statistics prevents"
    )
    own_trial = True
    limited_only = True

    def read(self, trial: TrialData) -> Reading:
        """Read the samples, where they were read back; else the record."""
        if trial.samples:
            return super().read(trial)
        peak = trial.record.sampled_peak_bytes if trial.record else None
        error = ErrorBar(None, "the samples themselves are kept beside the record")
        missing = {} if peak is not None else {"peak_bytes": "the trial kept no samples"}
        return Reading(self.name, peak, "the largest sample", error, missing=missing)


def split_at(trial: TrialData, t_ns: int) -> dict[str, int]:
    """Return the split of the slow sample nearest to a moment, bytes, without unknown kinds."""
    times = _column(trial, "t_ns", slow=True)
    if times is None or not len(times):
        return {}
    nearest = int(abs(times - t_ns).argmin())
    split: dict[str, int] = {"split_age_ns": int(abs(times[nearest] - t_ns))}
    for name in SPLIT:
        column = _column(trial, name, slow=True)
        if column is not None and column[nearest] >= 0:
            split[name] = int(column[nearest])
    return split


def split_at_peak(trial: TrialData) -> dict[str, int]:
    """Return the split of the slow sample whose pages come to the most: all are of one moment."""
    import numpy as np

    times = _column(trial, "t_ns", slow=True)
    parts = (_column(trial, name, slow=True) for name in ("anon_bytes", "file_bytes"))
    known = [part.clip(0) for part in parts if part is not None]
    if times is None or not len(times) or not known:
        return {}
    return split_at(trial, int(times[np.sum(known, axis=0).argmax()]))


def split_at_most(trial: TrialData, span: Span) -> dict[str, int]:
    """Return the split of the span's slow sample with the most anonymous memory, if it has one."""
    times, anon = _column(trial, "t_ns", slow=True), _column(trial, "anon_bytes", slow=True)
    if times is None or anon is None:
        return {}
    first, end = times.searchsorted(span.start_ns), times.searchsorted(span.end_ns)
    inside = anon[first:end]
    return split_at(trial, int(times[first + inside.argmax()])) if len(inside) else {}


def _sampled_span(times: NDArray[Any], usage: NDArray[Any], span: Span, holds: bool) -> SpanReading:
    """Find the last samples before start and end, and the largest between them.

    ``holds``: where samples are rare because usage stays the same, it is that of a span too.
    """
    first = int(times.searchsorted(span.start_ns, "right"))
    end = int(times.searchsorted(span.end_ns, "right"))
    inside = usage[first:end]
    if holds and not len(inside) and 0 < first < len(usage) and usage[first - 1] == usage[first]:
        inside = usage[first : first + 1]
    return SpanReading(
        id=span.id,
        before_bytes=int(usage[first - 1]) if first else None,
        peak_bytes=int(inside.max()) if len(inside) else None,
        after_bytes=int(usage[end - 1]) if end else None,
    )


def _column(trial: TrialData, name: str, slow: bool = False) -> NDArray[Any] | None:
    import numpy as np

    table = trial.stat if slow else trial.samples
    column: Sequence[Any] | None = table.get(name)
    return None if column is None else np.nan_to_num(np.asarray(column, dtype="float64"), nan=-1)


@registered_strategy
class GnuTimeStrategy(Strategy):
    """``ru_maxrss`` of the largest single process, as GNU time prints it."""

    name = "gnu-time"
    title = "GNU time's maximum resident set"
    counts = "the largest resident set that a single process had, file pages it mapped included"
    blind_to = (
        "when it was, and in which layer; pages in swap; page cache that is not mapped; the sum "
        "over several processes; the kernel's memory"
    )

    def read(self, trial: TrialData) -> Reading:
        """Read the record: one figure, and no spans."""
        peak_bytes = trial.record.gnu_time_maxrss_bytes if trial.record else None
        return Reading(
            strategy=self.name,
            peak_bytes=peak_bytes,
            method="the kernel's mark of the process (getrusage), at its end",
            error=ErrorBar(1024, "reported in KiB"),
            missing={} if peak_bytes is not None else {"peak_bytes": NO_REPORT},
        )


_EXECUTIONS = ("first", "execute", "prefill")
#: Schedules that keep a network's weights until all of it has run.
_KEEPING = ("bulk", "stream", "whole", "generate")
_NO_TABLE = "no layer table with live tensors: no network runs, or an older version made it"
Row = Mapping[str, Any]
#: A network's part, or a tensor of its that several parts use: what is loaded as one.
Part = tuple[str | None, str, bool]


@registered_strategy
class Analytic(Strategy):
    """Sums of the layer table along the schedule.

    A layer's execution holds the weights loaded by then, the tensors alive through it, and the
    copies that its convolutions make (:mod:`edgebench.layers.examination`).
    """

    name = "analytic"
    title = "parameters, live outputs and workspace"
    counts = "weights that are loaded, tensors alive, and copies that convolutions make"
    blind_to = (
        "the runtime (Python, torch and its libraries), allocators, page cache and the kernel; "
        "workspace of anything other than oneDNN's convolutions"
    )

    def read(self, trial: TrialData) -> Reading:
        """Read the layer tables and the order of the events."""
        rows = [row for table in trial.tables.values() for row in table]
        known = bool(rows) and all("live_peak_bytes" in row for row in rows)
        spans = _model_spans(trial) if known else []
        model = ErrorBar(None, "a model: how far it is off shows beside torch's allocations")
        peaks = [span.peak_bytes for span in spans if span.peak_bytes is not None]
        return Reading(
            strategy=self.name,
            peak_bytes=max(peaks, default=None),
            method="the largest of its spans",
            error=model,
            spans=tuple(spans),
            span_method="layer table along the schedule",
            span_error=model,
            missing={} if peaks else {"peak_bytes": _NO_TABLE},
        )


def _model_spans(trial: TrialData) -> list[SpanReading]:
    times, sizes = weights_over_time(trial)

    def loaded(t_ns: int, find: Any = bisect_right) -> int:
        index: int = find(times, t_ns)
        return sizes[index - 1] if index else 0

    batch = trial.record.settings.get("batch") if trial.record else None
    # The layer table is of one image; tensors grow with the batch.
    images = batch if isinstance(batch, int) else 1
    readings = []
    for span, rows in _layers(trial):
        row = rows[span.layer or 0]
        before, after = loaded(span.start_ns), loaded(span.end_ns)
        if span.phase == "load":
            # Before anything runs, the input alone is alive; else what the layer will be given.
            row = rows[0] if keeps_weights(trial) else row
            live = images * row["live_before_bytes"]
            readings.append(SpanReading(span.id, before + live, after + live, after + live))
        elif span.phase in _EXECUTIONS:
            working = row["live_peak_bytes"] + row["workspace_bytes"]
            # Weights go only once the layer has ended.
            after = loaded(span.end_ns, bisect_left)
            readings.append(
                SpanReading(
                    span.id,
                    before + images * row["live_before_bytes"],
                    max(before, after) + images * working,
                    after + images * row["live_after_bytes"],
                )
            )
    return readings


def _layers(trial: TrialData) -> Iterator[tuple[Span, Sequence[Row]]]:
    for span in trial.spans:
        rows: Sequence[Row] = trial.tables.get(span.network or "", ())
        if span.layer is not None and span.layer < len(rows):
            yield span, rows


def keeps_weights(trial: TrialData) -> bool:
    """Return whether the schedule loads all of a network first, and keeps it until it has run."""
    schedule = trial.record.settings.get("schedule") if trial.record else None
    return schedule in _KEEPING


def weights_over_time(trial: TrialData) -> tuple[list[int], list[int]]:
    """List when the loaded weights changed, and their bytes from then on."""
    keeping, layers = keeps_weights(trial), list(_layers(trial))
    # Without an execution, as in a trial that was killed before it, nothing is freed.
    executed = (span for span, _ in layers if span.phase in _EXECUTIONS)
    last = {(span.round, span.network): span.end_ns for span in executed}
    #: Each time a part's weights are needed (+1) or freed (-1): when, which, bytes.
    uses: list[tuple[int, Part, int, int]] = []
    for span, rows in layers:
        row = rows[span.layer or 0]
        tied: Mapping[str, int] = row.get("tied_bytes") or {}
        alone = row["parameter_bytes"] + row["buffer_bytes"] - sum(tied.values())
        parts: dict[Part, int] = {(span.network, row["part"], False): alone}
        parts |= {(span.network, name, True): size for name, size in tied.items()}
        for part, size in parts.items():
            if span.phase == "load":
                uses.append((span.end_ns, part, size, 1))
                if keeping and (span.round, span.network) in last:
                    uses.append((last[span.round, span.network], part, size, -1))
            elif span.phase == "first" and not keeping:
                uses.append((span.end_ns, part, size, -1))
    users: Counter[Part] = Counter()
    changes: list[tuple[int, int]] = []
    for t_ns, part, size, step in sorted(uses):
        before = users[part] > 0
        users[part] = max(0, users[part] + step)
        changes.append((t_ns, size * ((users[part] > 0) - before)))
    return [t for t, _ in changes], list(accumulate(size for _, size in changes))
