"""Memory of training by category: who holds what torch's allocator handed out, in an own trial.

The profiler records each allocation with its address. The workload reports which category lies at
which address (:meth:`edgebench.workloads.recorder.Recorder.holds`), and a marker puts that among
the allocations, on the profiler's own clock. A thread also records what the process and its cgroup
held when usage was highest, so that the kernel's mark is told item by item; every item is measured
by itself, most as growth since the runtime's import.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgebench.measures.ledger import Look, swap_cache
from edgebench.measures.process_figures import (
    charged,
    glibc_heap,
    of_process,
    python_arenas,
    split_by_mapping,
)
from edgebench.measures.strategy import (
    ErrorBar,
    Reading,
    SpanReading,
    Strategy,
    TrialData,
    registered_strategy,
)
from edgebench.measures.torch_profiler import (
    ALLOCATIONS,
    MARKER,
    ProfilerView,
    Timeline,
    cut_short,
    read_profile,
    span_times,
)
from edgebench.measures.view import Descriptors

BASE, REST = "base", "unexplained"
#: What has grown since the import beside torch's allocations.
KEPT, LIBRARIES, PAST_MALLOC = "allocator-kept", "libraries", "past-malloc"
FILES, KERNEL, SWAPPED, MISSED = "files", "kernel", "swapped", "between-readings"
BESIDE = (LIBRARIES, KEPT, PAST_MALLOC, FILES, KERNEL, SWAPPED, MISSED)
#: Parts of the process's own memory that lie past malloc.
_MAPPED = ("python_arenas_bytes", "in_files_bytes", "in_stack_bytes")


@dataclass(frozen=True)
class Mark:
    """The highest of the kernel's marks after the import.

    Args:
        size_bytes: the mark.
        base_bytes: the cgroup's usage at the end of the import.
        base: what the worker saw there.
        look: what it saw at the end of the span with the mark.
    """

    size_bytes: int
    base_bytes: int
    base: Look
    look: Look

    @property
    def highest(self) -> Look:
        """What was held when usage was highest in that span."""
        begun = (
            (k.removeprefix(HIGHEST), v) for k, v in self.look.items() if k.startswith(HIGHEST)
        )
        return dict(begun)

    @property
    def before_ns(self) -> int:
        """How long before the boundary at the span's end that was."""
        return self.look[MARKED] - self.highest["t_ns"]


def mark_of(events: Iterable[Mapping[str, Any]]) -> Mark | None:
    """The highest mark of an innermost span; None where the kernel can't reset its mark."""
    base: Mapping[str, Any] | None = None
    highest: Mapping[str, Any] | None = None
    for phase, end in _innermost(events):
        if f"{HIGHEST}usage_bytes" not in end.get("view", {}) or end.get("peak_bytes") is None:
            continue
        if phase == "import":
            base = end
        elif highest is None or end["peak_bytes"] > highest["peak_bytes"]:
            highest = end
    if base is None or highest is None:
        return None
    return Mark(highest["peak_bytes"], base["usage_bytes"], base["view"], highest["view"])


