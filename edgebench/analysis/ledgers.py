"""The ledgers of one point: from each strategy's figure to the next one's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from edgebench.analysis.boundary import (
    SpanBoundary,
    boundary_figure,
    boundary_nearest_peak,
    boundary_nearest_trial_peak,
    size_at_boundary,
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
    own_to_malloc,
    resident_to_charged,
    resident_to_proportional,
    without_zeros,
)
from edgebench.measures.strategies import strategy_of
from edgebench.measures.strategies.cgroup import STATISTICS, split_at_most, split_at_peak
from edgebench.results.trial_readings import SpanKey, TrialReadings, span_of_maxrss

IMPORT = SpanKey("import", -1, None, None, 0)
INIT = SpanKey("init", -1, None, None, 0)


def own_to_malloc_ledger(process: TrialReadings, at: SpanBoundary) -> Ledger | None:
    """Reconcile the process's own memory with malloc's count, in one look."""
    own_bytes, used = own_memory(at.look), at.look.get("heap_used_bytes")
    if own_bytes is None or used is None:
        return None
    return Ledger(
        boundary_figure(process, "process-own", own_bytes, at.where),
        boundary_figure(process, "malloc", used, at.where),
        without_zeros(own_to_malloc(at.look, at.split, _copied(process))),
    )


def own_to_heap_ledger(
    process: TrialReadings, at: SpanBoundary, name: str, profiled: TrialReadings
) -> Ledger | None:
    """Reconcile the process's own memory with a heap profiler's view of the same boundary."""
    own_bytes, heap = own_memory(at.look), size_at_boundary(profiled, name, at.key, at.at_end)
    if own_bytes is None or heap is None:
        return None
    terms = own_to_malloc(at.look, at.split, _copied(process))
    if counts_mapped_weights(profiled, name):
        terms = [term for term in terms if term.name != "weights"]
        if not _copied(process):
            terms.append(_mapped_weights(at, 1))
    # How differently the two count the runtime, seen where there is nothing else.
    by_malloc = size_at_boundary(process, "malloc", IMPORT)
    by_profiler = size_at_boundary(profiled, name, IMPORT)
    if by_malloc is not None and by_profiler is not None:
        says = (
            "parts of the runtime that the two count differently: arenas, other mappings, "
            "block headers"
        )
        measured = "malloc's count against the profiler's at the import's end"
        terms.append(Term("runtime-otherwise", by_profiler - by_malloc, says, measured))
        if by_profiler > by_malloc:
            # It sees mappings, and counts them whole.
            says = "areas for kernels compiled at run time: mapped, hardly touched"
            size = at.look.get("code_areas_bytes", 0)
            terms.append(Term("code-areas", size, says, "/proc/PID/maps: executable, of no file"))
    return Ledger(
        boundary_figure(process, "process-own", own_bytes, at.where),
        boundary_figure(profiled, name, heap, at.where),
        without_zeros(terms),
    )


def counts_mapped_weights(profiled: TrialReadings, name: str) -> bool:
    """Whether a profiler counts mapped weights: then loading them lets its heap grow."""
    reading = profiled.readings[name]
    largest = max((span.after_bytes or 0 for span in reading.spans), default=0)
    return reading.parts.get("parameters", 0) > 0.01 * largest


def _copied(trial: TrialReadings) -> bool:
    return trial.record.settings.get("loader") != "mmap"


def _mapped_weights(at: SpanBoundary, sign: int) -> Term:
    return Term(
        "weights",
        sign * at.look.get("weights_bytes", 0),
        "weights, which the loader maps past the allocator",
        "lengths of the loader's mappings that are in use",
    )


def heap_to_torch_ledger(
    process: TrialReadings,
    at: SpanBoundary,
    name: str,
    profiled: TrialReadings,
    torch: TrialReadings,
) -> Ledger | None:
    """Reconcile a heap's figure with torch's peak: less the runtime, and what isn't torch's."""
    wanted = (
        *(
            size_at_boundary(profiled, name, at.key, at.at_end),
            size_at_boundary(profiled, name, IMPORT),
        ),
        *(size_at_boundary(profiled, name, INIT), size_at_boundary(torch, "torch", INIT)),
        size_at_boundary(torch, "torch", at.key, at.at_end),
    )
    known, target = [size for size in wanted if size is not None], trial_peak(torch, "torch")
    if len(known) < len(wanted) or target is None:
        return None
    heap, imported, built, first, there = known
    terms = [
        Term("runtime-import", -imported, "what the runtime's import took", "at the import's end"),
        Term(
            "build",
            imported - built + first,
            "what building the networks took, torch's tensors aside",
            "over the phase init",
        ),
        Term(
            "other-moment",
            target.size_bytes - there,
            "torch's peak is inside a layer, the heap's figure at a boundary",
            "torch's peak against its sum there",
        ),
    ]
    left, tensors = (
        next((size_at_boundary(trial, view, key) for key in _first_round(trial)), None)
        for trial, view in ((profiled, name), (torch, "torch"))
    )
    if left is not None and tensors is not None:
        says = (
            "memory that executions keep for later ones: compiled kernels and caches of libraries"
        )
        measured = "the heap after the round without torch's tensors, against before it"
        terms.append(Term("kernel-caches", built - first - (left - tensors), says, measured))
    if name != "malloc" and counts_mapped_weights(profiled, name):
        terms.append(_mapped_weights(at, -1))
    return Ledger(boundary_figure(profiled, name, heap, at.where), target, without_zeros(terms))


def _first_round(trial: TrialReadings) -> Iterator[SpanKey]:
    """Find the first round; its key names a network in training, but not over several networks."""
    return (key for key in trial.spans if key.phase == "round" and key.round == 0)


def torch_to_analytic_ledger(
    timed: TrialReadings, torch: TrialReadings, known: Sequence[SpanBoundary], key: SpanKey | None
) -> Ledger | None:
    """Reconcile torch's allocations with the model's sum, of the whole trial or of one span.

    The model counts weights, torch does not: the loaders' mappings are taken from the process's
    own trial.
    """
    counted = ((span, timed.span_reading("analytic", span)) for span in timed.spans)
    model = {span: r.peak_bytes for span, r in counted if r and r.peak_bytes is not None}
    at = key or max(model, key=lambda which: model[which], default=None)
    reading = torch.span_reading("torch", at) if at else None
    whole = trial_peak(torch, "torch")
    if (
        at is None
        or at not in model
        or reading is None
        or reading.peak_bytes is None
        or whole is None
    ):
        return None
    where = f"peak in {span_label(torch.spans[at])}"
    here = boundary_figure(torch, "torch", reading.peak_bytes, where)
    loaded = [moment for moment in known if moment.key == at]
    terms = [_mapped_weights(loaded[-1], 1)] if loaded else []
    if loaded and (cache := loaded[-1].look.get("key_value_cache_bytes")):
        says = "keys and values of the tokens so far, which the model's sum leaves out"
        measured = "sizes of the cache's tensors"
        terms.append(Term("key-value-cache", -cache, says, measured))
    if key is None:
        says = "torch's allocations peak in another layer than the model's sum"
        measured = "torch's peaks of both layers"
        terms.append(Term("other-moment", reading.peak_bytes - whole.size_bytes, says, measured))
    source = whole if key is None else here
    return Ledger(
        source, boundary_figure(timed, "analytic", model[at], where), without_zeros(terms)
    )


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
        """Make the whole trial's ledgers, as far as there are trials for them."""
        ledgers = [_sampled_to_kernel(self.timed)]
        if "process" in self.own:
            process = self.own["process"]
            source, target = trial_peak(self.timed, "gnu-time"), trial_peak(process, "process")
            terms = _other_trial(self.timed, process, target.size_bytes) if target else []
            ledgers.append(_between(source, target, *terms))
        if (at := self.boundary) is not None:
            process = self.own["process"]
            sampled = self.own.get(STATISTICS, self.timed)
            if (largest := trial_peak(process, "process")) is not None:
                marks = _mark_to_mark(at, largest.size_bytes)
                ledgers.append(_between(largest, trial_peak(process, "kernel"), *marks))
            ledgers.append(_kernel_to_timed(process, self.timed, sampled))
            if "pss_bytes" in at.look:
                resident = boundary_figure(process, "process", at.resident_bytes, at.where)
                pss = boundary_figure(process, "process-pss", at.look["pss_bytes"], at.where)
                ledgers.append(_between(resident, pss, *resident_to_proportional(at.look)))
            ledgers += [_kernel_to_own(process, at), own_to_malloc_ledger(process, at)]
            profiled = {"malloc": process, **self._profiled}
            for name, trial in self._profiled.items():
                ledgers.append(own_to_heap_ledger(process, at, name, trial))
            if "torch" in self.own:
                ledgers += [
                    heap_to_torch_ledger(process, at, name, trial, self.own["torch"])
                    for name, trial in profiled.items()
                ]
        ledgers.append(self._torch_to_analytic(None))
        return [ledger for ledger in ledgers if ledger is not None]

    def of_span(self, key: SpanKey) -> list[Ledger]:
        """Make one span's ledgers, as a rule a layer's."""
        ledgers: list[Ledger | None] = []
        at = boundary_nearest_peak([end for end in self.boundaries if end.key == key])
        if at is not None:
            process = self.own["process"]
            marked = boundary_figure(process, "process", at.process_bytes, at.where_marked)
            kernel = boundary_figure(process, "kernel", at.kernel_bytes, at.where_marked)
            ledgers.append(_between(marked, kernel, *_mark_to_mark(at, at.process_bytes)))
            ledgers.append(_kernel_to_own(process, at))
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

    def _torch_to_analytic(self, key: SpanKey | None) -> Ledger | None:
        if "torch" not in self.own:
            return None
        return torch_to_analytic_ledger(self.timed, self.own["torch"], self.boundaries, key)


def _between(source: Figure | None, target: Figure | None, *terms: Term) -> Ledger | None:
    if source is None or target is None:
        return None
    return Ledger(source, target, without_zeros(terms))


def _other_trial(timed: TrialReadings, process: TrialReadings, peak_bytes: int) -> list[Term]:
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
    """Take from the kernel's mark of a span the page cache that nobody had mapped then.

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


def _kernel_to_own(process: TrialReadings, at: SpanBoundary) -> Ledger | None:
    own_bytes = own_memory(at.look)
    if own_bytes is None:
        return None
    return _between(
        boundary_figure(process, "kernel", at.kernel_bytes, at.where_marked),
        boundary_figure(process, "process-own", own_bytes, at.where),
        _inside(at, -1),
        *charged_to_own(at.look),
    )
