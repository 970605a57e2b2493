"""The ledgers of one point: from each strategy's figure to the next one's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from edgebench.analysis.reconcile import heap_ledgers as heaps
from edgebench.analysis.reconcile.boundary import (
    SpanBoundary,
    boundary_figure,
    boundary_nearest_peak,
    boundary_nearest_trial_peak,
    span_boundaries,
    span_label,
    trial_peak,
)
from edgebench.measures.heap import HeapStrategy
from edgebench.measures.ledger import (
    Figure,
    Ledger,
    Term,
    charged_to_own,
    own_memory,
    resident_to_charged,
    resident_to_proportional,
    without_zeros,
)
from edgebench.measures.strategies import strategy_of
from edgebench.measures.strategies.cgroup import STATISTICS, split_at_most, split_at_peak
from edgebench.results.trial_readings import SpanKey, TrialReadings, span_of_maxrss

_ELSEWHERE, _INSIDE = "other-moment", "inside-span"


@dataclass(frozen=True)
class PointLedgers:
    """A point's trials, and the ledgers between what was seen of them.

    Args:
        timed: a timed trial.
        own: strategy → its own trial.
    """

    timed: TrialReadings
    own: Mapping[str, TrialReadings] = field(default_factory=dict)

    def whole(self) -> list[Ledger]:
        """The whole trial's ledgers, those that the trials there are allow."""
        ledgers = [_sampled_to_kernel(self.timed), self._gnu_time_to_process()]
        if (at := self.boundary) is not None:
            process = self.own["process"]
            sampled = self.own.get(STATISTICS, self.timed)
            ledgers.append(_process_to_kernel(process, at))
            ledgers.append(_kernel_to_timed(process, self.timed, sampled))
            ledgers.append(_process_to_pss(process, at))
            ledgers += [_kernel_to_own(process, at), heaps.own_to_malloc_ledger(process, at)]
            profiled = {"malloc": process, **self._profiled}
            for name, trial in self._profiled.items():
                ledgers.append(heaps.own_to_heap_ledger(process, at, name, trial))
            if "torch" in self.own:
                ledgers += [
                    heaps.heap_to_torch_ledger(process, at, name, trial, self.own["torch"])
                    for name, trial in profiled.items()
                ]
        ledgers.append(self._torch_to_analytic(None))
        return [ledger for ledger in ledgers if ledger is not None]

    def of_span(self, key: SpanKey) -> list[Ledger]:
        """One span's ledgers, as a rule a layer's."""
        ledgers: list[Ledger | None] = []
        at = boundary_nearest_peak([one for one in self.boundaries if one.key == key])
        if at is not None:
            process = self.own["process"]
            ledgers += [_span_process_to_kernel(process, at), _kernel_to_own(process, at)]
        ledgers.append(self._torch_to_analytic(key))
        return [ledger for ledger in ledgers if ledger is not None]

    @cached_property
    def boundaries(self) -> list[SpanBoundary]:
        """Every boundary of the process's own trial."""
        return list(span_boundaries(self.own["process"])) if "process" in self.own else []

    @cached_property
    def boundary(self) -> SpanBoundary | None:
        """The boundary at which the whole trial's figures are compared."""
        if "process" not in self.own:
            return None
        slack = self.own["process"].readings["kernel"].error.size_bytes
        return boundary_nearest_trial_peak(self.boundaries, slack or 0)

    @property
    def _profiled(self) -> dict[str, TrialReadings]:
        """The heap's profilers and their trials."""
        return {
            name: trial
            for name, trial in self.own.items()
            if isinstance(strategy_of(name), HeapStrategy)
        }

    def _gnu_time_to_process(self) -> Ledger | None:
        if "process" not in self.own:
            return None
        process = self.own["process"]
        source, target = trial_peak(self.timed, "gnu-time"), trial_peak(process, "process")
        terms = _other_trial(self.timed, process, target.size_bytes) if target else []
        return _between(source, target, *terms)

    def _torch_to_analytic(self, key: SpanKey | None) -> Ledger | None:
        if "torch" not in self.own:
            return None
        return heaps.torch_to_analytic_ledger(self.timed, self.own["torch"], self.boundaries, key)


def _between(source: Figure | None, target: Figure | None, *terms: Term) -> Ledger | None:
    if source is None or target is None:
        return None
    return Ledger(source, target, without_zeros(terms))


