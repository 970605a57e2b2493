"""What a strategy is: one way to tell how much memory a trial, and each layer of it, takes.

No two strategies count the same thing. So each says what it counts, what it can't see, how far
its figure may be off and why, and whether it disturbs the workload so much that it needs a trial
of its own. A strategy's figures are put side by side by :mod:`edgebench.measures.ledger`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from edgebench.records.phases import Span, finished_spans
from edgebench.records.records import TrialRecord


@dataclass(frozen=True)
class ErrorBar:
    """How far a figure may be from what it stands for. ``size_bytes`` None: not known.

    ``source`` says where it comes from, as ``64 pages charged ahead on each of 2 CPUs``.
    """

    size_bytes: int | None
    source: str


@dataclass(frozen=True)
class SpanReading:
    """What a strategy saw of one span, bytes; None where it did not see it.

    ``id`` is the span's in its trial's events (:class:`edgebench.records.phases.Span`).
    """

    id: int
    before_bytes: int | None
    peak_bytes: int | None
    after_bytes: int | None


@dataclass(frozen=True)
class Holder:
    """What one path of calls held in a span when that held most, bytes.

    ``span`` is the span's id; ``frames`` are the calls, innermost first.
    """

    span: int
    size_bytes: int
    frames: tuple[str, ...]


@dataclass(frozen=True)
class Reading:
    """A strategy's figures of one trial, bytes.

    Args:
        strategy: its name.
        peak_bytes: the whole trial's peak; None if it could not be told.
        method: how the peak was told.
        error: the peak's error bar.
        spans: one for each span it saw.
        span_method: how a span's peak was told.
        span_error: the error bar of a span's figures.
        line: (``t_ns``, bytes) over the trial's time where it has one, ``t_ns`` as in the events.
        parts: further figures by name, such as a heap's ``parameters``, bytes.
        missing: what could not be told → why.
        holders: who held most in each span, largest first, where the strategy can tell.
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
    holders: tuple[Holder, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain data for ``json.dumps``."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Reading:
        """The reading of :meth:`to_json`.

        Raises:
            KeyError, TypeError: it is no such data.
        """
        given = dict(data)
        given["error"] = ErrorBar(**given["error"])
        given["span_error"] = ErrorBar(**given["span_error"])
        given["spans"] = tuple(SpanReading(**span) for span in given["spans"])
        given["holders"] = tuple(
            Holder(holder["span"], holder["size_bytes"], tuple(holder["frames"]))
            for holder in given.get("holders", ())
        )
        given["line"] = tuple((int(t_ns), int(size)) for t_ns, size in given["line"])
        return cls(**given)


@dataclass(frozen=True)
class Seen:
    """All there is to read one trial from; what a strategy does not need may be empty.

    Args:
        events: the worker's events; none of a workload that tells none.
        record: the trial's record.
        folder: where the workload, run as :meth:`Strategy.wrap` said, left its files; None for
            a strategy without a trial of its own.
        samples: the sampler's fast table, column → values in order; -1 or NaN: not told.
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
        return finished_spans(self.events)


@dataclass(frozen=True)
class Asked:
    """What a scenario asks of a strategy's own trial.

    Args:
        dump_every_bytes: how much may be allocated between two dumps of the heap.
        timeout_s: after which the trial is killed; None: never.
    """

    dump_every_bytes: int = 32 << 20
    timeout_s: float | None = None


class Strategy(ABC):
    """One way to tell memory.

    A strategy with ``own_trial`` has its workload started in the words and with the variables
    that :meth:`wrap` gives, in a trial that is never timed; :meth:`read` is called as soon as
    that trial has ended, in the harness (no torch, no numpy there), and its reading is kept.
    Other strategies read what any trial leaves behind.
    """

    #: As a scenario names it.
    name: ClassVar[str]
    #: For a person: ``kernel's high-water mark``.
    title: ClassVar[str]
    counts: ClassVar[str]
    blind_to: ClassVar[str]
    own_trial: ClassVar[bool] = False
    #: One that tells time alone is no part of a ledger.
    tells_memory: ClassVar[bool] = True
    #: It is read by the worker itself, so a workload of kind ``command`` can't be seen by it.
    inside_worker: ClassVar[bool] = False

    def unavailable(self) -> str | None:
        """Why it can't be used on this machine, with what to install; None if it can."""
        return None

    def configured(self, asked: Asked) -> Strategy:
        """As a scenario asks for it; most have nothing to set."""
        return self

    def wrap(
        self, command: Sequence[str], env: Mapping[str, str], folder: Path
    ) -> tuple[list[str], dict[str, str]]:
        """How the workload is started in its own trial.

        Args:
            command: the workload's words.
            env: the variables that the workload gets beside the harness's own.
            folder: an empty folder that the workload may write to; gone after :meth:`read`.

        Returns:
            The words, and the variables for these words alone (GNU time doesn't get them).
        """
        return list(command), dict(env)

    @abstractmethod
    def read(self, seen: Seen) -> Reading:
        """Its figures of one trial, as far as it could tell them; what it could not says why.

        Raises:
            EdgebenchError: what the strategy left can't be read at all.
        """
