"""Strategies: ways to measure how much memory a trial, and each of its layers, takes.

No two strategies count the same thing. So each states what it counts, what it can't see, how large
its error may be and why, and whether it disturbs the workload so much that it needs a trial of its
own. :mod:`edgebench.measures.ledger` compares the figures of two strategies. A strategy is listed
whether or not its tool is installed: a scenario that asks for it is told what is missing.

A heap profiler's output is linked to spans by allocation sequence: a profiler that the worker can
reach gets a number at each boundary of a span, so what was allocated before it and what after is
exact, whatever the clocks say. Any other point lies in a span if its ``t_ns`` does.

The worker imports this module in a strategy's own trial, so it imports little.
"""

from __future__ import annotations

import mmap
import time
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from edgebench import plugins
from edgebench.errors import ResultsError
from edgebench.measures.view import FOLDER_VARIABLE, VIEW_VARIABLE, View

if TYPE_CHECKING:
    from edgebench.records import TrialRecord
    from edgebench.spans import Span


@dataclass(frozen=True)
class ErrorBar:
    """How far a figure may be from the true value. ``size_bytes`` None: not known.

    ``source`` is the reason, for example ``64 pages charged ahead on each of 2 CPUs``.
    """

    size_bytes: int | None
    source: str


@dataclass(frozen=True)
class SpanReading:
    """A strategy's figures of one span, bytes; None where it has none.

    ``id`` is the span's in its trial's events (:class:`edgebench.spans.Span`).
    """

    id: int
    before_bytes: int | None
    peak_bytes: int | None
    after_bytes: int | None


@dataclass(frozen=True)
class Reading:
    """A strategy's figures of one trial, bytes.

    Args:
        strategy: its name.
        peak_bytes: the whole trial's peak; None if it could not be measured.
        method: how the peak was measured.
        error: the peak's error bar.
        spans: one for each span it saw.
        span_method: how a span's peak was measured.
        span_error: the error bar of a span's figures.
        line: (``t_ns``, bytes) over the trial's time where it has one, ``t_ns`` as in the events.
        parts: further figures by name, such as a heap's ``parameters``, bytes.
        missing: what could not be measured → why.
    """

    strategy: str
    peak_bytes: int | None
    method: str
    error: ErrorBar
    spans: tuple[SpanReading, ...] = ()
    span_method: str = ""
    span_error: ErrorBar = ErrorBar(None, "no span was seen")
    line: tuple[tuple[int, int], ...] = ()
    parts: dict[str, int] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return plain data for ``json.dumps``."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Reading:
        """Read the plain data of :meth:`to_json`.

        Raises:
            KeyError, TypeError: the data are not a reading.
        """
        given = dict(data)
        given["error"] = ErrorBar(**given["error"])
        given["span_error"] = ErrorBar(**given["span_error"])
        given["spans"] = tuple(SpanReading(**span) for span in given["spans"])
        # Of older versions.
        given.pop("holders", None)
        given["line"] = tuple((int(t_ns), int(size)) for t_ns, size in given["line"])
        return cls(**given)


#: Between the words of a time strategy's part: the phase, then what it is of.
SEPARATOR = "|"


@dataclass(frozen=True)
class TrialData:
    """Everything that a strategy can read of one trial; what it does not need may be empty.

    Args:
        events: the worker's events; none of a workload that writes none.
        record: the trial's record.
        folder: where the workload, started as :meth:`Strategy.wrap` says, left its files; None for
            a strategy without a trial of its own.
        samples: the sampler's fast table, column → values in order; -1 or NaN: unknown.
        stat: the sampler's slow table, likewise.
        tables: network → its layer table, one mapping a layer, in order.
        cpus: how many the trial could run on; None: not known.
        page_bytes: the machine's page size.
    """

    events: Sequence[dict[str, Any]]
    record: TrialRecord | None = None
    folder: Path | None = None
    samples: Mapping[str, Any] = field(default_factory=dict)
    stat: Mapping[str, Any] = field(default_factory=dict)
    tables: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    cpus: int | None = None
    page_bytes: int = 4096

    @property
    def spans(self) -> list[Span]:
        """The spans that began and ended, in the order they ended."""
        from edgebench.spans import finished_spans

        return finished_spans(self.events)

    def looks(self, key: str) -> dict[int, tuple[dict[str, Any], dict[str, Any]]]:
        """Map span's id → its start's and end's event, where the view's figures have that key."""
        from edgebench.spans import paired_events

        return {
            pair[0]["id"]: pair
            for pair in paired_events(self.events)
            if all(isinstance(v := event.get("view"), dict) and key in v for event in pair)
        }


