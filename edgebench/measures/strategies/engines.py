"""What engines' profilers and allocators tell, and busy cores, each in a trial of its own.

Torch's profiler runs in the worker, with a marker at each boundary of a span. It begins once torch
is imported. The markers are on the profiler's own clock, so each of its events lies before or after
a boundary, however close they are.

On a CPU TensorFlow tells no figures: its answer is 0, except where the best-fit allocator is asked
for by ``TF_CPU_ALLOCATOR_USE_BFC``. So that one is used in its trial alone. It never gives memory
back to the kernel; nor does the usual one where TensorFlow computes with oneDNN.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from edgebench.errors import ResultsError
from edgebench.measures.strategies import (
    SEPARATOR,
    ErrorBar,
    LookStrategy,
    Reading,
    SpanReading,
    Strategy,
    TimeStrategy,
    TrialData,
    registered_strategy,
)
from edgebench.measures.view import Descriptors, View
from edgebench.safe_files import read_file

if TYPE_CHECKING:
    from edgebench.spans import Span


#: In the view's folder: torch's allocations, and what each operator took.
ALLOCATIONS, OPERATORS = "allocations.json", "operators.json"
#: The beginning of the name of a boundary's marker.
MARKER = "edgebench-boundary-"
CALLS, OWN_NS = "calls", "own_ns"
#: What a worker notes of an engine without a profiler: the reason.
_NO_OPERATOR_TIMES = "no_operator_times"
_THREADS = "it ran in a thread of its own, which torch's profiler does not follow"
#: The package, and its allocator's bytes in use in the view's figures.
_TENSORFLOW, _TENSORFLOW_IN_USE = "tensorflow", "tensorflow_bytes"
_TENSORFLOW_DEVICE = "CPU:0"


class ProfilerView(View):
    """Runs torch's profiler over the whole workload."""

    #: Whether it records allocations.
    with_memory: ClassVar[bool] = False

    def __init__(self, folder: Path, descriptors: Descriptors) -> None:
        super().__init__(folder, descriptors)
        #: None until the profiler has begun.
        self.profiler: Any = None
        self._boundaries = 0

    def look(self, whole: bool) -> dict[str, int]:
        """Mark this boundary in the profile and return its number; nothing before torch is."""
        if self.profiler is None:
            if "torch" not in sys.modules:
                return {}
            from torch.profiler import ProfilerActivity, profile

            activities = [ProfilerActivity.CPU]
            self.profiler = profile(activities=activities, profile_memory=self.with_memory)
            self.profiler.start()
        from torch.profiler import record_function

        self._boundaries += 1
        with record_function(f"{MARKER}{self._boundaries}"):
            pass
        return {"boundary": self._boundaries}


def read_profile(trial: TrialData, name: str) -> Any:
    """Read what the view wrote to the file of that name in the trial's folder.

    Raises:
        ResultsError: there is none, or it is cut short.
    """
    try:
        return json.loads(read_file((trial.folder or Path()) / name))
    except FileNotFoundError:
        raise ResultsError("torch's profiler left no file: the worker ended before it") from None
    except (OSError, ValueError) as error:
        raise cut_short(error) from None


def cut_short(error: Exception) -> ResultsError:
    """Return the error for a profile that is not whole."""
    return ResultsError(f"torch's profile is cut short: {error}")


class AllocationsView(ProfilerView):
    """Writes torch's allocations to a file."""

    with_memory = True

    def __init__(self, folder: Path, descriptors: Descriptors) -> None:
        super().__init__(folder, descriptors)
        self._file = folder / ALLOCATIONS

    def close(self) -> None:
        """Write every allocation (bytes; a free is negative) and boundary, on one clock in ns."""
        if self.profiler is None:
            return
        self.profiler.stop()
        allocations: list[tuple[int, int]] = []
        boundaries: list[tuple[int, int]] = []
        for event in self.profiler.profiler.kineto_results.events():
            name = event.name()
            if name == "[memory]":
                allocations.append((event.start_ns(), event.nbytes()))
            elif name.startswith(MARKER):
                boundaries.append((event.start_ns(), int(name.removeprefix(MARKER))))
        tables = {"allocations": sorted(allocations), "boundaries": sorted(boundaries)}
        self._file.write_text(json.dumps(tables))


