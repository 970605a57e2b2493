"""The frame of trials, made from the sweeps' columns: no row of it is ever a record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from edgebench.records import LimitSetting
from edgebench.results.columns import NUMBERS, PARTS, Texts
from edgebench.results.columns import TEXTS as TEXTS_OF_LINES
from edgebench.results.frames import LIMITS, ROUND_TIMES, TEXTS, TRIAL_COLUMNS, TRUTHS
from edgebench.results.sweep_reader import Sweep, settings_columns
from edgebench.results.workload_key import WorkloadKey, workloads_of

#: The texts that stand in the frame as they are.
_AS_THEY_ARE = set(TEXTS_OF_LINES) - {"settings", "limits", "doubts", "ended_in"}


@dataclass(frozen=True)
class Choice:
    """A column of few values: each row's code says which; a row without any has -1."""

    codes: NDArray[np.int32]
    values: Sequence[Any] | NDArray[Any]

    @classmethod
    def of(cls, texts: Texts, make: Callable[[Any], Any] | None = None) -> Choice:
        """Return a column of texts or other values; ``make`` says what each of them comes to."""
        words = list(map(make, texts.words)) if make else texts.words
        return cls(np.array(texts.codes, dtype=np.int32), words)

    @classmethod
    def constant(cls, value: Any, rows: int) -> Choice:
        """Return the same in all rows."""
        return cls(np.zeros(rows, dtype=np.int32), [value])

    @cached_property
    def used(self) -> list[Any]:
        """The values that a row has, but for None."""
        there = np.bincount(self.codes + 1, minlength=len(self.values) + 1)[1:]
        pairs = zip(self.values, there, strict=True)
        return [value for value, count in pairs if count and value is not None]

    def taken(self, dtype: str) -> NDArray[Any]:
        """Each row's value; NaN, for a time NaT, where there is none."""
        # With the unit of its column, as numpy wants it.
        nothing = np.array("NaT", dtype)[()] if dtype.startswith("datetime") else np.nan
        # The last one is for the code -1.
        values = [nothing if value is None else value for value in (*self.values, None)]
        return np.fromiter(values, dtype=dtype, count=len(values))[self.codes]


#: What every trial has. A setting of only some kinds of workload may be missing, whatever its name.
_COUNTS = {"block", "repeat"}
_UTC: dict[str, Any] = {"utc": True, "errors": "coerce", "format": "ISO8601"}
Column: TypeAlias = "Choice | NDArray[np.float64]"


#: A frame of fewer rows is copied at no cost that anybody notices.
_MANY_ROWS = 100_000


def trials_frame(sweeps: Sequence[Sweep]) -> pd.DataFrame:
    """One row a trial."""
    sources = [_Source(sweep) for sweep in sweeps]
    extra = sorted({name for one in sources for name in one.names()} - set(TRIAL_COLUMNS))
    joiner = _Joiner(sum(len(sweep.records) for sweep in sweeps))
    made = {
        name: joiner.joined(name, [one.column(name) for one in sources])
        for name in (*TRIAL_COLUMNS, *extra)
    }
    # Before pandas 3 two columns that share their bytes would change together.
    frame = pd.DataFrame(made, copy=int(pd.__version__.partition(".")[0]) < 3)
    # The median of the unlimited trials of the same sweep and settings, whatever they are.
    keys = [one.programs() for one in sources]
    of_sweep = np.repeat(np.arange(len(keys)), [len(key) for key in keys])
    of_workload = np.concatenate([np.empty(0, np.int64), *keys])
    demands = frame["demand_bytes"].groupby([of_sweep, of_workload])
    frame["workload_demand_bytes"] = demands.transform("median")
    # In one block: pandas warns who adds to a hundred. Columns of many rows go on sharing bytes.
    return frame.copy() if len(frame) < _MANY_ROWS else frame