@dataclass(frozen=True)
class StrategyOptions:
    """A scenario's settings for a strategy's own trial.

    Args:
        dump_every_bytes: how much may be allocated between two dumps of the heap.
        timeout_s: after which the trial is killed; None: never.
    """

    dump_every_bytes: int = 32 << 20
    timeout_s: float | None = None


class Strategy(ABC):
    """One way to measure memory: a module of :mod:`edgebench.measures.strategies`.

    A strategy with ``own_trial`` has its workload started with the command and the variables
    that :meth:`wrap` returns, in a trial that is never timed. If it has a ``view``, the worker
    opens that. :meth:`read` is called as soon as that trial has ended, in a process that has the
    caller's rights, and its reading is kept. Other strategies read what any trial leaves behind.
    """

    #: The name in a scenario.
    name: ClassVar[str]
    #: The name in tables and texts: ``kernel's high-water mark``.
    title: ClassVar[str]
    counts: ClassVar[str]
    blind_to: ClassVar[str]
    own_trial: ClassVar[bool] = False
    #: The strategy whose own trials this one reads too.
    beside: ClassVar[str | None] = None
    #: A strategy that measures only time is not part of a ledger.
    tells_memory: ClassVar[bool] = True
    #: What the worker opens in the own trial; the worker imports the module that defines it.
    view: ClassVar[type[View] | None] = None
    #: It needs the worker, so it can't measure a workload of kind ``command``.
    inside_worker: ClassVar[bool] = False
    #: Timed trials without a limit have the same figures: only limited points need its trials.
    limited_only: ClassVar[bool] = False
    #: It reads what this library keeps, so a workload without it needs none of its trials.
    library: ClassVar[str | None] = None

    def unavailable(self) -> str | None:
        """Say why it can't be used on this machine, and what to install; None if it can."""
        return None

    def configured(self, options: StrategyOptions) -> Strategy:
        """Return the strategy with a scenario's settings; most have none."""
        return self

    def wrap(
        self, command: Sequence[str], env: Mapping[str, str], folder: Path
    ) -> tuple[list[str], dict[str, str]]:
        """Say how the workload is started in its own trial.

        Args:
            command: the workload's command.
            env: the variables that the workload gets beside the harness's own.
            folder: an empty folder that the workload may write to; removed after :meth:`read`.

        Returns:
            The command, and the variables for this command alone (GNU time doesn't get them).
        """
        if self.view is None:
            return list(command), dict(env)
        opened = f"{self.view.__module__}:{self.view.__qualname__}"
        return list(command), {**env, VIEW_VARIABLE: opened, FOLDER_VARIABLE: str(folder)}

    @abstractmethod
    def read(self, trial: TrialData) -> Reading:
        """Read its figures of one trial; ``missing`` has what it could not measure, and why.

        Raises:
            EdgebenchError: what the strategy left can't be read at all.
        """


S = TypeVar("S", bound=Strategy)
#: The classes under :func:`registered_strategy`, in the order of their imports.
STRATEGIES: list[type[Strategy]] = []


def registered_strategy(strategy: type[S]) -> type[S]:
    """Have :mod:`edgebench.measures.strategies` list the strategy; a class decorator."""
    STRATEGIES.append(strategy)
    return strategy


class TimeStrategy(Strategy):
    """A strategy that measures time inside the worker; its parts are by phase."""

    own_trial = True
    tells_memory = False
    inside_worker = True
    #: How the times are measured.
    method: ClassVar[str]

    def of_parts(self, parts: Mapping[str, int]) -> Reading:
        """Return the reading that has these parts and no peak."""
        return Reading(
            strategy=self.name,
            peak_bytes=None,
            method=self.method,
            error=ErrorBar(None, "it measures no memory"),
            parts=dict(parts),
            missing={"peak_bytes": "it measures time, not memory"},
        )