@registered_strategy
class TorchAllocations(Strategy):
    """What torch's CPU allocator has handed out and not got back, since torch was imported."""

    name = "torch"
    title = "torch's allocations"
    counts = "tensors and workspace that torch's CPU allocator handed out, byte for byte"
    blind_to = (
        "weights, which the loaders map themselves; all memory not from torch's allocator "
        "(Python, the libraries' own data and buffers); threads that a schedule starts; whether a "
        "byte was ever touched"
    )
    own_trial = True
    view = AllocationsView
    inside_worker = True
    library = "torch"

    def read(self, trial: TrialData) -> Reading:
        """Read the file that the worker left.

        Raises:
            ResultsError: there is none, or it is cut short.
        """
        tables = read_profile(trial, ALLOCATIONS)
        try:
            allocations = [(int(t), int(size)) for t, size in tables["allocations"]]
            boundaries = {int(number): int(t) for t, number in tables["boundaries"]}
        except (ValueError, KeyError, TypeError) as error:
            raise cut_short(error) from None
        times = [t for t, _ in allocations]
        held = list(accumulate(size for _, size in allocations))

        def held_at(t_ns: int) -> int:
            place = bisect_left(times, t_ns)
            return held[place - 1] if place else 0

        spans: list[SpanReading] = []
        for number, events in trial.looks("boundary").items():
            start, end = (boundaries.get(event["view"]["boundary"]) for event in events)
            if start is not None and end is not None:
                inside = held[bisect_left(times, start) : bisect_left(times, end)]
                before = held_at(start)
                spans.append(SpanReading(number, before, max([before, *inside]), held_at(end)))
        # The clock of events, by the boundaries that both know.
        clocks = sorted(
            (boundaries[boundary], event["t_ns"] - boundaries[boundary])
            for event in trial.events
            if (boundary := (event.get("view") or {}).get("boundary")) in boundaries
        )
        marks = [t for t, _ in clocks]
        line = (
            (t + clocks[max(0, bisect_left(marks, t) - 1)][1], size)
            for t, size in zip(times, held, strict=True)
        )
        read = {span.id for span in spans}
        unread = sum(span.layer is not None and span.id not in read for span in trial.spans)
        exact = ErrorBar(0, "every allocation is recorded, with its size")
        return Reading(
            strategy=self.name,
            peak_bytes=max(held, default=0),
            method="the running sum of its profiler's allocations",
            error=exact,
            spans=tuple(spans),
            span_method="the largest sum between the span's ends",
            span_error=exact,
            line=tuple(line) if clocks else (),
            missing={"spans": f"{unread} layers: {_THREADS}"} if unread else {},
        )


class OperatorView(ProfilerView):
    """Writes what each operator took to a file."""

    def __init__(self, folder: Path, descriptors: Descriptors) -> None:
        super().__init__(folder, descriptors)
        self._folder, self._file = folder, folder / OPERATORS
        self._of_engine: list[tuple[str, str, int, int]] = []

    @property
    def profile_folder(self) -> Path:
        """The folder of its file."""
        return self._folder

    def operator_time(self, phase: str, operator: str, calls: int, own_ns: int) -> None:
        """Keep it for the file."""
        self._of_engine.append((phase, operator, calls, own_ns))

    def close(self) -> None:
        """Write a list of [boundary before it, operator, calls, own nanoseconds].

        What an engine's own profiler told has its phase in place of a boundary.
        """
        if self._of_engine:
            self._file.write_text(json.dumps(self._of_engine))
        if self.profiler is None:
            return
        self.profiler.stop()
        events = self.profiler.events()
        markers = sorted(
            (event.time_range.start, int(event.name.removeprefix(MARKER)))
            for event in events
            if event.name.startswith(MARKER)
        )
        times = [start for start, _ in markers]
        sums: dict[tuple[int, str], list[float]] = defaultdict(lambda: [0, 0.0])
        for event in events:
            place = bisect_right(times, event.time_range.start)
            if place and not event.name.startswith(MARKER):
                entry = sums[markers[place - 1][1], event.name]
                entry[0] += 1
                entry[1] += event.self_cpu_time_total * 1000
        rows = [[*key, int(calls), round(own_ns)] for key, (calls, own_ns) in sums.items()]
        self._file.write_text(json.dumps(rows))


