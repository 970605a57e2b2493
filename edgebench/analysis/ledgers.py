"""The ledgers of one point: from each strategy's figure to the next one's.

Two peaks may be of different moments; then their difference means nothing. So figures are compared
at a boundary of a span, where the worker reads all counters at once: the one nearest to the peak.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from edgebench.measures.ledger import (
    Figure,
    Ledger,
    Term,
    charged_to_own,
    own_memory,
    own_to_malloc,
    resident_to_charged,
    without_zeros,
)
from edgebench.measures.strategies import ErrorBar, HeapStrategy, strategy_of
from edgebench.measures.strategies.process import resident
from edgebench.measures.strategies.recorded import STATISTICS, split_at_most, split_at_peak
from edgebench.results.frames import SpanKey, TrialReadings, span_of_maxrss
from edgebench.spans import Span

Look = Mapping[str, int]
IMPORT = SpanKey("import", -1, None, None, 0)
INIT = SpanKey("init", -1, None, None, 0)


@dataclass(frozen=True)
class SpanBoundary:
    """One end of a span of the process's own trial.

    Args:
        key, span: which span.
        at_end: its end, else its start.
        look: what the worker read there.
        split: the nearest look that splits own memory by mapping.
        usage_bytes: the cgroup's usage there.
        kernel_bytes: the kernel's mark of the whole span; where it can't be reset, usage there.
        process_bytes: VmHWM of the whole span, or likewise the resident set there.
    """

    key: SpanKey
    span: Span
    at_end: bool
    look: Look
    split: Look
    usage_bytes: int
    kernel_bytes: int
    process_bytes: int

    @property
    def distance_bytes(self) -> int:
        """How far the cgroup's usage was from the span's peak."""
        return abs(self.kernel_bytes - self.usage_bytes)

    @property
    def resident_bytes(self) -> int:
        """The process's resident set there."""
        return resident(self.look) or 0

    @property
    def where(self) -> str:
        """In words."""
        return f"{'end' if self.at_end else 'start'} of {span_label(self.span)}"

    @property
    def where_marked(self) -> str:
        """Where the marks are of."""
        return self.where if self.span.peak_bytes is None else f"peak in {span_label(self.span)}"


def span_label(span: Span) -> str:
    """Write ``first alexnet features.8``."""
    layer = None if span.layer is None else span.name or f"layer {span.layer}"
    return " ".join(word for word in (span.phase, span.network, layer) if word)


def span_boundaries(process: TrialReadings) -> Iterator[SpanBoundary]:
    """Yield both ends of each span of which everything is known, in order of time.

    Spans around others are left out: their marks are of some instant inside, far from their ends.
    """
    looks: dict[tuple[int, bool], Look] = {
        (event["id"], event["event"] == "end"): event["view"]
        for event in process.seen.events
        if isinstance(event.get("view"), dict) and "rss_anon_bytes" in event["view"]
    }
    split: Look = {}
    layers = sorted(span.start_ns for span in process.spans.values() if span.layer is not None)
    ends = [(span.start_ns, False, key) for key, span in process.spans.items()]
    ends += [(span.end_ns, True, key) for key, span in process.spans.items()]
    for _, at_end, key in sorted(ends):
        span = process.spans[key]
        look = looks.get((span.id, at_end))
        if look is not None and "in_files_bytes" in look:
            split = look
        reading = process.span_reading("process", key)
        has_layers = span.layer is None and (
            bisect_left(layers, span.start_ns) < bisect_left(layers, span.end_ns)
        )
        if look is None or has_layers or reading is None or reading.peak_bytes is None:
            continue
        usage = span.usage_after_bytes if at_end else span.usage_before_bytes
        if usage is not None:
            # Two marks of one span may be subtracted; a mark and a figure at its end may not.
            kernel, marked = span.peak_bytes, reading.peak_bytes
            if kernel is None:
                kernel, marked = usage, resident(look) or 0
            yield SpanBoundary(key, span, at_end, look, split, usage, kernel, marked)


def boundary_nearest_trial_peak(
    known: Sequence[SpanBoundary], slack_bytes: int
) -> SpanBoundary | None:
    """Find the boundary nearest to the kernel's peak of the whole trial.

    Under a limit many spans reach it: of those, the one where the process was largest.
    """
    highest = max((moment.kernel_bytes for moment in known), default=0)
    at_peak = [m for m in known if m.kernel_bytes >= highest - slack_bytes]
    nearest = min((m.distance_bytes for m in at_peak), default=0)
    near = [m for m in at_peak if m.distance_bytes <= max(nearest, slack_bytes)]
    return max(near, key=lambda m: (m.process_bytes, m.resident_bytes), default=None)