def _innermost(events: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Phase and end of each span without another inside: their mark and their highest are one's."""
    begun: Mapping[str, Any] = {}
    for event in events:
        if event.get("event") == "start":
            begun = event
        elif event.get("event") == "end":
            if event.get("id") == begun.get("id"):
                yield str(begun.get("phase")), event
            begun = {}


def items(mark: Mark, held: Mapping[str, int]) -> dict[str, int]:
    """What the mark consists of, bytes; it is their sum.

    Args:
        mark: the mark.
        held: torch's bytes at the moment of highest usage, by category.
    """
    seen = mark.highest
    # Page tables stand for it where the cgroup's kernel memory is unknown.
    kernel = "charged_kernel_bytes" if "charged_kernel_bytes" in seen else "page_tables_bytes"
    cached = (swap_cache(seen) or 0) - (swap_cache(mark.base) or 0)
    told = {
        BASE: mark.base_bytes,
        **held,
        LIBRARIES: _grown(mark.base, seen, "heap_used_bytes") - sum(held.values()),
        KEPT: _grown(mark.base, seen, "heap_free_bytes"),
        PAST_MALLOC: _grown(mark.base, mark.look, *_MAPPED),
        FILES: _grown(mark.base, seen, "charged_file_lists_bytes", "charged_shmem_bytes"),
        KERNEL: _grown(mark.base, seen, kernel),
        SWAPPED: cached - _grown(mark.base, seen, "swap_bytes"),
        MISSED: mark.size_bytes - seen["usage_bytes"],
    }
    return {**told, REST: mark.size_bytes - sum(told.values())}


def _grown(before: Look, after: Look, *names: str) -> int:
    return sum(after.get(name, 0) - before.get(name, 0) for name in names)


#: In the view's figures: the beginning of the names of those at the highest usage; the moment.
HIGHEST, MARKED = "highest_", "marked_ns"
#: What its file has: allocations, boundaries, what is held where, what lies past the allocator.
PROFILED = ("allocations", "boundaries", "held", "itself")
#: Between two readings of usage; the workload goes on meanwhile.
_PAUSE_S = 0.0001
_HELD, _ITSELF = "edgebench-held-", "edgebench-itself-"


class HighestUsage:
    """What the worker held when its cgroup's usage was highest between two boundaries.

    The kernel's mark says how high usage was, not when. So a thread of its own reads usage all the
    time, and whenever it is higher than before, what the process and the C library's allocator
    hold. That costs time, so it belongs in a trial that is not timed.

    Args:
        usage: descriptor of the cgroup's usage.
        stat: of its ``memory.stat``.
        kernel: of the kernel's memory on version 1.
    """

    def __init__(self, usage: int, stat: int | None, kernel: int | None) -> None:
        self._usage, self._stat, self._kernel = usage, stat, kernel
        self._lock = threading.Lock()
        self._seen: dict[str, int] = {}
        self._through = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def begin(self) -> None:
        """Start to look for the highest usage again."""
        with self._lock:
            self._seen = {}
        if not self._thread.is_alive():
            self._thread.start()

    def taken(self) -> dict[str, int]:
        """Moment, usage and figures when usage was highest, until now."""
        with self._lock:
            self._look()
            return self._seen

    def now(self) -> dict[str, int]:
        """What the process, its allocator and its cgroup hold at this moment."""
        return glibc_heap() | of_process() | charged(self._stat, self._kernel)

    def stop(self) -> None:
        """Watch no longer."""
        self._through.set()
        if self._thread.is_alive():
            self._thread.join()

    def _watch(self) -> None:
        while not self._through.wait(_PAUSE_S):
            with self._lock:
                self._look()

    def _look(self) -> None:
        usage = int(os.pread(self._usage, 32, 0))
        if usage > self._seen.get("usage_bytes", 0):
            moment = {"t_ns": time.monotonic_ns(), "usage_bytes": usage}
            self._seen = moment | self.now()


class CategoriesView(ProfilerView):
    """Runs torch's profiler over the whole workload, with each allocation's address."""

    with_memory = True
    wants_holders = True

    def __init__(self, folder: Path, descriptors: Descriptors) -> None:
        super().__init__(folder, descriptors)
        self._file = folder / ALLOCATIONS
        usage = descriptors["usage"]
        watched = (descriptors["stat"], descriptors["kernel"])
        self._highest = None if usage is None else HighestUsage(usage, *watched)

    def look(self, whole: bool) -> dict[str, int]:
        """The boundary, its moment, what is held there and was at the highest usage before it."""
        figures: dict[str, int] = {}
        if self._highest:
            seen = self._highest.taken()
            figures |= {f"{HIGHEST}{name}": size for name, size in seen.items()}
            figures |= self._highest.now()
        if whole:
            figures |= split_by_mapping() | python_arenas()
        figures |= super().look(whole)
        return {**figures, MARKED: time.monotonic_ns()}

    def reset(self) -> None:
        """Start to look for the highest usage again, as with the kernel's mark."""
        if self._highest:
            self._highest.begin()

    def holds(self, category: str, addresses: Iterable[int]) -> None:
        """Mark in the profile what lies at these addresses."""
        for address in addresses if self.running else ():
            self._mark(f"{_HELD}{category}-{address}")

    def holds_itself(self, category: str, size_bytes: int) -> None:
        """Mark in the profile that so much lies past torch's allocator."""
        if self.running:
            self._mark(f"{_ITSELF}{category}-{size_bytes}")

    def close(self) -> None:
        """Write every allocation, boundary and category with its time, on one clock in ns."""
        if self._highest:
            self._highest.stop()
        if not self.running:
            return
        results = self.stopped().profiler.kineto_results
        told: dict[str, list[Any]] = {name: [] for name in PROFILED}
        for event in _all(results.experimental_event_tree()):
            self._sort(event, told)
        self._file.write_text(json.dumps({name: sorted(rows) for name, rows in told.items()}))

    @staticmethod
    def _mark(name: str) -> None:
        from torch.profiler import record_function

        with record_function(name):
            pass

    def _sort(self, event: Any, told: dict[str, list[Any]]) -> None:
        from torch._C._profiler import _EventType

        t_ns = event.start_time_ns
        if event.tag == _EventType.Allocation:
            fields = event.extra_fields
            told["allocations"].append((t_ns, fields.ptr, fields.alloc_size))
        elif event.name.startswith(MARKER):
            told["boundaries"].append((t_ns, int(event.name.removeprefix(MARKER))))
        elif event.name.startswith(_HELD):
            category, address = event.name.removeprefix(_HELD).split("-")
            told["held"].append((t_ns, category, int(address)))
        elif event.name.startswith(_ITSELF):
            category, size = event.name.removeprefix(_ITSELF).split("-")
            told["itself"].append((t_ns, category, int(size)))


def _all(events: Iterable[Any]) -> Iterator[Any]:
    # A stack, since layers of a network nest deeper than Python may call.
    waiting = list(events)
    while waiting:
        event = waiting.pop()
        yield event
        waiting += event.children


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


def _largest_of_each(timeline: Timeline[Counter[str]]) -> Counter[str]:
    """The most of each category at any time: they don't add up."""
    every = Counter[str]()
    for held in timeline.held:
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
        most |= {PEAK: timeline.largest(), MOST: _largest_of_each(timeline)}
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
    trial: TrialData, timeline: Timeline[Counter[str]], moments: Mapping[int, tuple[int, int]]
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
    trial: TrialData, timeline: Timeline[Counter[str]], told: Mapping[str, Sequence[Any]]
) -> dict[str, int]:
    """The kernel's mark item by item; empty where it is unknown."""
    mark = mark_of(trial.events)
    if mark is None:
        return {}
    boundaries = {number: t for t, number in told["boundaries"]}
    held = timeline.at(boundaries[mark.look["boundary"]] - mark.before_ns)
    return items(mark, {name: held[name] for name in NAMES})


def _timeline(told: Mapping[str, Sequence[Any]]) -> Timeline[Counter[str]]:
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
    return Timeline(times, states, Counter(), Counter.total)


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