@registered_strategy
class Operators(TimeStrategy):
    """How often each of the engine's operators was called within rounds, and its own time in all.

    It measures no memory. It is a strategy because it, too, reads inside the worker and slows it.
    """

    name = "operators"
    view = OperatorView
    title = "operators"
    counts = "no memory: calls of the engine's operators, and the time spent in each one itself"
    blind_to = "what executes outside the operators: Python between them, the loader's reads"
    method = "the profiler of torch or of ONNX Runtime"

    def read(self, trial: TrialData) -> Reading:
        """Read the file that the worker left: parts ``phase|operator|calls`` and ``…|own_ns``.

        Raises:
            ResultsError: the engine has no profiler, there is no file, or it is cut short.
        """
        notes = trial.record.notes if trial.record else {}
        if reason := notes.get(_NO_OPERATOR_TIMES):
            raise ResultsError(reason)
        #: Boundary → the phase of the innermost span of a round that is open after it.
        phases: dict[int, str] = {}
        open_spans: dict[object, str] = {}
        for event in trial.events:
            if event.get("event") == "start" and event.get("round") is not None:
                open_spans[event.get("id")] = str(event.get("phase"))
            elif event.get("event") == "end":
                open_spans.pop(event.get("id"), None)
            boundary = (event.get("view") or {}).get("boundary")
            if boundary is not None and open_spans:
                phases[boundary] = list(open_spans.values())[-1]
        parts: dict[str, int] = defaultdict(int)
        try:
            for place, operator, calls, own_ns in read_profile(trial, OPERATORS):
                if phase := place if isinstance(place, str) else phases.get(place):
                    parts[SEPARATOR.join((phase, operator, CALLS))] += int(calls)
                    parts[SEPARATOR.join((phase, operator, OWN_NS))] += int(own_ns)
        except (ValueError, TypeError) as error:
            raise cut_short(error) from None
        return self.of_parts(parts)


class TensorflowView(View):
    """Reads the allocator's bytes in use at each boundary, and its mark, which is then reset."""

    def mark(self) -> int | None:
        """Read the most in use since the last boundary."""
        return self._figures().get("peak")

    def look(self, whole: bool) -> dict[str, int]:
        """Read the bytes in use; nothing before TensorFlow is imported."""
        return {_TENSORFLOW_IN_USE: figures["current"]} if (figures := self._figures()) else {}

    def reset(self) -> None:
        """Let the mark begin at what is in use."""
        if _TENSORFLOW in sys.modules:
            import tensorflow as tf

            tf.config.experimental.reset_memory_stats(_TENSORFLOW_DEVICE)

    @staticmethod
    def _figures() -> dict[str, int]:
        if _TENSORFLOW not in sys.modules:
            return {}
        import tensorflow as tf

        figures: dict[str, int] = tf.config.experimental.get_memory_info(_TENSORFLOW_DEVICE)
        return figures


@registered_strategy
class TensorflowAllocations(LookStrategy):
    """What TensorFlow's CPU allocator has handed out and not got back."""

    name = "tensorflow"
    title = "TensorFlow's allocations"
    counts = "tensors and workspace that TensorFlow's CPU allocator handed out"
    blind_to = (
        "all memory not from TensorFlow's allocator: Python, NumPy's arrays, the libraries' own "
        "data and buffers; what the allocator keeps free; whether a byte was ever touched"
    )
    own_trial = True
    view = TensorflowView
    inside_worker = True
    library = _TENSORFLOW
    figures, marked = (_TENSORFLOW_IN_USE,), True
    span_method = "its allocator's mark, reset at the span's start"
    nothing = "TensorFlow's allocator told no figures of the CPU's memory: this version keeps none"

    def wrap(
        self, command: Sequence[str], env: Mapping[str, str], folder: Path
    ) -> tuple[list[str], dict[str, str]]:
        """Add the variable that asks for the allocator that keeps figures."""
        command, variables = super().wrap(command, env, folder)
        return list(command), {**variables, "TF_CPU_ALLOCATOR_USE_BFC": "1"}

    def error(self, trial: TrialData) -> ErrorBar:
        """Return what the allocator rounds up."""
        reason = "an allocation counts as the chunk that it gets, which may be up to twice as large"
        return ErrorBar(None, reason)


