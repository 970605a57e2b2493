"""Frames of trials, phases, layers, networks, samples, readings, training's steps, miss curves.

Identity columns are strings and ``int64``; whatever may be missing is ``float64`` with NaN (exact
up to 2**53), so that arithmetic, fits and figures need no special case.
"""

from __future__ import annotations

import math
import zipfile
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from edgebench.errors import ResultsError
from edgebench.installation import need
from edgebench.measures.strategies import Reading, SpanReading, TrialData, beside, in_every_trial
from edgebench.measures.strategies.process import Process
from edgebench.measures.strategies.recorded import Statistics
from edgebench.records import PhaseSum, TrialRecord, is_count, is_number
from edgebench.results.columns import (
    BOOLS,
    IDENTITY,
    LIMITS,
    SETTINGS,
    TEXTS,
    TRAINING,
    TrialColumns,
    trial_names,
    trial_values,
)
from edgebench.results.miss_curve import MissCurve
from edgebench.results.sweep_reader import Sweep, events_of, read_each
from edgebench.results.times import STEADY, round_stages
from edgebench.results.workload_key import settings_columns
from edgebench.safe_files import check_unpacked, open_to_read
from edgebench.spans import Span, finished_spans

if TYPE_CHECKING:
    import pandas as pd

#: Settings, limits and outcome that rows of phases and layers carry over from their trial.
CARRIED = (*LIMITS, "limit_bytes", "outcome", "saturated", "demand_bytes", "workload_demand_bytes")
_PHASE = tuple(
    name for name in PhaseSum.__struct_fields__ if name not in ("round", "network", "phase")
)
PHASE_COLUMNS = (*IDENTITY, *SETTINGS, "pipeline", *CARRIED, "round", "stage", "phase", *_PHASE)
_SPAN = (
    *("round", "stage", "phase", "layer", "name", "pass_number", "thread", "start_ns"),
    *("end_ns", "wall_s", "cpu_s", "peak_bytes", "usage_before_bytes", "usage_after_bytes"),
    *("swap_before_bytes", "swap_after_bytes", "major_faults", "minor_faults"),
)
#: What ``networks.json`` knows of a layer.
TABLE = ("type", "parameter_bytes", "buffer_bytes", "output_bytes", "flops", "file_bytes", "part")
LAYER_COLUMNS = (*IDENTITY, *SETTINGS, "pipeline", *CARRIED, *_SPAN, *TABLE)
NETWORK_COLUMNS = (
    *("sweep", "network", "layers", "parameter_bytes", "file_bytes", "flops", "output_bytes"),
)
STEP_COLUMNS = (
    *("sweep", "device", "trial", "point", "limit_label", "limit_bytes", "outcome", "network"),
    *("batch", "image", *TRAINING, "step", "loss", "accuracy"),
)
_MISS_POINT = (
    *("limit_bytes", "direction", "round_bytes", "spread_bytes", "out_bytes", "faults", "rounds"),
    *("visits", "confirmed", "agree"),
)
_MISS_CURVE = (
    *("plateau_bytes", "knee_bytes", "knee_low_bytes", "knee_high_bytes", "unlimited_bytes"),
)
MISS_COLUMNS = (
    *("workload", "settings", *_MISS_POINT, *_MISS_CURVE, "knee_direction", "knee_missing"),
)


def trials_frame(sweeps: Sequence[Sweep]) -> pd.DataFrame:
    """One row a trial."""
    sources = [TrialColumns(sweep) for sweep in sweeps]
    columns = {name: trial_values(name, sources) for name in trial_names(sources)}
    return _typed_columns(columns, integers=("block", "repeat"))


def phases_frame(sweeps: Iterable[Sweep], trials: pd.DataFrame) -> pd.DataFrame:
    """One row per trial, round, network and phase."""
    rows: list[tuple[str, str, str | None, PhaseSum]] = []
    for sweep in sweeps:
        for record in sweep.records:
            stages = round_stages(record)
            rows += [(sweep.name, record.trial, stages.get(p.round), p) for p in record.phases]
    of_trial = {
        name: [row[at] for row in rows] for at, name in enumerate(("sweep", "trial", "stage"))
    }
    own = {name: [getattr(row[3], name) for row in rows] for name in PhaseSum.__struct_fields__}
    return _with_trial(_typed_columns({**of_trial, **own}), trials, PHASE_COLUMNS)


