"""The worker's own process: what it tells the harness, and how it keeps memory.

It tells spans, notes, and what a strategy's view wants to know.

A full garbage collection walks over every object of the heap, which takes longer where parts of it
are swapped out, and it comes wherever the allocations before it happen to put it. So rounds run
without automatic collections (``gc = "frozen"``), and what they leave is collected between them.
"""

from __future__ import annotations

import gc
import itertools
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from threading import Lock, get_ident
from typing import TYPE_CHECKING, Any

from edgebench.errors import WorkloadError
from edgebench.measures.view import Descriptors, View
from edgebench.workloads.events import (
    GO,
    READY,
    RecordBuffer,
    RoundCount,
    RoundCounters,
    SpanPlace,
    Spent,
    Used,
    end_line,
    event_line,
    spent_between,
    start_line,
    timed_lines,
)

if TYPE_CHECKING:
    from edgebench.layers.accelerator import Accelerator

NO_DESCRIPTORS: Descriptors = {
    "events": -1,
    "usage": None,
    "peak": None,
    "peak_resets": False,
    "swap": None,
    "swap_is_memsw": False,
    "stat": None,
    "kernel": None,
    "control": None,
    "records": None,
    "swap_io": None,
    "swap_kind": "",
}


class CgroupReadings:
    """Usage, swap and the high-water mark, read from descriptors that stay open.

    The mark is left unread where nothing can have moved it: the process has had no page fault since
    the boundary before, and usage is the same to the byte. Each charge of anonymous or mapped
    memory is a fault of a thread of the process. What else is charged (page cache, kernel memory,
    a process that it started) shows in usage; if it came and went in between, the mark is not
    reset, and the next boundary that reads it finds it.

    Args:
        descriptors: what the harness opened.
    """

    def __init__(self, descriptors: Descriptors) -> None:
        self.usage_fd, self._swap_fd = descriptors["usage"], descriptors["swap"]
        self._swap_is_memsw = descriptors["swap_is_memsw"]
        #: The mark's; None where the kernel can't reset it.
        self.peak_fd = descriptors["peak"] if descriptors["peak_resets"] else None
        #: As last read: bytes in use and in swap, the first of them alone, and the mark, bytes.
        self.counters: tuple[int | None, int | None] = (None, None)
        self.usage_bytes: int | None = None
        self.peak_bytes: int | None = None
        self._faults = -1

    def read(self, faults: int | None) -> None:
        """Read what may have changed.

        Args:
            faults: of the process so far; None: read the mark in any case.
        """
        usage = None if self.usage_fd is None else int(os.pread(self.usage_fd, 32, 0))
        swap = None if self._swap_fd is None else int(os.pread(self._swap_fd, 32, 0))
        if self._swap_is_memsw and usage is not None and swap is not None:
            swap = swap - usage if swap > usage else 0
        moved = faults is None or faults != self._faults or usage != self.usage_bytes
        self.counters, self.usage_bytes = (usage, swap), usage
        self._faults = -1 if faults is None else faults
        if self.peak_fd is None:
            self.peak_bytes = None
        elif moved or self.peak_bytes is None:
            self.peak_bytes = int(os.pread(self.peak_fd, 32, 0))

    def reset_mark(self) -> None:
        """Set the mark to the usage, where the kernel can."""
        if self.peak_fd is not None:
            os.pwrite(self.peak_fd, b"0", 0)
            self.peak_bytes = self.usage_bytes


@dataclass(slots=True)
class Started:
    """A span under way.

    Args:
        whole: a phase or a round, no layer.
        used: what the process had used when it began.
        peak_bytes: the largest mark seen in it so far, the kernel's; ``view_peak_bytes``: the
            view's.
        counted: of a round, its number and what was counted before it.
    """

    number: int
    whole: bool
    used: Used
    peak_bytes: int | None = None
    view_peak_bytes: int | None = None
    counted: tuple[int | None, RoundCount] | None = None


