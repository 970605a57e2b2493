"""``live.json`` in a sweep's folder: the trial that runs now, its growing files and its events.

The harness writes it when a trial starts and removes it when the sweep ends; it is no result. It
names the harness's scratch folder, in which the sampler's raw rows and the worker's events grow.
Readers check every value, since anyone could have written the file.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec

from edgebench.errors import ResultsError, UnsafePathError
from edgebench.records import Count, LimitSetting, Number, is_count, is_number
from edgebench.results.layout import LIVE, json_bytes, parse_line, read_json
from edgebench.safe_files import open_to_read, remove_file, write

#: Names in the scratch folder: the sampler's two tables, the worker's events.
FAST, STAT, EVENTS = "fast.i64", "stat.i64", "events.jsonl"
_SCRATCH = re.compile(r"edgebench-[0-9a-f]{12}")
_Columns = Annotated[
    tuple[Annotated[str, msgspec.Meta(pattern="^[a-z0-9_]{1,40}$")], ...],
    msgspec.Meta(min_length=1),
]


class LiveTrial(msgspec.Struct, frozen=True):
    """The trial that runs now. ``started_ns`` is ``CLOCK_MONOTONIC``, of the boot ``boot_id``.

    ``folder`` is the scratch folder; ``fast_columns`` and ``stat_columns`` name the int64 columns
    of its tables, in which -1 means "not available".
    """

    trial: str
    point: str
    block: Count
    repeat: Count
    settings: dict[str, Any]
    limits: LimitSetting
    strategy: str | None
    timeout_s: Number | None
    started_utc: str
    started_ns: Count
    boot_id: str
    folder: str
    interval_s: Number
    fast_columns: _Columns
    stat_columns: _Columns

    def file(self, name: str) -> Path:
        """One of the growing files."""
        return Path(self.folder, name)


def write_live_trial(path: Path, live: LiveTrial) -> None:
    """Write the trial that starts to ``live.json``; if the disk is full, there is none."""
    # Neither synced nor renamed: it is no result, and half a file is ignored.
    with contextlib.suppress(OSError, UnsafePathError):
        write(path, json_bytes(msgspec.to_builtins(live)))


def remove_live_trial(path: Path) -> None:
    """Remove ``live.json``: no trial runs any more."""
    with contextlib.suppress(OSError, UnsafePathError):
        remove_file(path)


def read_live_trial(sweep: Path) -> LiveTrial | None:
    """Return the trial that runs now in a sweep's folder; None: none, or on another machine.

    None also if a value is not what it should be, or ``folder`` is not a scratch folder.
    """
    try:
        live = msgspec.convert(read_json(Path(sweep) / LIVE), LiveTrial)
    except (ResultsError, msgspec.ValidationError):
        return None
    sound = _SCRATCH.fullmatch(Path(live.folder).name)
    return live if sound and live.boot_id == boot_id() else None


def read_from(path: Path, start: int, most: int) -> bytes:
    """At most so many bytes of a growing file; none if it can't be read."""
    try:
        with open_to_read(path, links=False) as file:
            return os.pread(file.fileno(), most, start)
    except OSError:
        return b""


def boot_id() -> str:
    """Return identifies this boot of this machine; empty where the kernel has no such file."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(errors="replace").strip()
    except OSError:
        return ""


#: Read in pieces: large ones would stay with the process when they have been read. At most so many
#: at a time: what lies there already must not stall who watches.
PIECE_BYTES, MOST_PIECES = 1 << 16, 16
_LONGEST_LINE = 1 << 20
#: Ended spans that are kept for who comes later.
_KEPT = 64
#: Of what came since the last look only so many lines are looked at closely: a fast network passes
#: thousands of layers a second, which nobody can follow and the machine should not have to.
_CLOSELY = 64
_END = b'{"event": "end", "id": '
_METRIC_WORDS = ("loss", "accuracy")
_MOST_METRICS = 2000


@dataclass(frozen=True)
class OpenSpan:
    """A phase, or a layer in one, that has begun. ``since_s`` is seconds after the trial's start.

    ``layer`` and ``name`` are None for a whole phase.
    """

    phase: str
    network: str | None
    layer: int | None
    name: str | None
    round: int | None
    since_s: float


@dataclass(frozen=True)
class EndedSpan:
    """A span that has ended, with the kernel's peak in it where it is known."""

    span: OpenSpan
    wall_s: float
    peak_bytes: int | None
    major_faults: int | None
    minor_faults: int | None