def layers_frame(
    sweeps: Iterable[Sweep], trials: pd.DataFrame, warnings: list[str]
) -> pd.DataFrame:
    """One row per trial, round, network, layer, phase and pass."""
    spans: list[Span] = []
    about: dict[str, list[Any]] = {"sweep": [], "trial": [], "stage": []}
    sweeps = list(sweeps)
    recorded = ((sweep, record) for sweep in sweeps for record in sweep.records)
    for sweep, record, events in read_each("layers", recorded, events_of, warnings):
        stages = round_stages(record)
        own = [span for span in finished_spans(events) if span.layer is not None]
        spans += own
        about["sweep"] += [sweep.name] * len(own)
        about["trial"] += [record.trial] * len(own)
        about["stage"] += [stages.get(span.round) for span in own]
    names = ("network", *(name for name in _SPAN if name in Span._fields))
    own_columns = {name: list(map(attrgetter(name), spans)) for name in names}
    own_columns["wall_s"] = [span.wall_s for span in spans]
    frame = _typed_columns({**about, **own_columns})
    same = ["sweep", "trial", "round", "network", "layer", "phase"]
    frame["pass_number"] = frame.groupby(same, dropna=False).cumcount()
    tables = [row for sweep in sweeps for row in _table_rows(sweep)]
    table = typed(tables, ("sweep", "network", "layer", *TABLE))
    frame = frame.merge(table, on=["sweep", "network", "layer"], how="left")
    frame = _with_trial(frame, trials, LAYER_COLUMNS)
    return frame.astype({"layer": "int64", "start_ns": "int64", "end_ns": "int64"})


