"""Ledgers among the views of the heap: malloc's own count, a profiler's, torch's, the model's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from edgebench.analysis.reconcile.boundary import (
    SpanBoundary,
    boundary_figure,
    size_at_boundary,
    span_label,
    trial_peak,
)
from edgebench.measures import ledger
from edgebench.measures.ledger import Ledger, Term, without_zeros
from edgebench.results.trial_readings import SpanKey, TrialReadings

IMPORT = SpanKey("import", -1, None, None, 0)
INIT = SpanKey("init", -1, None, None, 0)


def own_to_malloc_ledger(process: TrialReadings, at: SpanBoundary) -> Ledger | None:
    """From the process's own memory to malloc's count, in one look."""
    own, used = ledger.own_memory(at.look), at.look.get("heap_used_bytes")
    if own is None or used is None:
        return None
    return Ledger(
        boundary_figure(process, "process-own", own, at.where),
        boundary_figure(process, "malloc", used, at.where),
        without_zeros(ledger.own_to_malloc(at.look, at.split, _copied(process))),
    )


def own_to_heap_ledger(
    process: TrialReadings, at: SpanBoundary, name: str, profiled: TrialReadings
) -> Ledger | None:
    """From the process's own memory to what a heap's profiler saw at the same boundary."""
    own, heap = ledger.own_memory(at.look), size_at_boundary(profiled, name, at.key, at.at_end)
    if own is None or heap is None:
        return None
    terms = ledger.own_to_malloc(at.look, at.split, _copied(process))
    if counts_mapped_weights(profiled, name):
        terms = [term for term in terms if term.name != "weights"]
        if not _copied(process):
            terms.append(_mapped_weights(at, 1))
    return Ledger(
        boundary_figure(process, "process-own", own, at.where),
        boundary_figure(profiled, name, heap, at.where),
        without_zeros([*terms, *_of_the_runtime(process, at, name, profiled)]),
    )


def _of_the_runtime(
    process: TrialReadings, at: SpanBoundary, name: str, profiled: TrialReadings
) -> list[Term]:
    """How differently malloc and a profiler count the runtime, seen where there is nothing else."""
    malloc, heap = (
        size_at_boundary(process, "malloc", IMPORT),
        size_at_boundary(profiled, name, IMPORT),
    )
    if malloc is None or heap is None:
        return []
    says = (
        "parts of the runtime that the two count differently: arenas, other mappings, block headers"
    )
    measured = "malloc's count against the profiler's at the import's end"
    terms = [Term("runtime-otherwise", heap - malloc, says, measured)]
    if heap > malloc:
        # It sees mappings, and counts them whole.
        says = "areas for kernels compiled at run time: mapped, hardly touched"
        size = at.look.get("code_areas_bytes", 0)
        terms.append(Term("code-areas", size, says, "/proc/PID/maps: executable, of no file"))
    return terms


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
    """From a heap's figure to torch's peak: what the runtime took, then what isn't torch's."""
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
        *_left_behind(profiled, name, torch, built - first),
    ]
    if name != "malloc" and counts_mapped_weights(profiled, name):
        terms.append(_mapped_weights(at, -1))
    return Ledger(boundary_figure(profiled, name, heap, at.where), target, without_zeros(terms))


def _left_behind(
    profiled: TrialReadings, name: str, torch: TrialReadings, before_bytes: int
) -> list[Term]:
    """What a round leaves in the heap once its weights and tensors are gone."""
    ends = (size_at_boundary(profiled, name, key) for key in _first_round(profiled))
    others = (size_at_boundary(torch, "torch", key) for key in _first_round(torch))
    heap, tensors = next(ends, None), next(others, None)
    if heap is None or tensors is None:
        return []
    says = "memory that executions keep for later ones: compiled kernels and caches of libraries"
    measured = "the heap after the round without torch's tensors, against before it"
    return [Term("kernel-caches", before_bytes - (heap - tensors), says, measured)]


def _first_round(trial: TrialReadings) -> Iterator[SpanKey]:
    """The first round; its key names a network in training, but not over several networks."""
    return (key for key in trial.spans if key.phase == "round" and key.round == 0)


def torch_to_analytic_ledger(
    timed: TrialReadings, torch: TrialReadings, known: Sequence[SpanBoundary], key: SpanKey | None
) -> Ledger | None:
    """From torch's allocations to the model's sum, of the whole trial or of one span.

    The model counts weights, torch does not: the loaders' mappings are taken from the process's
    own trial.
    """
    counted = ((span, timed.span_reading("analytic", span)) for span in timed.spans)
    model = {span: r.peak_bytes for span, r in counted if r and r.peak_bytes is not None}
    at = key or max(model, key=lambda which: model[which], default=None)
    seen = torch.span_reading("torch", at) if at else None
    whole = trial_peak(torch, "torch")
    if at is None or at not in model or seen is None or seen.peak_bytes is None or whole is None:
        return None
    where = f"peak in {span_label(torch.spans[at])}"
    here = boundary_figure(torch, "torch", seen.peak_bytes, where)
    loaded = [moment for moment in known if moment.key == at]
    terms = [_mapped_weights(loaded[-1], 1)] if loaded else []
    if loaded and (cache := loaded[-1].look.get("key_value_cache_bytes")):
        says = "keys and values of the tokens so far, which the model's sum leaves out"
        measured = "sizes of the cache's tensors"
        terms.append(Term("key-value-cache", -cache, says, measured))
    if key is None:
        says = "torch's allocations peak in another layer than the model's sum"
        measured = "torch's peaks of both layers"
        terms.append(Term("other-moment", seen.peak_bytes - whole.size_bytes, says, measured))
    source = whole if key is None else here
    return Ledger(
        source, boundary_figure(timed, "analytic", model[at], where), without_zeros(terms)
    )