class LookStrategy(Strategy):
    """A figure that the view reads at each boundary of a span: the sum of some of its figures.

    ``figures`` are their names there. With ``marked`` a span's peak is the view's own mark, else
    the larger of its ends.
    """

    figures: ClassVar[tuple[str, ...]]
    marked: ClassVar[bool] = False
    span_method: ClassVar[str]
    #: Why there is no peak, where there is none.
    nothing: ClassVar[str]

    def read(self, trial: TrialData) -> Reading:
        """Read what the worker saw at its boundaries."""
        spans: list[SpanReading] = []
        for number, (start, end) in trial.looks(self.figures[0]).items():
            before, after = (sum_of(event["view"], *self.figures) for event in (start, end))
            largest = max((size for size in (before, after) if size is not None), default=None)
            highest = end.get("view_peak_bytes") if self.marked else largest
            spans.append(SpanReading(number, before, highest, after))
        peak = max((span.peak_bytes or 0 for span in spans), default=0)
        error = self.error(trial)
        return Reading(
            strategy=self.name,
            peak_bytes=peak or None,
            method=f"the largest of its spans: {self.span_method}",
            error=error,
            spans=tuple(spans) if peak else (),
            span_method=self.span_method,
            span_error=error,
            missing={} if peak else {"peak_bytes": self.nothing},
        )

    def error(self, trial: TrialData) -> ErrorBar:
        """Return the error bar of its figures."""
        return ErrorBar(None, "read at the span's ends only")


def sum_of(look: Mapping[str, int], *names: str) -> int | None:
    """Sum a view's figures; None if one is unknown."""
    values = [look.get(name) for name in names]
    return None if None in values else sum(value for value in values if value is not None)


#: (a span's id, ``start`` or ``end``) → the number the profiler got there, and the moment.
Boundaries = dict[tuple[int, str], tuple[int, int]]


@dataclass(frozen=True)
class HeapPoint:
    """The heap at one moment.

    Attributes:
        t_ns: ``CLOCK_MONOTONIC``, as far as the profiler's clock can tell.
        live_bytes: requested by the program and not yet freed.
        peak_bytes: the most that was live since the point before; None if the tool doesn't tell.
        boundary: the worker's number for the boundary of a span at which this was seen; None of
            a point between boundaries.
    """

    t_ns: int
    live_bytes: int
    peak_bytes: int | None = None
    boundary: int | None = None

    @property
    def highest_bytes(self) -> int:
        """The most known to have been live since the point before."""
        return max(self.live_bytes, self.peak_bytes or 0)


@dataclass(frozen=True)
class HeapProfile:
    """One trial's heap.

    Attributes:
        points: in the order in which the program allocated.
        unseen_bytes: the most that the heap can have risen between two points, unseen; None if
            nothing bounds it.
        error: where that, and what the times are worth, comes from.
        notes: what a reader must know, as that a dump is cut short.
        line: (``t_ns``, live bytes) where the profiler tells more moments than points.
    """

    points: tuple[HeapPoint, ...]
    unseen_bytes: int | None
    error: str
    notes: tuple[str, ...] = ()
    line: tuple[tuple[int, int], ...] = ()


def boundaries(events: Iterable[Mapping[str, Any]]) -> Boundaries:
    """Find the numbered boundaries among the events; none where no profiler got numbers."""
    numbered: Boundaries = {}
    for event in events:
        view, edge = event.get("view"), event.get("event")
        number = view.get("boundary") if isinstance(view, dict) else None
        place, t_ns = event.get("id"), event.get("t_ns")
        if isinstance(number, int) and isinstance(place, int) and isinstance(t_ns, int):
            numbered[(place, str(edge))] = (number, t_ns)
    return numbered


def boundary_times(numbered: Boundaries) -> dict[int, int]:
    """Map the number of a boundary → its ``t_ns``: the first, where boundaries share a number."""
    return dict(sorted(numbered.values(), reverse=True))


def link(
    points: Sequence[HeapPoint], spans: Sequence[Span], numbered: Boundaries
) -> tuple[SpanReading, ...]:
    """Find the heap of each span that has a point before or in it.

    Args:
        points: the trial's, in order.
        spans: the trial's.
        numbered: the :func:`boundaries` of its events; none: by time.
    """
    times = [point.t_ns for point in points]
    places = {point.boundary: at for at, point in enumerate(points) if point.boundary is not None}
    linked = []
    for span in spans:
        edges = (numbered.get((span.id, edge)) for edge in ("start", "end"))
        start, end = (places.get(boundary[0]) if boundary else None for boundary in edges)
        if start is None or end is None:
            start = bisect_left(times, span.start_ns) - 1
            end = bisect_right(times, span.end_ns) - 1
        if end < 0:
            continue
        before, inside = points[start] if start >= 0 else None, points[start + 1 : end + 1]
        known = [point.highest_bytes for point in inside]
        known = [before.live_bytes, *known] if before else known
        linked.append(
            SpanReading(
                id=span.id,
                before_bytes=before.live_bytes if before else None,
                peak_bytes=max(known),
                after_bytes=inside[-1].live_bytes if inside else known[0],
            )
        )
    return tuple(linked)