class _Source:
    """The columns of one sweep's trials."""

    def __init__(self, sweep: Sweep) -> None:
        self._sweep = sweep
        self._table = sweep.columns
        self._settings = Choice.of(self._table.texts["settings"])
        self._limits = Choice.of(self._table.texts["limits"])

    @cached_property
    def _set(self) -> list[dict[str, Any]]:
        """Each of the settings as plain columns."""
        return [settings_columns(one) for one in self._settings.values]

    def names(self) -> set[str]:
        """Return the columns that not all sweeps have."""
        used = Choice(self._settings.codes, self._set).used
        noise = (name for name in self._table.numbers if name.startswith("noise_"))
        return {name for one in used for name in one} | set(noise)

    def column(self, name: str) -> Column:
        """One column of the frame."""
        rows = len(self._table)
        if name in ("sweep", "device"):
            return Choice.constant(getattr(self._sweep, "name" if name == "sweep" else name), rows)
        if name in LIMITS:
            values = [getattr(one, LIMITS[name]) for one in self._limits.values]
            return Choice(self._limits.codes, values)
        if name == "workload":
            return self._workloads()
        if name == "page_cache":
            return self._page_cache()
        if name == "doubts":
            return self._doubts()
        if name == "started_utc":
            return self._started()
        if name in _AS_THEY_ARE:
            return Choice.of(self._table.texts[name])
        kept = ROUND_TIMES.get(name, name)
        if kept in self._table.numbers:
            return np.array(self._table.numbers[kept], dtype=np.float64)
        if name in {*NUMBERS, *ROUND_TIMES} or name.startswith(tuple(f"{of}_" for of in PARTS)):
            return Choice(np.full(rows, -1, dtype=np.int32), [])
        return Choice(self._settings.codes, [one.get(name) for one in self._set])

    def programs(self) -> NDArray[np.int64]:
        """Return the same number for trials that ran the same, whatever their limits."""
        nothing = LimitSetting()
        keys = [WorkloadKey.of(one, nothing) for one in self._settings.values]
        numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
        return np.array([numbers[key] for key in keys], dtype=np.int64)[self._settings.codes]

    def _workloads(self) -> Choice:
        codes, keys = workloads_of(self._table)
        return Choice(np.array(codes, dtype=np.int32), [key.id for key in keys])

    def _started(self) -> Choice:
        texts = self._table.texts["started_utc"]
        utc = pd.to_datetime(pd.Series(texts.words, dtype="object"), **_UTC).dt.tz_localize(None)
        times = utc.astype("datetime64[us]").to_numpy()
        return Choice(np.array(texts.codes, dtype=np.int32), times)

    def _page_cache(self) -> Choice:
        """As it was found; else as it was asked for."""
        own = Choice.of(self._table.texts["page_cache"], lambda word: word or None)
        asked = [one.get("page_cache") for one in self._set]
        found = np.array([value is not None for value in (*own.values, None)])[own.codes]
        codes = np.where(found, own.codes, self._settings.codes + np.int32(len(own.values)))
        return Choice(codes.astype(np.int32), [*own.values, *asked])

    def _doubts(self) -> Choice:
        """Their kinds."""
        listed = Choice.of(
            self._table.texts["doubts"],
            lambda doubts: "; ".join(dict.fromkeys(doubt.kind for doubt in doubts)),
        )
        return Choice(listed.codes + np.int32(1), ["", *listed.values])


class _Joiner:
    """Puts the sweeps' pieces of each column one after the other.

    Columns in which nothing is known share the bytes that say so: there are many of them.
    """

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._nothing: dict[str, pd.Series[Any]] = {}

    def joined(self, name: str, pieces: Sequence[Column]) -> pd.Series[Any]:
        """Return a column, of its one type."""
        if name == "started_utc":
            return pd.Series(_stacked(pieces, "datetime64[us]")).dt.tz_localize("UTC")
        if name in TEXTS or _any(pieces, str):
            return self._filled("object", pieces)
        if name in TRUTHS or _any(pieces, bool):
            numbers = _stacked(pieces, "float64")
            return pd.Series(pd.arrays.BooleanArray(numbers == 1, np.isnan(numbers)))
        if name in _COUNTS:
            return pd.Series(_stacked(pieces, "float64").astype("int64"), copy=False)
        return self._filled("float64", pieces)

    def _filled(self, dtype: str, pieces: Sequence[Column]) -> pd.Series[Any]:
        if any(not isinstance(piece, Choice) or piece.used for piece in pieces):
            return pd.Series(_stacked(pieces, dtype), dtype=dtype, copy=False)
        if dtype not in self._nothing:
            self._nothing[dtype] = pd.Series(np.full(self._rows, np.nan, dtype), dtype=dtype)
        return self._nothing[dtype]


def _any(pieces: Sequence[Column], kind: type) -> bool:
    choices = (piece for piece in pieces if isinstance(piece, Choice))
    return any(isinstance(value, kind) for one in choices for value in one.used)


def _stacked(pieces: Sequence[Column], dtype: str) -> NDArray[Any]:
    arrays = [
        one.taken(dtype) if isinstance(one, Choice) else one.astype(dtype, copy=False)
        for one in pieces
    ]
    return arrays[0] if len(arrays) == 1 else np.concatenate([np.empty(0, dtype), *arrays])