class Recorder:
    """Records what a workload does. Thread-safe.

    At each boundary of a span the kernel's mark is read and reset. The lines of spans are written
    when the outermost span has ended; in a trial with a view, which is not timed, at once.

    Args:
        descriptors: what the harness opened.
        view: what a strategy reads as well, in a trial of its own; timed trials have none.
    """

    def __init__(self, descriptors: Descriptors = NO_DESCRIPTORS, view: View | None = None) -> None:
        #: Where the harness controls rounds, in a walk; else None.
        self.control = descriptors["control"]
        self._events_fd = descriptors["events"]
        self._cgroup = CgroupReadings(descriptors)
        self._records = RecordBuffer(descriptors["records"])
        self._counters = RoundCounters(descriptors)
        self._view = view
        self._lock = Lock()
        self._open: dict[int, Started] = {}
        self._ids = itertools.count()
        #: Numbers of threads, in the order in which they are first seen.
        self._threads: dict[int, int] = defaultdict(itertools.count().__next__)
        #: Follows the spans where an accelerator computes.
        self.accelerator: Accelerator | None = None
        #: Lines that came while something was being recorded.
        self._waiting: list[str] = []

    def span(
        self,
        phase: str,
        *,
        round: int | None = None,  # noqa: A002 - the event's key
        network: str | None = None,
        layer: int | None = None,
        name: str | None = None,
    ) -> AbstractContextManager[None]:
        """Record one phase, or one layer in a phase, from its start to its end.

        One that an error cuts short has no end.
        """
        return _Span(self, SpanPlace(phase, round, network, layer, name))

    def phases(self, number: int, network: str) -> Phases:
        """Record a round whose phases follow each other.

        Where one ends the next begins, at one boundary instead of two, for half the cost.
        """
        return Phases(self, SpanPlace("round", number, network, None, None))

    def round_numbers(self, count: int) -> Iterator[int]:
        """Yield the numbers of the rounds to run: ``count`` of them, or while a walk goes on."""
        for number in itertools.count() if self.control is not None else range(count):
            if self.control is not None:
                os.write(self.control, READY)
                if os.read(self.control, 1) != GO:
                    return
            yield number

    def note(self, **data: Any) -> None:
        """Record anything else worth keeping."""
        self._line(event_line("note", time.monotonic_ns(), data=data))

    def timed(self, place: SpanPlace, start_ns: int, end_ns: int) -> None:
        """Record a span that an engine timed: of its memory and CPU time nothing is known."""
        with self._lock:
            number = next(self._ids)
        self._line(timed_lines(number, place, start_ns, end_ns))

    def accelerator_event(self, **data: Any) -> None:
        """Record what an accelerator is, or what it did."""
        self._line(event_line("accelerator", time.monotonic_ns(), **data))

    @contextmanager
    def reported_accelerator(self) -> Iterator[None]:
        """Record at the end what the accelerator did, also where its memory ran out.

        Raises:
            AcceleratorMemoryError: in the place of torch's own error.
        """
        try:
            yield
        except Exception as error:
            if self.accelerator is None:
                raise
            if (failure := self.accelerator.memory_error(error)) is None:
                raise
            self.accelerator_event(**self.accelerator.report())
            raise failure from error
        if self.accelerator is not None:
            self.accelerator_event(**self.accelerator.report())

    def collection(self, start_ns: int, end_ns: int, generation: int, collected: int) -> None:
        """Record a garbage collection.

        It may come at any allocation, while this thread records: it waits for no lock.
        """
        about = {"generation": generation, "start_ns": start_ns, "collected": collected}
        line = event_line("collection", end_ns, **about)
        if not self._lock.acquire(blocking=False):
            self._waiting.append(line)
            return
        try:
            self._write(line)
        finally:
            self._lock.release()

    def gauge(self, name: str, read: Callable[[], int]) -> None:
        """Have the view of a strategy read this figure too, bytes, at each boundary."""
        if self._view:
            self._view.gauges[name] = read

    @property
    def profile_folder(self) -> Path | None:
        """Where an engine writes its own profile, if a strategy wants times of operators."""
        return self._view.profile_folder if self._view else None

    def operator_time(self, phase: str, operator: str, calls: int, own_ns: int) -> None:
        """Report to such a strategy how often an operator was called, and its own time."""
        if self._view:
            self._view.operator_time(phase, operator, calls, own_ns)

    def start(self, place: SpanPlace, *ending: Started) -> Started:
        """Start a span where these end, the innermost first."""
        if self.accelerator is not None:
            self.accelerator.wait()
        counted = (place.round, self._counters.read()) if place.phase == "round" else None
        t_ns, used = time.monotonic_ns(), getrusage(RUSAGE_SELF)
        whole = place.layer is None
        with self._lock:
            looked = self._turn(t_ns, used, ending, whole)
            if self._records.is_full:
                self._write_records()
            number, thread = next(self._ids), self._threads[get_ident()]
            self._open[number] = span = Started(number, whole, used, counted=counted)
            if self.accelerator is not None:
                self.accelerator.begin_span(number, *place[:3], not whole)
            if looked is None:
                self._records.start(
                    number, place, thread, self._cgroup.counters, time.monotonic_ns()
                )
            else:
                self._write(start_line(number, place, thread, time.monotonic_ns(), looked))
        # Without what recording took.
        span.used = getrusage(RUSAGE_SELF)
        return span

    def end(self, *ending: Started) -> None:
        """End these spans, the innermost first."""
        if self.accelerator is not None:
            self.accelerator.wait()
        t_ns, used = time.monotonic_ns(), getrusage(RUSAGE_SELF)
        with self._lock:
            self._turn(t_ns, used, ending, ending[0].whole)
            for span in ending:
                if span.counted:
                    number, before = span.counted
                    counts = self._counters.read().since(before)._asdict()
                    faults = used.ru_majflt - span.used.ru_majflt
                    line = event_line("counts", t_ns, round=number, **counts, major_faults=faults)
                    self._waiting.append(line)
            if not self._open or self._records.is_full:
                self._write_records()

    def flush(self) -> None:
        """Write what is recorded so far."""
        with self._lock:
            self._write_records()

    def free_bytes(self, limit_bytes: int | None) -> int | None:
        """Subtract what is in use now from a limit; None without a limit or its counter."""
        fd = self._cgroup.usage_fd
        if limit_bytes is None or fd is None:
            return None
        return max(0, limit_bytes - int(os.pread(fd, 32, 0)))

    def _line(self, line: str) -> None:
        with self._lock:
            self._write_records()
            self._write(line)

    def _turn(
        self, t_ns: int, used: Used, ending: Sequence[Started], whole: bool
    ) -> dict[str, Any] | None:
        """Record what ends at a boundary. Returns what is seen where a view looks."""
        if self.accelerator is not None:
            use = self.accelerator.end_spans(span.number for span in ending)
            self._waiting += [] if use is None else [event_line("accelerator", t_ns, **use)]
        looked = None
        if self._view:
            looked = self._look(self._view, whole)
        else:
            self._read(used, ending)
        for span in ending:
            del self._open[span.number]
            spent = spent_between(span.used, used)
            if looked is None:
                counters = self._cgroup.counters
                self._records.end(span.number, t_ns, counters, span.peak_bytes, spent)
            else:
                more = {**looked, "view_peak_bytes": span.view_peak_bytes}
                self._write(end_line(span.number, t_ns, more, span.peak_bytes, Spent(*spent)))
        return looked

    def _read(self, used: Used, ending: Sequence[Started]) -> None:
        self._cgroup.read(used.ru_minflt + used.ru_majflt)
        peak = self._cgroup.peak_bytes
        if peak is None:
            return
        # A mark that is the usage is as if reset: it may stay, for the spans that go on to find.
        rests = peak == self._cgroup.usage_bytes
        for span in ending if rests else self._open.values():
            if span.peak_bytes is None or span.peak_bytes < peak:
                span.peak_bytes = peak
        if not rests:
            self._cgroup.reset_mark()

    def _look(self, view: View, whole: bool) -> dict[str, Any]:
        """Read what a view sees too; open spans get the marks, which are then reset.

        Usage is read before the view looks, and the marks are reset after: what looking costs
        is in neither.
        """
        self._cgroup.read(None)
        peak, mark = self._cgroup.peak_bytes, view.mark()
        for span in self._open.values():
            if peak is not None:
                span.peak_bytes = max(span.peak_bytes or 0, peak)
            if mark is not None:
                span.view_peak_bytes = max(span.view_peak_bytes or 0, mark)
        usage, swap = self._cgroup.counters
        counters = {"usage_bytes": usage, "swap_bytes": swap, "view": view.look(whole)}
        view.reset()
        self._cgroup.reset_mark()
        return counters

    def _write_records(self) -> None:
        for chunk in self._records.chunks() if self._events_fd >= 0 else ():
            os.write(self._events_fd, chunk)
        self._records.clear()
        while self._waiting:
            self._write(self._waiting.pop(0))

    def _write(self, lines: str) -> None:
        if self._events_fd >= 0:
            os.write(self._events_fd, lines.encode())