class HeapStrategy(Strategy):
    """A heap profiler around the workload, in a trial of its own."""

    own_trial = True
    #: Whether what the program maps, such as weights, is counted.
    counts_mapped: ClassVar[bool] = False
    #: How a peak is measured.
    method: ClassVar[str]

    @abstractmethod
    def profile(self, folder: Path, numbered: Boundaries, offset_ns: int) -> HeapProfile:
        """Read what the profiler left in the trial's folder.

        Args:
            folder: as :meth:`Strategy.wrap` had it.
            numbered: the boundaries that the profiler knows by number.
            offset_ns: wall clock − ``CLOCK_MONOTONIC``.

        Raises:
            ResultsError: it left nothing that can be read; says why, as far as known.
        """

    def read(self, trial: TrialData) -> Reading:
        """Read the heap's peak, its line over time, and each span's figures.

        Raises:
            ResultsError: as :meth:`profile`.
        """
        if trial.folder is None:
            raise ResultsError(f"{self.title} needs a trial of its own")
        numbered = boundaries(trial.events)
        profile = self.profile(trial.folder, numbered, time.time_ns() - time.monotonic_ns())
        readings = link(profile.points, trial.spans, numbered)
        error = ErrorBar(profile.unseen_bytes, profile.error)
        linked = "the order of allocation" if numbered else "time"
        return Reading(
            strategy=self.name,
            peak_bytes=max((point.highest_bytes for point in profile.points), default=None),
            method=self.method,
            error=error,
            spans=readings,
            span_method=f"{self.method}; linked to spans by {linked}",
            span_error=error,
            line=profile.line or tuple((p.t_ns, p.live_bytes) for p in profile.points),
            parts=_parts(trial.spans, readings) if self.counts_mapped else {},
            missing={f"note {number}": note for number, note in enumerate(profile.notes, 1)},
        )


def _parts(spans: Sequence[Span], readings: Sequence[SpanReading]) -> dict[str, int]:
    """Return ``parameters``: by how much the heap grew over the loads of the first round's layers.

    Nothing where threads overlap: what one allocates falls into the other's spans.
    """
    read = {reading.id: reading for reading in readings}
    layers = [span for span in spans if span.layer is not None and span.id in read]
    first = min((span.round for span in layers), default=None)
    layers = [span for span in layers if span.round == first]
    loads = [read[span.id] for span in layers if span.phase == "load"]
    if not loads or len({span.thread for span in layers}) > 1:
        return {}
    return {"parameters": sum((r.after_bytes or 0) - (r.before_bytes or 0) for r in loads)}


@cache
def all_strategies() -> dict[str, Strategy]:
    """List every strategy by name, in the order of the names.

    Raises:
        MachineError: one of another package can't be imported.
    """
    for module in iter_modules(__path__, f"{__name__}."):
        import_module(module.name)
    others = [plugins.load(entry) for entry in plugins.added(plugins.STRATEGIES).values()]
    every = {strategy.name: strategy for strategy in (*STRATEGIES, *others)}
    return {name: every[name]() for name in sorted(every)}


def in_every_trial() -> tuple[Strategy, ...]:
    """List strategies that read what any trial leaves behind, at no cost to it."""
    every = all_strategies().values()
    return tuple(s for s in every if not s.own_trial and s.beside is None)


def beside(strategy: str) -> tuple[Strategy, ...]:
    """List strategies that read the own trials of that one too."""
    return tuple(s for s in all_strategies().values() if s.beside == strategy)


@cache
def with_own_trial() -> dict[str, Strategy]:
    """List strategies that need a trial of their own, by name."""
    return {name: s for name, s in all_strategies().items() if s.own_trial}


def strategy_of(name: str) -> Strategy | None:
    """Find the strategy of that name; None if this version knows none."""
    return all_strategies().get(name)


def read_own_trial(request: Mapping[str, Any]) -> dict[str, Any]:
    """Read a strategy's own trial; return the reading as plain data.

    Args:
        request: ``strategy`` (``module:class``), its ``options``, the trial's ``folder``,
            ``record``, ``events`` and ``cpus``.

    Raises:
        ResultsError: what the strategy left can't be read.
    """
    from edgebench.records import TrialRecord

    module, _, name = request["strategy"].partition(":")
    options = StrategyOptions(**request["options"])
    trial = TrialData(
        events=request["events"],
        record=TrialRecord.from_json(request["record"]),
        folder=Path(request["folder"]),
        cpus=request["cpus"],
        page_bytes=mmap.PAGESIZE,
    )
    strategy = getattr(import_module(module), name)().configured(options)
    reading: dict[str, Any] = strategy.read(trial).to_json()
    return reading
