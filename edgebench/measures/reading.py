"""A strategy's figures of one trial: its reading, as kept in the results folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


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
class Holder:
    """What one call path held when its span's memory was highest, bytes.

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
        peak_bytes: the whole trial's peak; None if it could not be measured.
        method: how the peak was measured.
        error: the peak's error bar.
        spans: one for each span it saw.
        span_method: how a span's peak was measured.
        span_error: the error bar of a span's figures.
        line: (``t_ns``, bytes) over the trial's time where it has one, ``t_ns`` as in the events.
        parts: further figures by name, such as a heap's ``parameters``, bytes.
        missing: what could not be measured → why.
        holders: the call paths that held most in each span, largest first, where known.
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
            KeyError, TypeError: the data are not a reading.
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
