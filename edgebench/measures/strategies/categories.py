"""Memory of training by category: who holds what torch's allocator handed out, in an own trial."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgebench.measures.account import BASE, BESIDE, REST, items, mark_of
from edgebench.measures.reading import ErrorBar, Reading, SpanReading
from edgebench.measures.strategies.categories_view import PROFILED, CategoriesView
from edgebench.measures.strategy import Strategy, TrialData, registered_strategy
from edgebench.measures.torch_profiler import ALLOCATIONS, cut_short, read_profile, span_times

#: What is told as several of these is the first of them.
HELD = ("data", "parameters", "optimizer", "gradients", "input", "activations")
TEMPORARY = "temporary"
#: All of them; ``temporary`` is what nobody was told to hold.
NAMES = (*HELD, TEMPORARY)
#: In place of a phase: the whole trial when it held most; and of each category, the most ever.
PEAK, MOST = "peak", "most"
#: In place of a phase: the kernel's highest mark after the import, and everything in it.
MARK = "mark"
IN_MARK = (BASE, *NAMES, *BESIDE, REST)


@dataclass
class _Life:
    """One allocation: how many bytes, from when until when, whose."""

    size: int
    start: int
    end: int | None = None
    category: str = TEMPORARY

    def told(self, category: str) -> None:
        """Somebody holds it: what it was before stays if that comes first."""
        known = NAMES.index(self.category)
        self.category = NAMES[min(known, NAMES.index(category))]


@dataclass(frozen=True)
class _Timeline:
    """Bytes of each category after each change, in order of time."""

    times: list[int]
    bytes_held: list[Counter[str]]

    def at(self, t_ns: int) -> Counter[str]:
        """What was held just before a moment."""
        place = bisect_left(self.times, t_ns)
        return self.bytes_held[place - 1] if place else Counter()

    def most(self, start: int, end: int) -> Counter[str]:
        """What was held when that was most, between two moments."""
        inside = self.bytes_held[bisect_left(self.times, start) : bisect_left(self.times, end)]
        return max([self.at(start), *inside], key=Counter.total)

    def largest(self) -> Counter[str]:
        """What was held when that was most of all."""
        return max(self.bytes_held, key=Counter.total, default=Counter())

    def largest_of_each(self) -> Counter[str]:
        """The most of each category at any time: they don't add up."""
        every = Counter[str]()
        for held in self.bytes_held:
            every |= held
        return every


@registered_strategy
class TorchCategories(Strategy):
    """Each of torch's allocations, by what it is used for in training.

    Parameters, gradients, the optimizer's state, the batch and the data set are known tensors;
    activations are what autograd saves for going backward; all else is temporary.
    """

    name = "categories"
    view = CategoriesView
    title = "torch's allocations by category"
    counts = (
        "what torch's CPU allocator handed out, and the data set, by category: parameters, "
        "gradients, optimizer, activations, input, temporary"
    )
    blind_to = "all memory not from torch's allocator: Python, libraries, page cache"
    own_trial = True
    inside_worker = True
    library = "torch"

    def read(self, trial: TrialData) -> Reading:
        """From the file the worker left.

        Raises:
            ResultsError: there is none, or it is cut short.
        """
        told: dict[str, list[Any]] = read_profile(trial, ALLOCATIONS)
        if not isinstance(told, dict) or not set(PROFILED) <= told.keys():
            raise cut_short(ValueError("a list is missing"))
        timeline = _timeline(told)
        moments = span_times(trial, {number: t for t, number in told["boundaries"]})
        spans, most = _by_phase(trial, timeline, moments)
        most |= {PEAK: timeline.largest(), MOST: timeline.largest_of_each()}
        mark = _mark(trial, timeline, told)
        parts = {f"{phase}.{name}": held[name] for phase, held in most.items() for name in NAMES}
        parts |= {f"{MARK}.{name}": size for name, size in mark.items()}
        exact = ErrorBar(0, "every allocation is recorded, with its size and address")
        return Reading(
            strategy=self.name,
            peak_bytes=most[PEAK].total(),
            method="the running sum of its profiler's allocations",
            error=exact,
            spans=spans,
            span_method="the largest sum between the span's ends",
            span_error=exact,
            parts=parts,
            missing={} if mark else {MARK: "this kernel can't reset its mark, or tells no usage"},
        )


def _by_phase(
    trial: TrialData, timeline: _Timeline, moments: Mapping[int, tuple[int, int]]
) -> tuple[tuple[SpanReading, ...], dict[str, Counter[str]]]:
    """Each span's bytes; and of each phase what was held when it held most."""
    spans: list[SpanReading] = []
    most: dict[str, Counter[str]] = {}
    for span in trial.spans:
        if span.id not in moments:
            continue
        start, end = moments[span.id]
        held = timeline.most(start, end)
        before, after = timeline.at(start).total(), timeline.at(end).total()
        spans.append(SpanReading(span.id, before, held.total(), after))
        if span.layer is None:
            known = most.get(span.phase, Counter())
            most[span.phase] = max(known, held, key=Counter.total)
    return tuple(spans), most


def _mark(
    trial: TrialData, timeline: _Timeline, told: Mapping[str, Sequence[Any]]
) -> dict[str, int]:
    """The kernel's mark item by item; empty where it is unknown."""
    mark = mark_of(trial.events)
    if mark is None:
        return {}
    boundaries = {number: t for t, number in told["boundaries"]}
    held = timeline.at(boundaries[mark.look["boundary"]] - mark.before_ns)
    return items(mark, {name: held[name] for name in NAMES})


def _timeline(told: Mapping[str, Sequence[Any]]) -> _Timeline:
    changes: list[tuple[int, int, str]] = []
    for life in _lives(told):
        changes.append((life.start, life.size, life.category))
        if life.end is not None:
            changes.append((life.end, -life.size, life.category))
    held: Counter[str] = Counter()
    times, states = [], []
    for t_ns, size, category in sorted(changes):
        held[category] += size
        times.append(t_ns)
        states.append(held.copy())
    return _Timeline(times, states)


def _lives(told: Mapping[str, Sequence[Any]]) -> Iterator[_Life]:
    """Every allocation, with its category; what was there before the profile is in none."""
    entries = [(t, "", address, size) for t, address, size in told["allocations"]]
    entries += [(t, category, address, 0) for t, category, address in told["held"]]
    alive: dict[int, _Life] = {}
    for t_ns, category, address, size in sorted(entries):
        if category:
            if address in alive:
                alive[address].told(category)
        elif size > 0:
            alive[address] = _Life(size, t_ns)
        elif life := alive.pop(address, None):
            life.end = t_ns
            yield life
    yield from alive.values()
    yield from (_Life(size, t_ns, category=name) for t_ns, name, size in told["itself"])