class _Span(AbstractContextManager[None]):
    """One span of a recorder."""

    def __init__(self, recorder: Recorder, place: SpanPlace) -> None:
        self._recorder, self._place = recorder, place

    def __enter__(self) -> None:
        self._started = self._recorder.start(self._place)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._recorder.end(self._started)


class Phases(AbstractContextManager["Phases"]):
    """A round of a recorder, phase after phase; what an error cuts short has no end."""

    def __init__(self, recorder: Recorder, place: SpanPlace) -> None:
        self._recorder, self._place = recorder, place
        #: The phase under way, if any.
        self._phase: tuple[Started, ...] = ()

    def __enter__(self) -> Phases:
        self._round = self._recorder.start(self._place)
        return self

    def begin(self, phase: str) -> None:
        """End the phase before, and begin this one."""
        _, number, network, _, _ = self._place
        place = SpanPlace(phase, number, network, None, None)
        self._phase = (self._recorder.start(place, *self._phase),)

    def pause(self) -> None:
        """End the phase; what comes now is in none."""
        self._recorder.end(*self._phase)
        self._phase = ()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._recorder.end(*self._phase, self._round)


FROZEN, DEFAULT = "frozen", "default"
#: What the setting ``gc`` may be.
COLLECTORS = (FROZEN, DEFAULT)
#: A collection of young objects alone is an event if it took this long.
_LONG_NS = 1_000_000
#: The heap is frozen before the first round, and once more with what that round left for good.
#: A later round may leave a cycle that the next one drops, which must not be kept forever.
_FREEZES = 2
_SET_THP_DISABLE = 41
_STATUS = Path("/proc/self/status")