_READ = ErrorBar(None, "read at the boundaries of spans")


def trial_peak(trial: TrialReadings, strategy: str) -> Figure | None:
    """Return the whole trial's peak by this strategy; None if it has none."""
    reading = trial.readings.get(strategy)
    if reading is None or reading.peak_bytes is None:
        return None
    return Figure(strategy, reading.peak_bytes, trial.record.trial, "peak", reading.error)


def boundary_figure(trial: TrialReadings, strategy: str, size_bytes: int, where: str) -> Figure:
    """Make a figure that was read inside the trial."""
    reading = trial.readings.get(strategy)
    error = reading.span_error if reading else _READ
    return Figure(strategy, size_bytes, trial.record.trial, where, error)


def size_at_boundary(
    trial: TrialReadings, strategy: str, key: SpanKey, end: bool = True
) -> int | None:
    """Return what the strategy saw at the end of a span, or at its start."""
    reading = trial.span_reading(strategy, key)
    if reading is None:
        return None
    return reading.after_bytes if end else reading.before_bytes


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
    heap = size_at_boundary(profiled, name, at.key, at.at_end)
    imported, built = (size_at_boundary(profiled, name, key) for key in (IMPORT, INIT))
    first = size_at_boundary(torch, "torch", INIT)
    there, target = size_at_boundary(torch, "torch", at.key, at.at_end), trial_peak(torch, "torch")
    if heap is None or imported is None or built is None or first is None:
        return None
    if there is None or target is None:
        return None
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
        # A round's key names a network in training, but not over several networks.
        next(
            (
                size_at_boundary(trial, view, key)
                for key in trial.spans
                if key.phase == "round" and key.round == 0
            ),
            None,
        )
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
    if at is None or at not in model or whole is None:
        return None
    if reading is None or reading.peak_bytes is None:
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
        sampled, kernel = trial_peak(self.timed, "sampled"), trial_peak(self.timed, "kernel")
        missed = Term(
            "between-samples",
            kernel.size_bytes - sampled.size_bytes if kernel and sampled else 0,
            "usage that lasted less than the time between two samples",
            "both read the same counter of the same trial: only the moment differs",
        )
        ledgers = [_between(sampled, kernel, missed)]
        if "process" in self.own:
            process = self.own["process"]
            source, target = trial_peak(self.timed, "gnu-time"), trial_peak(process, "process")
            terms = _other_trial(self.timed, process, target.size_bytes) if target else []
            ledgers.append(_between(source, target, *terms))
        if (at := self.boundary) is not None:
            process = self.own["process"]
            if (largest := trial_peak(process, "process")) is not None:
                marks = _mark_to_mark(at, largest.size_bytes)
                ledgers.append(_between(largest, trial_peak(process, "kernel"), *marks))
            ledgers.append(_kernel_to_timed(process, self.timed, self.own.get(STATISTICS)))
            ledgers += [_kernel_to_own(process, at), own_to_malloc_ledger(process, at)]
            heaps = {k: t for k, t in self.own.items() if isinstance(strategy_of(k), HeapStrategy)}
            for name, trial in heaps.items():
                ledgers.append(own_to_heap_ledger(process, at, name, trial))
            if torch := self.own.get("torch"):
                for name, trial in {"malloc": process, **heaps}.items():
                    ledgers.append(heap_to_torch_ledger(process, at, name, trial, torch))
        ledgers.append(self._torch_to_analytic(None))
        return [ledger for ledger in ledgers if ledger is not None]

    def of_span(self, key: SpanKey) -> list[Ledger]:
        """Make one span's ledgers, as a rule a layer's."""
        ledgers: list[Ledger | None] = []
        ends = [end for end in self.boundaries if end.key == key]
        if at := min(ends, key=lambda end: end.distance_bytes, default=None):
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
    process: TrialReadings, timed: TrialReadings, sampled: TrialReadings | None
) -> Ledger | None:
    """From the kernel's mark of one trial to the other's: who was charged for page cache.

    ``sampled`` stands for the timed one where that one's kinds of memory were not sampled.
    """
    first, second = (split_at_peak(trial.seen) for trial in (process, sampled or timed))
    kinds = (
        ("page-cache", "file_bytes", "page cache that only one of the trials was charged for"),
        ("other-trial", "anon_bytes", "anonymous memory that only one of the trials held"),
        ("kernel-memory", "kernel_bytes", "kernel memory of only one of the trials"),
    )
    terms = [
        Term(name, second[part] - first[part], says, "the sampler's split at both peaks")
        for name, part, says in kinds
        if part in first and part in second
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
