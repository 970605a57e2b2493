"""Ledgers among the views of the heap: malloc's own count, a profiler's, torch's, the model's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from edgebench.measures import balance
from edgebench.measures.ledger import Ledger, Term, without_zeros
from edgebench.reconciling.figures import at_end, at_moment, peak
from edgebench.reconciling.moment import Moment, name_of
from edgebench.reconciling.observed import Observed, SpanKey

IMPORT = SpanKey("import", -1, None, None, 0)
INIT = SpanKey("init", -1, None, None, 0)


def own_to_malloc(process: Observed, at: Moment) -> Ledger | None:
    """From the process's own memory to malloc's count, in one look."""
    own, used = balance.own_memory(at.look), at.look.get("heap_used_bytes")
    if own is None or used is None:
        return None
    return Ledger(
        at_moment(process, "process-own", own, at.where),
        at_moment(process, "malloc", used, at.where),
        without_zeros(balance.own_to_malloc(at.look, at.split, _copied(process))),
    )


def own_to_heap(process: Observed, at: Moment, name: str, profiled: Observed) -> Ledger | None:
    """From the process's own memory to what a heap's profiler saw at the same boundary."""
    own, heap = balance.own_memory(at.look), at_end(profiled, name, at.key, at.at_end)
    if own is None or heap is None:
        return None
    terms = balance.own_to_malloc(at.look, at.split, _copied(process))
    if sees_weights(profiled, name):
        terms = [term for term in terms if term.name != "weights"]
        if not _copied(process):
            terms.append(_mapped_weights(at, 1))
    return Ledger(
        at_moment(process, "process-own", own, at.where),
        at_moment(profiled, name, heap, at.where),
        without_zeros([*terms, *_of_the_runtime(process, at, name, profiled)]),
    )


def _of_the_runtime(process: Observed, at: Moment, name: str, profiled: Observed) -> list[Term]:
    """How differently malloc and a profiler count the runtime, seen where there is nothing else."""
    malloc, heap = at_end(process, "malloc", IMPORT), at_end(profiled, name, IMPORT)
    if malloc is None or heap is None:
        return []
    says = "what it counts of the runtime otherwise: arenas and other mappings, block headers"
    measured = "malloc's count against the profiler's at the import's end"
    terms = [Term("runtime-otherwise", heap - malloc, says, measured)]
    if heap > malloc:
        # It sees mappings, and counts them whole.
        says = "areas for kernels compiled at run time: mapped, hardly touched"
        size = at.look.get("code_areas_bytes", 0)
        terms.append(Term("code-areas", size, says, "/proc/PID/maps: executable, of no file"))
    return terms


def sees_weights(profiled: Observed, name: str) -> bool:
    """Whether a profiler counts mapped weights: then loading them lets its heap grow."""
    reading = profiled.readings[name]
    largest = max((span.after_bytes or 0 for span in reading.spans), default=0)
    return reading.parts.get("parameters", 0) > 0.01 * largest


def _copied(trial: Observed) -> bool:
    return trial.record.settings.get("loader") != "mmap"


def _mapped_weights(at: Moment, sign: int) -> Term:
    return Term(
        "weights",
        sign * at.look.get("weights_bytes", 0),
        "weights, which the loader maps past the allocator",
        "lengths of the loader's mappings that are in use",
    )


def heap_to_torch(
    process: Observed, at: Moment, name: str, profiled: Observed, torch: Observed
) -> Ledger | None:
    """From a heap's figure to torch's peak: what the runtime took, then what isn't torch's."""
    wanted = (
        *(at_end(profiled, name, at.key, at.at_end), at_end(profiled, name, IMPORT)),
        *(at_end(profiled, name, INIT), at_end(torch, "torch", INIT)),
        at_end(torch, "torch", at.key, at.at_end),
    )
    known, target = [size for size in wanted if size is not None], peak(torch, "torch")
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
    if name != "malloc" and sees_weights(profiled, name):
        terms.append(_mapped_weights(at, -1))
    return Ledger(at_moment(profiled, name, heap, at.where), target, without_zeros(terms))


def _left_behind(profiled: Observed, name: str, torch: Observed, before_bytes: int) -> list[Term]:
    """What a round leaves in the heap once its weights and tensors are gone."""
    ends = (at_end(profiled, name, key) for key in _first_round(profiled))
    others = (at_end(torch, "torch", key) for key in _first_round(torch))
    heap, tensors = next(ends, None), next(others, None)
    if heap is None or tensors is None:
        return []
    says = "what executions leave for later ones: the libraries' compiled kernels and caches"
    measured = "the heap after the round without torch's tensors, against before it"
    return [Term("kernel-caches", before_bytes - (heap - tensors), says, measured)]


def _first_round(trial: Observed) -> Iterator[SpanKey]:
    """A training step's tells its network, a pass's over several networks doesn't."""
    return (key for key in trial.spans if key.phase == "round" and key.round == 0)


def torch_to_analytic(
    timed: Observed, torch: Observed, known: Sequence[Moment], key: SpanKey | None
) -> Ledger | None:
    """From torch's allocations to the model's sum, of the whole trial or of one span.

    The model counts weights, torch does not: the loaders' mappings are taken from the process's
    own trial.
    """
    model = _model_peaks(timed)
    at = key or max(model, key=lambda which: model[which], default=None)
    seen = torch.span_reading("torch", at) if at else None
    whole = peak(torch, "torch")
    if at is None or at not in model or seen is None or seen.peak_bytes is None or whole is None:
        return None
    where = f"peak in {name_of(torch.spans[at])}"
    here = at_moment(torch, "torch", seen.peak_bytes, where)
    loaded = [moment for moment in known if moment.key == at]
    terms = [_mapped_weights(loaded[-1], 1)] if loaded else []
    if key is None:
        says = "torch's allocations peak in another layer than the model's sum"
        measured = "torch's peaks of both layers"
        terms.append(Term("other-moment", seen.peak_bytes - whole.size_bytes, says, measured))
    source = whole if key is None else here
    return Ledger(source, at_moment(timed, "analytic", model[at], where), without_zeros(terms))


def _model_peaks(timed: Observed) -> dict[SpanKey, int]:
    found = ((key, timed.span_reading("analytic", key)) for key in timed.spans)
    return {key: r.peak_bytes for key, r in found if r and r.peak_bytes is not None}