def record_collections(recorder: Recorder) -> Callable[[], None]:
    """Record full and long collections as events; call the returned function to stop."""
    began_ns = 0

    def record(phase: str, info: Mapping[str, int]) -> None:
        nonlocal began_ns
        now_ns = time.monotonic_ns()
        if phase == "start":
            began_ns = now_ns
        elif info["generation"] == 2 or now_ns - began_ns >= _LONG_NS:
            recorder.collection(began_ns, now_ns, info["generation"], info["collected"])

    gc.callbacks.append(record)
    return lambda: gc.callbacks.remove(record)


@contextmanager
def collected_rounds(settings: Mapping[str, Any]) -> Iterator[Callable[[], None]]:
    """Collect garbage as the setting ``gc`` says; call what is yielded before each round.

    ``frozen``: it collects, and no collection comes by itself until the block ends. ``default``,
    and settings without the key: the collector is left as Python has it.
    """
    if settings.get("gc", DEFAULT) != FROZEN:
        yield lambda: None
        return
    rounds, was_on = 0, gc.isenabled()

    def before_round() -> None:
        nonlocal rounds
        gc.collect()
        if rounds < _FREEZES:
            gc.freeze()
        rounds += 1

    gc.disable()
    try:
        yield before_round
    finally:
        gc.unfreeze()
        if was_on:
            gc.enable()


def heap_trimmer(settings: Mapping[str, Any]) -> Callable[[], None]:
    """Make a function to call at the end of each round, which trims the heap.

    Freed memory stays in glibc's heap, and under a limit the kernel writes it to swap though nobody
    needs it (malloc_trim(3)). The function does nothing where the setting ``malloc_trim`` is off,
    or the C library has no such function.
    """
    if settings.get("malloc_trim"):
        # Lazy: settings are checked where nothing needs it, and it is no part of a worker's base.
        import ctypes

        if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
            return lambda: trim(0)
    return lambda: None


def refuse_huge_pages(recorder: Recorder) -> None:
    """Give this process and its children pages of the usual size alone; note what the kernel says.

    See prctl(2), PR_SET_THP_DISABLE.

    Raises:
        WorkloadError: the kernel has no such switch.
    """
    import ctypes

    if ctypes.CDLL(None, use_errno=True).prctl(_SET_THP_DISABLE, 1, 0, 0, 0):
        raise WorkloadError("huge pages can't be refused here", remedy="leave huge_pages out")
    lines = _STATUS.read_text(errors="replace").splitlines()
    status = dict(line.partition(":")[::2] for line in lines)
    # Linux before 5.0 doesn't say.
    enabled = status.get("THP_enabled")
    recorder.note(huge_pages=None if enabled is None else enabled.strip() == "1")