def _other_trial(timed: TrialReadings, process: TrialReadings, peak_bytes: int) -> list[Term]:
    """From the span in which GNU time's mark was set to the other trial's largest."""
    key = span_of_maxrss(timed)
    mark = process.span_reading("process", key) if key else None
    if key is None or mark is None or mark.peak_bytes is None:
        return []
    says = f"GNU time's mark was set in {span_label(timed.spans[key])}, the other's elsewhere"
    terms = [Term(_ELSEWHERE, peak_bytes - mark.peak_bytes, says, "VmHWM of both spans")]
    sizes = [_without_cache(trial, key) for trial in (timed, process)]
    known = [size for size in sizes if size is not None]
    if len(known) == len(sizes):
        says = "memory of the worker's own measuring; memory that the allocator kept"
        measured = "the kernel's marks of that span in both trials, sampled page cache taken off"
        terms.append(Term("other-trial", known[1] - known[0], says, measured))
    return terms


def _without_cache(trial: TrialReadings, key: SpanKey) -> int | None:
    """The kernel's mark of a span without the page cache that nobody had mapped then.

    None under a limit, where page cache changes while the peak stays at the limit.
    """
    if trial.record.limit_bytes is not None:
        return None
    span = trial.spans[key]
    split = split_at_most(trial.seen, span)
    if span.peak_bytes is None or "file_bytes" not in split or "mapped_file_bytes" not in split:
        return None
    return span.peak_bytes - (split["file_bytes"] - split["mapped_file_bytes"])


def _sampled_to_kernel(timed: TrialReadings) -> Ledger | None:
    sampled, kernel = trial_peak(timed, "sampled"), trial_peak(timed, "kernel")
    if sampled is None or kernel is None:
        return None
    missed = Term(
        "between-samples",
        kernel.size_bytes - sampled.size_bytes,
        "usage that lasted less than the time between two samples",
        "both read the same counter of the same trial: only the moment differs",
    )
    return _between(sampled, kernel, missed)


def _process_to_kernel(process: TrialReadings, at: SpanBoundary) -> Ledger | None:
    largest = trial_peak(process, "process")
    if largest is None:
        return None
    return _between(largest, trial_peak(process, "kernel"), *_mark_to_mark(at, largest.size_bytes))


def _span_process_to_kernel(process: TrialReadings, at: SpanBoundary) -> Ledger | None:
    return _between(
        boundary_figure(process, "process", at.process_bytes, at.where_marked),
        boundary_figure(process, "kernel", at.kernel_bytes, at.where_marked),
        *_mark_to_mark(at, at.process_bytes),
    )


def _mark_to_mark(at: SpanBoundary, process_bytes: int) -> list[Term]:
    """From the process's mark to the boundary, there to what is charged, on to the kernel's mark.

    Even marks of one span may be of two instants: at a limit page cache comes as pages go to swap.
    """
    elsewhere = Term(
        _ELSEWHERE,
        at.resident_bytes - process_bytes,
        f"the process was largest at another moment than the {at.where}",
        "VmHWM against the resident set there",
    )
    return [elsewhere, *resident_to_charged(at.look), _inside(at, 1)]


def _inside(at: SpanBoundary, sign: int) -> Term:
    return Term(
        _INSIDE,
        sign * (at.kernel_bytes - at.usage_bytes),
        f"charged inside {span_label(at.span)}, and not at its {'end' if at.at_end else 'start'}",
        "the kernel's mark of the span against usage there",
    )


def _kernel_to_timed(
    process: TrialReadings, timed: TrialReadings, sampled: TrialReadings
) -> Ledger | None:
    """From the kernel's mark of one trial to the other's: who was charged for page cache.

    ``sampled`` stands for the timed one where that one's kinds of memory were not sampled.
    """
    splits = [split_at_peak(trial.seen) for trial in (process, sampled)]
    terms = [
        Term(name, splits[1][part] - splits[0][part], says, "the sampler's split at both peaks")
        for name, part, says in (
            (
                "page-cache",
                "file_bytes",
                "page cache that only one of the trials was charged for",
            ),
            ("other-trial", "anon_bytes", "anonymous memory that only one of the trials held"),
            ("kernel-memory", "kernel_bytes", "kernel memory of only one of the trials"),
        )
        if all(part in split for split in splits)
    ]
    return _between(trial_peak(process, "kernel"), trial_peak(timed, "kernel"), *terms)


def _process_to_pss(process: TrialReadings, at: SpanBoundary) -> Ledger | None:
    if "pss_bytes" not in at.look:
        return None
    return _between(
        boundary_figure(process, "process", at.resident_bytes, at.where),
        boundary_figure(process, "process-pss", at.look["pss_bytes"], at.where),
        *resident_to_proportional(at.look),
    )


def _kernel_to_own(process: TrialReadings, at: SpanBoundary) -> Ledger | None:
    own = own_memory(at.look)
    if own is None:
        return None
    return _between(
        boundary_figure(process, "kernel", at.kernel_bytes, at.where_marked),
        boundary_figure(process, "process-own", own, at.where),
        _inside(at, -1),
        *charged_to_own(at.look),
    )