WALL_NS, ALL_NS = "wall_ns", "cpu_ns"
#: In the view's figures: the beginning of each core's CPU time, before the core's number.
CORE_NS = "core_ns_"
#: There too: the moment.
LOOKED_NS = "looked_ns"
#: A thread's CPU clock as clock_gettime takes it: ``~TID << 3`` with these bits, "one thread,
#: as the scheduler counts" (Linux, include/linux/posix-timers_types.h).
_THREAD_CLOCK = 0b110
#: Its place in ``/proc/…/stat`` after the name, which may hold blanks: proc(5) counts it as 39.
_PROCESSOR = 39 - 3
_TASKS = Path("/proc/self/task")


class CoresView(View):
    """At each look, each thread's CPU time since the last goes to the core it is on.

    One that has moved since counts half for each of the two.
    """

    def __init__(self, folder: Path, descriptors: Descriptors) -> None:
        super().__init__(folder, descriptors)
        #: Thread → its CPU time, and its core.
        self._seen: dict[int, tuple[int, int]] = {}
        self._by_core: dict[int, int] = defaultdict(int)

    def look(self, whole: bool) -> dict[str, int]:
        """Read nanoseconds on each core so far, by the core's number, and the moment."""
        own = threading.get_native_id()
        # Itself last: what looking takes is then least of all in the span that begins.
        threads = (int(folder.name) for folder in _TASKS.iterdir())
        for thread in sorted(threads, key=lambda thread: thread == own):
            try:
                used = time.clock_gettime_ns(~thread << 3 | _THREAD_CLOCK)
                stat = (_TASKS / str(thread) / "stat").read_bytes()
            except OSError:
                # It ended meanwhile.
                continue
            core = int(stat.rpartition(b")")[2].split()[_PROCESSOR])
            before, last = self._seen.get(thread, (0, core))
            # A smaller one is a new thread with a dead one's number.
            since = used - (before if before <= used else 0)
            self._by_core[last] += since // 2
            self._by_core[core] += since - since // 2
            self._seen[thread] = used, core
        by_core = {f"{CORE_NS}{core}": used for core, used in self._by_core.items()}
        return {LOOKED_NS: time.monotonic_ns(), **by_core}


@registered_strategy
class Cores(TimeStrategy):
    """CPU time by phase and core, over the rounds after the first."""

    name = "cores"
    view = CoresView
    title = "CPU time by core"
    counts = "no memory: CPU time of the worker's threads, by phase and by core"
    blind_to = (
        "on which cores a thread ran between two boundaries of spans: its time is counted for the "
        "core it is on at the boundary, or half for each of the two it was seen on; other "
        "processes. In a phase shorter than a millisecond, reading takes much of the time"
    )
    method = "each thread's CPU clock, and the core it is on, at each boundary"

    def read(self, trial: TrialData) -> Reading:
        """Read the worker's events: sums over a phase's spans.

        Parts: ``phase|wall_ns`` and ``phase|cpu_ns`` of the spans themselves; ``phase|looked_ns``
        from look to look, which is a little longer, and within that ``phase|core_ns_0`` and so on.

        Raises:
            ResultsError: no round was seen whole.
        """
        looks = trial.looks(LOOKED_NS)
        parts: dict[str, int] = defaultdict(int)
        for span in _counted(trial.spans):
            if span.id not in looks:
                continue
            before, after = (event["view"] for event in looks[span.id])
            parts[SEPARATOR.join((span.phase, WALL_NS))] += span.end_ns - span.start_ns
            parts[SEPARATOR.join((span.phase, ALL_NS))] += round((span.cpu_s or 0) * 1e9)
            for key, value in after.items():
                parts[SEPARATOR.join((span.phase, key))] += value - before.get(key, 0)
        if not parts:
            raise ResultsError("no round was seen whole: the worker ended in its first")
        return self.of_parts(parts)


def _counted(spans: Sequence[Span]) -> list[Span]:
    """Choose those within rounds, without the first round if there are others.

    Of a phase's layers where it has any, else of the whole phase, as in sums of phases.
    """
    rounds = {span.round for span in spans if span.round >= 0}
    wanted = rounds - {min(rounds, default=0)} or rounds
    groups: dict[tuple[int, str | None, str], list[Span]] = defaultdict(list)
    for span in spans:
        if span.round in wanted:
            groups[span.round, span.network, span.phase].append(span)
    return [
        span
        for group in groups.values()
        for span in [span for span in group if span.layer is not None] or group
    ]