def _with_trial(rows: pd.DataFrame, trials: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """Return rows with their own ``network`` beside their trial's settings, limits and outcome.

    ``pipeline`` is all of the trial's networks; a row of no network (``import``) gets that too.
    """
    carried = trials[[*IDENTITY, *SETTINGS, *CARRIED]].rename(columns={"network": "pipeline"})
    frame = rows.merge(carried, on=["sweep", "trial"], how="left", validate="many_to_one")
    frame["network"] = frame["network"].where(frame["network"].notna(), frame["pipeline"])
    return frame[list(columns)]


def answering_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of phases or layers that answer: of steady rounds, else a trial's every row."""
    steady = rows["stage"] == STEADY
    has_steady = steady.groupby([rows["sweep"], rows["trial"]]).transform("any")
    return rows[steady | ~has_steady]


def networks_frame(sweeps: Iterable[Sweep]) -> pd.DataFrame:
    """One row per network: its bytes, operations and number of layers."""
    rows = []
    for sweep in sweeps:
        layers = _table_rows(sweep)
        for name, network in sweep.networks.get("networks", {}).items():
            own = [layer for layer in layers if layer["network"] == name]
            row = {"sweep": sweep.name, "network": name, "layers": len(own)}
            for key in ("parameter_bytes", "file_bytes"):
                row[key] = network.get(key) if is_number(network.get(key)) else None
            for key in ("flops", "output_bytes"):
                values: list[Any] = [layer.get(key) for layer in own]
                row[key] = sum(values) if all(map(is_number, values)) else None
            rows.append(row)
    return typed(rows, NETWORK_COLUMNS)


def _table_rows(sweep: Sweep) -> list[dict[str, Any]]:
    """Return the networks' layers; the file may come from anywhere, so types are checked."""
    return [
        {
            "sweep": sweep.name,
            "network": name,
            "layer": layer["order"],
            **{
                key: value
                for key, value in ((key, layer.get(key)) for key in TABLE)
                if (isinstance(value, str) if key in TEXTS else is_number(value))
            },
        }
        for name, network in sweep.networks.get("networks", {}).items()
        for layer in network["table"]
        if is_count(layer.get("order"))
    ]


def sample_table(path: Path, name: str, missing: int = -1) -> pd.DataFrame:
    """One of a trial's tables of samples: ``fast``, ``stat``, …; what is ``missing`` is NaN.

    Raises:
        ResultsError: the file is damaged.
    """
    need("pandas")
    import numpy as np
    import pandas as pd

    try:
        # Opened here: numpy leaves a damaged file open.
        with open_to_read(path) as file, np.load(file, allow_pickle=False) as tables:
            check_unpacked(tables.zip.getinfo(f"{name}.npy"))
            table = tables[name]
        frame = pd.DataFrame({column: table[column] for column in table.dtype.names})
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        EOFError,
        # Of a zip file's and an array's own parsers.
        MemoryError,
        NotImplementedError,
        SyntaxError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        raise ResultsError(f"damaged samples: {error}", where=str(path)) from None
    values = frame.drop(columns="t_ns").astype("float64")
    return frame[["t_ns"]].join(values.mask(values == missing))


def steps_frame(sweeps: Iterable[Sweep], warnings: list[str]) -> pd.DataFrame:
    """One row per timed trial and step of training, also of trials that were killed in one.

    A trial whose events can't be read is left out and named in the warnings.
    """
    rows: list[dict[str, Any]] = []
    trained = (
        (sweep, record)
        for sweep in sweeps
        for record in sweep.records
        if record.settings.get("kind") == "training"
    )
    for sweep, record, events in read_each("steps", trained, events_of, warnings):
        about = about_trial(sweep, record)
        for data in (event.get("data") for event in events):
            if isinstance(data, dict) and isinstance(data.get("step"), int) and "loss" in data:
                step = {key: data.get(key) for key in ("step", "loss", "accuracy")}
                rows.append({**about, **step})
    return typed(rows, STEP_COLUMNS).astype({"step": "int64"})


def about_trial(sweep: Sweep, record: TrialRecord) -> dict[str, Any]:
    """Return a trial's settings, identity, limit and outcome, as columns of its rows."""
    return {
        **settings_columns(record.settings),
        "sweep": sweep.name,
        "device": sweep.device,
        "trial": record.trial,
        "point": record.point,
        "limit_label": record.limits.label,
        "limit_bytes": record.limit_bytes,
        "outcome": record.outcome,
    }


def misses_frame(curves: Iterable[MissCurve]) -> pd.DataFrame:
    """One row per point; a curve without points has none."""
    need("pandas")
    import pandas as pd

    rows = []
    for curve in curves:
        low, high = curve.knee_between or (None, None)
        about = {
            "workload": curve.workload.id,
            "settings": curve.workload.settings,
            "plateau_bytes": curve.plateau_bytes,
            "knee_bytes": curve.knee_bytes,
            "knee_low_bytes": low,
            "knee_high_bytes": high,
            "unlimited_bytes": curve.unlimited_bytes,
            "knee_direction": curve.direction,
            "knee_missing": curve.missing,
        }
        rows += [
            {**about, **{name: getattr(point, name) for name in _MISS_POINT}}
            for point in curve.points
        ]
    frame = pd.DataFrame(rows, columns=list(MISS_COLUMNS))
    counts = ("limit_bytes", *_MISS_POINT[2:-2], *_MISS_CURVE)
    frame = frame.astype(dict.fromkeys(counts, "float64"))
    return frame.astype({"confirmed": "bool", "agree": "bool"})


def typed(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> pd.DataFrame:
    """Return rows as a frame with exactly these columns, each of its one type, also when empty."""
    return _typed_columns({name: [row.get(name) for row in rows] for name in columns})


def _typed_columns(
    columns: Mapping[str, list[Any]],
    integers: Collection[str] = ("block", "repeat", "round", "passes"),
) -> pd.DataFrame:
    """Make a frame of columns; ``integers`` are never missing."""
    need("pandas")
    import pandas as pd

    series = {}
    for name, values in columns.items():
        kinds = set(map(type, values)) - {type(None)}
        if name == "started_utc":
            texts = pd.Series(values, dtype="object")
            utc = pd.to_datetime(texts, utc=True, errors="coerce", format="ISO8601")
            series[name] = utc.astype("datetime64[us, UTC]")
        elif name in integers:
            series[name] = pd.Series(values, dtype="int64")
        elif name in TEXTS or any(issubclass(kind, str) for kind in kinds):
            filled = [math.nan if value is None else value for value in values]
            series[name] = pd.Series(filled, dtype="object")
        else:
            is_bool = kinds == {bool} or name in BOOLS
            series[name] = pd.Series(values, dtype="boolean" if is_bool else "float64")
    return pd.DataFrame(series).reset_index(drop=True)


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


@dataclass(frozen=True)
class TrialReadings:
    """One trial with its readings, strategy → reading."""

    record: TrialRecord
    seen: TrialData
    readings: dict[str, Reading]

    @cached_property
    def spans(self) -> dict[SpanKey, Span]:
        """Its spans that began and ended."""
        times: Counter[tuple[Any, ...]] = Counter()
        spans: dict[SpanKey, Span] = {}
        for span in sorted(self.seen.spans, key=lambda span: (span.start_ns, span.id)):
            which = (span.phase, span.round, span.network, span.layer)
            spans[SpanKey(*which, times[which])] = span
            times[which] += 1
        return spans

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
