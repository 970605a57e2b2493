"""One trial with the readings of every memory strategy that measured it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import pandas as pd

from edgebench.errors import ResultsError
from edgebench.measures.strategies import Reading, SpanReading, TrialData, beside, in_every_trial
from edgebench.measures.strategies.process import Process
from edgebench.measures.strategies.recorded import Statistics
from edgebench.records import TrialRecord
from edgebench.results.frames import about_trial, sample_table, typed
from edgebench.results.sweep_reader import Sweep, read_each
from edgebench.spans import Span

MEMORY_COLUMNS = (
    *("sweep", "device", "point", "trial", "own_trial", "strategy", "schedule", "loader", "batch"),
    *("limit_label", "limit_bytes", "outcome", "round", "network", "phase", "layer", "name"),
    *("pass_number", "type", "parameter_bytes", "before_bytes", "peak_bytes", "after_bytes"),
    *("method", "error_bytes", "error_source"),
)


class SpanKey(NamedTuple):
    """Which span it is, the same in every trial of a point. ``time`` counts repetitions from 0."""

    phase: str
    round: int
    network: str | None
    layer: int | None
    time: int


def spans_by_key(spans: Iterable[Span]) -> dict[SpanKey, Span]:
    """Each span by its key."""
    times: Counter[tuple[Any, ...]] = Counter()
    found: dict[SpanKey, Span] = {}
    for span in sorted(spans, key=lambda span: (span.start_ns, span.id)):
        which = (span.phase, span.round, span.network, span.layer)
        found[SpanKey(*which, times[which])] = span
        times[which] += 1
    return found


@dataclass(frozen=True)
class TrialReadings:
    """One trial with its readings, strategy → reading."""

    record: TrialRecord
    seen: TrialData
    readings: dict[str, Reading]

    @cached_property
    def spans(self) -> dict[SpanKey, Span]:
        """Its spans that began and ended."""
        return spans_by_key(self.seen.spans)

    @cached_property
    def _by_id(self) -> dict[str, dict[int, SpanReading]]:
        return {
            name: {span.id: span for span in reading.spans}
            for name, reading in self.readings.items()
        }

    def span_reading(self, strategy: str, key: SpanKey) -> SpanReading | None:
        """Return what a strategy saw of a span; None if it did not."""
        span = self.spans.get(key)
        return self._by_id.get(strategy, {}).get(span.id) if span else None


def read_trial(sweep: Sweep, record: TrialRecord) -> TrialReadings:
    """Return the trial with all that can be read of it.

    Raises:
        ResultsError: it has no events, or its strategy left no figures.
    """
    seen = _seen(sweep, record)
    if record.strategy is None:
        readings = [strategy.read(seen) for strategy in in_every_trial()]
    elif record.strategy == Statistics.name:
        # The samples have more than what the harness, without numpy, made of them.
        readings = [Statistics().read(seen)]
    else:
        readings = [sweep.reading(record.trial)]
        if record.strategy == Process.name:
            # Its own kernel's marks were read at the same moments: they may be subtracted.
            kernel = [
                strategy.read(seen) for strategy in in_every_trial() if strategy.name == "kernel"
            ]
            readings += [strategy.read(seen) for strategy in beside(Process.name)] + kernel
    return TrialReadings(record, seen, {reading.strategy: reading for reading in readings})


def _seen(sweep: Sweep, record: TrialRecord) -> TrialData:
    tables = sweep.networks.get("networks") or {}
    cores = record.limits.cores or sweep.environment.get("cpu_cores_usable")
    page_bytes = sweep.environment.get("page_bytes")
    # A command has no spans; its whole trial can be reconciled all the same.
    events: list[dict[str, Any]] = []
    with suppress(ResultsError):
        events = sweep.events(record.trial)
    return TrialData(
        events=events,
        record=record,
        samples=_samples(sweep, record.trial, "fast"),
        stat=_samples(sweep, record.trial, "stat"),
        tables={name: network.get("table", []) for name, network in tables.items()},
        cpus=cores if isinstance(cores, int) else None,
        page_bytes=page_bytes if isinstance(page_bytes, int) else 4096,
    )


def _samples(sweep: Sweep, trial: str, table: str) -> dict[str, Any]:
    try:
        frame = sample_table(sweep.samples_file(trial), table)
    except ResultsError:
        return {}
    return {str(name): frame[name].to_numpy() for name in frame}


def span_of_maxrss(trial: TrialReadings) -> SpanKey | None:
    """Return the span in which the process's largest resident set was reached.

    None if not known.
    """
    marks = {
        event["id"]: event["maxrss_bytes"]
        for event in trial.seen.events
        if event.get("event") == "end" and isinstance(event.get("maxrss_bytes"), int)
    }
    highest = max(marks.values(), default=0)
    reached = [
        (span.end_ns, key) for key, span in trial.spans.items() if marks.get(span.id) == highest
    ]
    return min(reached, default=(0, None), key=lambda end: end[0])[1]


def strategies_frame(sweeps: Iterable[Sweep], warnings: list[str]) -> pd.DataFrame:
    """One row per trial, layer's span and strategy; timed trials and strategies' own.

    A trial that can't be read is left out and named in the warnings.
    """
    rows: list[dict[str, Any]] = []
    trials = ((s, record) for s in sweeps for record in (*s.records, *s.strategy_records))
    for sweep, record, trial in read_each("memory", trials, read_trial, warnings):
        about = {**about_trial(sweep, record), "own_trial": record.strategy is not None}
        rows += [{**about, **row} for row in _strategy_rows(trial)]
    frame = typed(rows, MEMORY_COLUMNS)
    return frame.astype(dict.fromkeys(("round", "layer", "pass_number"), "int64"))


def _strategy_rows(trial: TrialReadings) -> Iterator[dict[str, Any]]:
    for key, span in trial.spans.items():
        if key.layer is None:
            continue
        table = trial.seen.tables.get(key.network or "", ())
        layer = table[key.layer] if key.layer < len(table) else {}
        about = {
            "round": key.round,
            "network": key.network,
            "phase": key.phase,
            "layer": key.layer,
            "name": span.name,
            "pass_number": key.time,
            "type": layer.get("type"),
            "parameter_bytes": layer.get("parameter_bytes"),
        }
        for name, reading in trial.readings.items():
            if bytes_of := trial.span_reading(name, key):
                yield {
                    **about,
                    "strategy": name,
                    "before_bytes": bytes_of.before_bytes,
                    "peak_bytes": bytes_of.peak_bytes,
                    "after_bytes": bytes_of.after_bytes,
                    "method": reading.span_method,
                    "error_bytes": reading.span_error.size_bytes,
                    "error_source": reading.span_error.source,
                }
