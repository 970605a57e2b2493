"""The kernel's high-water mark of the trial's cgroup: exact, however short the moment."""

from __future__ import annotations

from edgebench.measures.reading import ErrorBar, Reading, SpanReading
from edgebench.measures.strategy import Strategy, TrialData, registered_strategy

#: Pages that the kernel charges ahead on each CPU (mm/memcontrol.c, MEMCG_CHARGE_BATCH).
BATCH_PAGES = 64
CANT_RESET = "this kernel can't reset its mark: a span has the cgroup's usage at its ends alone"


def batching(trial: TrialData) -> ErrorBar:
    """What the kernel may have charged ahead of use."""
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
        """From the record and the events."""
        record = trial.record
        told = record is not None and record.peak_source == "kernel"
        resets = any(span.peak_bytes is not None for span in trial.spans)
        missing = {} if told else {"peak_bytes": "this kernel keeps no mark of a cgroup"}
        if not resets:
            missing["spans"] = CANT_RESET if trial.spans else "the workload records no spans"
        return Reading(
            strategy=self.name,
            peak_bytes=record.peak_bytes if record and told else None,
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
