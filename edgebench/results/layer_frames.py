"""Frames of layers (from events), of networks (from their tables), and of samples."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterable
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from edgebench.errors import ResultsError
from edgebench.records import is_count, is_number
from edgebench.results.frames import (
    CARRIED,
    IDENTITY,
    SETTINGS,
    TEXTS,
    typed,
    typed_columns,
    with_trial,
)
from edgebench.results.rounds import round_stages
from edgebench.results.sweep_reader import Sweep, events_of, read_each
from edgebench.safe_reading import check_unpacked, open_to_read
from edgebench.spans import Span, finished_spans

#: What ``networks.json`` knows of a layer.
TABLE = ("type", "parameter_bytes", "buffer_bytes", "output_bytes", "flops", "file_bytes", "part")
_SPAN = (
    *("round", "stage", "phase", "layer", "name", "pass_number", "thread", "start_ns"),
    *("end_ns", "wall_s", "cpu_s", "peak_bytes", "usage_before_bytes", "usage_after_bytes"),
    *("swap_before_bytes", "swap_after_bytes", "major_faults", "minor_faults"),
)
LAYER_COLUMNS = (*IDENTITY, *SETTINGS, "pipeline", *CARRIED, *_SPAN, *TABLE)
NETWORK_COLUMNS = (
    *("sweep", "network", "layers", "parameter_bytes", "file_bytes", "flops", "output_bytes"),
)
#: Missing, on disk.
_MISSING = -1


def layers_frame(
    sweeps: Iterable[Sweep], trials: pd.DataFrame, warnings: list[str]
) -> pd.DataFrame:
    """One row per trial, round, network, layer, phase and pass."""
    spans: list[Span] = []
    about: dict[str, list[Any]] = {"sweep": [], "trial": [], "stage": []}
    tables: list[dict[str, Any]] = []
    sweeps = list(sweeps)
    for sweep in sweeps:
        tables += _table_rows(sweep)
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
    frame = typed_columns({**about, **own_columns})
    same = ["sweep", "trial", "round", "network", "layer", "phase"]
    frame["pass_number"] = frame.groupby(same, dropna=False).cumcount()
    table = typed(tables, ("sweep", "network", "layer", *TABLE))
    frame = frame.merge(table, on=["sweep", "network", "layer"], how="left")
    frame = with_trial(frame, trials, LAYER_COLUMNS)
    return frame.astype({"layer": "int64", "start_ns": "int64", "end_ns": "int64"})


def networks_frame(sweeps: Iterable[Sweep]) -> pd.DataFrame:
    """One row per network: its bytes, operations and number of layers."""
    rows = []
    for sweep in sweeps:
        layers = _table_rows(sweep)
        for name, network in _networks(sweep).items():
            own = [layer for layer in layers if layer["network"] == name]
            rows.append(
                {
                    "sweep": sweep.name,
                    "network": name,
                    "layers": len(own),
                    "parameter_bytes": _checked("parameter_bytes", network.get("parameter_bytes")),
                    "file_bytes": _checked("file_bytes", network.get("file_bytes")),
                    "flops": _sum(own, "flops"),
                    "output_bytes": _sum(own, "output_bytes"),
                }
            )
    return typed(rows, NETWORK_COLUMNS)


def sample_table(path: Path, name: str, missing: int = _MISSING) -> pd.DataFrame:
    """One of a trial's tables of samples: ``fast``, ``stat``, …; what is ``missing`` is NaN.

    Raises:
        ResultsError: the file is damaged.
    """
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


def _networks(sweep: Sweep) -> dict[str, dict[str, Any]]:
    networks = sweep.networks.get("networks")
    found = networks if isinstance(networks, dict) else {}
    return {name: network for name, network in found.items() if isinstance(network, dict)}


def _table_rows(sweep: Sweep) -> list[dict[str, Any]]:
    return [
        {
            "sweep": sweep.name,
            "network": name,
            "layer": layer["order"],
            **{key: _checked(key, layer.get(key)) for key in TABLE},
        }
        for name, network in _networks(sweep).items()
        for table in [network.get("table")]
        if isinstance(table, list)
        for layer in table
        if isinstance(layer, dict) and is_count(layer.get("order"))
    ]


def _checked(key: str, value: Any) -> Any:
    """Return the value; None if it has the wrong type, since the file may come from anywhere."""
    has_type = isinstance(value, str) if key in TEXTS else is_number(value)
    return value if has_type else None


def _sum(layers: list[dict[str, Any]], key: str) -> float | None:
    values: list[Any] = [layer.get(key) for layer in layers]
    return sum(values) if all(map(is_number, values)) else None