@dataclass(frozen=True)
class Metric:
    """What a note of training reports: loss, accuracy and other numbers."""

    t_s: float
    step: int | None
    values: dict[str, float]


class EventTail:
    """A trial's growing events.

    Args:
        path: the file; it may not be there yet, or not any more.
        started_ns: when the trial began, ``CLOCK_MONOTONIC``.
    """

    def __init__(self, path: Path, started_ns: int) -> None:
        self._path = path
        self._started_ns = started_ns
        self._at = 0
        self._torn = b""
        self._open: dict[int, OpenSpan] = {}
        #: Spans of a round under way may come twice: before the worker writes them, and then.
        self._newest = -1
        self.ended: deque[EndedSpan] = deque(maxlen=_KEPT)
        self.metrics: list[Metric] = []

    @property
    def open(self) -> list[OpenSpan]:
        """What is under way, the innermost last."""
        return list(self._open.values())

    def poll(self) -> tuple[list[EndedSpan], list[Metric]]:
        """Read what came since; the spans that ended and what training reported."""
        ended: list[EndedSpan] = []
        metrics: list[Metric] = []
        for _ in range(MOST_PIECES):
            data = read_from(self._path, self._at, PIECE_BYTES)
            if not data:
                break
            self._at += len(data)
            for event in self._events(data):
                kind = event.get("event")
                if kind == "start":
                    self._begin(event)
                elif kind == "end" and (span := self._end(event)):
                    ended.append(span)
                elif kind == "note" and (metric := metric_of(event, self._started_ns)):
                    metrics.append(metric)
        self.ended.extend(ended)
        self.metrics += metrics
        # Every second one goes: a long training stays a line of bounded length.
        if len(self.metrics) > _MOST_METRICS:
            self.metrics = self.metrics[::2]
        return ended, metrics

    def _events(self, data: bytes) -> Iterator[dict[str, Any]]:
        """Yield the events of the lines that are whole now: the very last.

        Of the others what matters.
        """
        *lines, self._torn = (self._torn + data).split(b"\n")
        # The worker writes no longer line.
        self._torn = self._torn[:_LONGEST_LINE]
        closely = _CLOSELY if len(data) < PIECE_BYTES else 0
        for place, line in enumerate(lines, start=closely - len(lines)):
            event = parse_line(line) if place >= 0 or self._matters(line) else None
            if event is not None:
                yield event

    def _matters(self, line: bytes) -> bool:
        """Whether an unparsed line is of a whole phase, of a span that is shown, or a note."""
        if line.startswith(_END):
            number = line[len(_END) : line.find(b",", len(_END))]
            return len(number) < 20 and number.isdigit() and int(number) in self._open
        return b'"layer": null' in line or b'"layer"' not in line

    def _begin(self, event: Mapping[str, Any]) -> None:
        number, t_ns = _count(event.get("id")), _count(event.get("t_ns"))
        if number is None or t_ns is None or not isinstance(event.get("phase"), str):
            return
        if number > self._newest:
            self._newest = number
            self._open[number] = OpenSpan(
                event["phase"],
                _text(event.get("network")),
                _count(event.get("layer")),
                _text(event.get("name")),
                _count(event.get("round")),
                self._seconds(t_ns),
            )

    def _end(self, event: Mapping[str, Any]) -> EndedSpan | None:
        number, t_ns = _count(event.get("id")), _count(event.get("t_ns"))
        span = self._open.pop(number, None) if number is not None else None
        if span is None or t_ns is None:
            return None
        counts = (_count(event.get(k)) for k in ("peak_bytes", "major_faults", "minor_faults"))
        return EndedSpan(span, self._seconds(t_ns) - span.since_s, *counts)

    def _seconds(self, t_ns: int) -> float:
        return (t_ns - self._started_ns) / 1e9


def metric_of(event: Mapping[str, Any], started_ns: int) -> Metric | None:
    """Return what a note reports of training; None if nothing."""
    data, t_ns = event.get("data"), _count(event.get("t_ns"))
    if not isinstance(data, dict) or t_ns is None:
        return None
    values = {k: float(v) for k, v in data.items() if is_number(v) and k != "step"}
    if not any(word in key for key in values for word in _METRIC_WORDS):
        return None
    return Metric((t_ns - started_ns) / 1e9, _count(data.get("step")), values)


def _count(value: Any) -> int | None:
    return value if is_count(value) else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
