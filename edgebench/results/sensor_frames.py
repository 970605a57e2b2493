"""Frames of the machine's sensors: one trial's readings, and energy by trial and round."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pandas as pd

from edgebench.measures.machine.sensors.energy import SensorSeries, Window, energy_of
from edgebench.measures.machine.sensors.sensor import ENERGY, MISSING, POWER, QUANTITIES
from edgebench.records import TrialRecord
from edgebench.results.frames import about_trial, typed
from edgebench.results.layer_frames import sample_table
from edgebench.results.rounds import round_stages
from edgebench.results.sweep_reader import Sweep, TrialFileError, read_each
from edgebench.safe_reading import open_to_read
from edgebench.spans import finished_spans

_ABOUT = ("sweep", "device", "trial", "point", "limit_label", "limit_bytes", "outcome")
_SETTINGS = ("network", "schedule", "loader", "batch")
ENERGY_COLUMNS = (
    *(*_ABOUT, *_SETTINGS, "domain", "part", "round", "stage", "wall_s"),
    *("energy_j", "energy_error_j"),
)
#: What a row is of: the whole trial, or one of its rounds.
TRIAL, ROUND = "trial", "round"
_TABLE = "sensors"
_QUANTITIES = {quantity.stored: quantity for quantity in QUANTITIES}
_NO_ROUND = -1


def sensor_table(sweep: Sweep, trial: str) -> pd.DataFrame:
    """One trial's readings, in the units of frames; NaN where a sensor was not read.

    Raises:
        ResultsError: no such trial, damaged samples, or no sensor was read.
    """
    stored = _stored(sweep, trial)
    made = {"t_ns": stored["t_ns"]}
    for column in stored.columns.drop("t_ns"):
        name, _, unit = str(column).rpartition("_")
        quantity = _QUANTITIES.get(unit)
        if quantity is None:
            fault = f"damaged samples: a sensor in {unit!r}"
            raise TrialFileError.of(fault, trial, sweep.samples_file(trial))
        values = stored[column]
        if quantity is ENERGY and (known := values.dropna()).size:
            values = values - known.iloc[0]
        made[f"{name}_{quantity.shown}"] = values * quantity.scale
    return pd.DataFrame(made)


def energy_frame(sweeps: Iterable[Sweep], warnings: list[str]) -> pd.DataFrame:
    """One row per trial, domain and part: the whole trial, and each of its rounds.

    A trial that can't be read is left out and named in the warnings.
    """
    rows: list[dict[str, Any]] = []
    metered = ((sweep, one) for sweep in sweeps for one in sweep.records if one.energy is not None)
    for sweep, record, made in read_each("energy", metered, lambda *of: list(_rows(*of)), warnings):
        rows += [{**about_trial(sweep, record), **row} for row in made]
    return typed(rows, ENERGY_COLUMNS)


def _rows(sweep: Sweep, record: TrialRecord) -> Iterator[dict[str, Any]]:
    assert record.energy
    rounds = _rounds(sweep, record)
    stages = round_stages(record)
    # A walk has one table, that of its process.
    trial = record.walk.walk if record.walk else record.trial
    stored = _stored(sweep, trial) if rounds else None
    for domain in record.energy.domains:
        about = {"domain": str(domain.get("domain")), "round": _NO_ROUND}
        numbers = {"energy_j": domain.get("j"), "energy_error_j": domain.get("error_j")}
        yield {**about, "part": TRIAL, "wall_s": record.wall_s, **numbers}
        columns = domain.get("columns")
        if stored is None or not isinstance(columns, list) or not set(columns) <= set(stored):
            continue
        series = [_series(stored, column) for column in columns]
        for number, window in rounds.items():
            energy = energy_of(series, [window])
            yield {
                **about,
                "part": ROUND,
                "round": number,
                "stage": stages.get(number),
                "wall_s": (window[1] - window[0]) / 1e9,
                "energy_j": energy.energy_j if energy else None,
                "energy_error_j": energy.error_j if energy else None,
            }


def _rounds(sweep: Sweep, record: TrialRecord) -> dict[int, Window]:
    """From when to when each round ran; empty of a workload without rounds."""
    if not record.phases:
        return {}
    spans = finished_spans(sweep.events(record.trial))
    return {s.round: (s.start_ns, s.end_ns) for s in spans if s.phase == "round"}


def _series(stored: pd.DataFrame, column: str) -> SensorSeries:
    known = stored[["t_ns", column]].dropna()
    quantity = ENERGY if column.endswith(f"_{ENERGY.stored}") else POWER
    times: Sequence[int] = known["t_ns"].tolist()
    return SensorSeries(quantity, times, known[column].tolist())


def _stored(sweep: Sweep, trial: str) -> pd.DataFrame:
    """The readings in the units in which they are stored."""
    path = sweep.samples_file(trial)
    try:
        with open_to_read(path) as file, zipfile.ZipFile(file) as archive:
            there = f"{_TABLE}.npy" in archive.namelist()
    except (OSError, zipfile.BadZipFile) as error:
        raise TrialFileError.of(f"damaged samples: {error}", trial, path) from None
    if not there:
        raise TrialFileError.of("no sensor was read", trial, path)
    return sample_table(path, _TABLE, MISSING)
