"""A finished trial's samples, thinned out for a screen, in little memory and without numpy.

Each table of a ``.npz`` is a structured array of int64 (see :mod:`edgebench.cgroups.sampling`). It
is read in pieces, and of each stretch of rows the lowest and highest usage are kept, so that no
peak is lost.
"""

from __future__ import annotations

import ast
import zipfile
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from edgebench.errors import ResultsError

#: How many stretches are drawn unless the page asks for fewer.
MOST_POINTS = 1000
_PIECE_ROWS = 8192
_MAGIC = b"\x93NUMPY\x01\x00"
_MOST_COLUMNS = 64


def fast_points(path: Path, points: int = MOST_POINTS) -> dict[str, Any]:
    """Usage and swap of one trial over time: ``columns``, ``rows`` and how many ``samples``.

    Rows are seconds after the first sample, lowest usage, highest usage, highest swap (None where
    the kernel doesn't tell).

    Raises:
        ResultsError: missing or damaged.
    """
    with _Table(path, "fast") as table:
        every = max(1, -(-table.rows // points))
        rows = [
            [
                (piece["t_ns"][0] - table.start_ns) / 1e9,
                min(piece["usage_bytes"]),
                max(piece["usage_bytes"]),
                _told(max(piece["swap_bytes"])),
            ]
            for piece in table.stretches(every, ("t_ns", "usage_bytes", "swap_bytes"))
        ]
        columns = ["t_s", "low_bytes", "high_bytes", "swap_bytes"]
        return {"samples": table.rows, "start_ns": table.start_ns, "columns": columns, "rows": rows}


def stat_points(path: Path, points: int = MOST_POINTS // 2) -> dict[str, Any]:
    """Usage by kind over time: the last row of each stretch, all columns that are there.

    Raises:
        ResultsError: missing or damaged.
    """
    with _Table(path, "stat") as table:
        every = max(1, -(-table.rows // points))
        names = [name for name in table.columns if name != "t_ns"]
        rows = [
            [
                (piece["t_ns"][-1] - table.start_ns) / 1e9,
                *(_told(piece[name][-1]) for name in names),
            ]
            for piece in table.stretches(every, table.columns)
        ]
        return {"start_ns": table.start_ns, "columns": ["t_s", *names], "rows": rows}


def _told(value: int) -> int | None:
    return value if value >= 0 else None


class _Table:
    """One member of the archive, open for reading in pieces."""

    def __init__(self, path: Path, name: str) -> None:
        self._path = path
        try:
            self._archive = zipfile.ZipFile(path)
            self._file: IO[bytes] = self._archive.open(f"{name}.npy")
            self.columns, self.rows = _header(self._file)
            self._first = self._file.read(8)
        except (OSError, KeyError, ValueError, SyntaxError, zipfile.BadZipFile) as error:
            raise ResultsError(f"damaged samples: {error}", where=str(path)) from None
        self.start_ns = int.from_bytes(self._first, "little", signed=True)

    def __enter__(self) -> _Table:
        return self

    def __exit__(self, *_: object) -> None:
        self._archive.close()

    def stretches(self, every: int, names: tuple[str, ...]) -> Iterator[dict[str, array[int]]]:
        """The columns of each ``every`` rows.

        Raises:
            ResultsError: the table ends early.
        """
        step = len(self.columns)
        left, carried = self.rows, self._first
        per_piece = max(1, _PIECE_ROWS // every) * every
        while left > 0:
            count = min(left, per_piece)
            data = carried + self._read(count * step * 8 - len(carried))
            carried, left = b"", left - count
            values = array("q")
            values.frombytes(data)
            for at in range(0, count, every):
                piece = values[at * step : (at + every) * step]
                yield {name: piece[self.columns.index(name) :: step] for name in names}

    def _read(self, length: int) -> bytes:
        try:
            data = self._file.read(length)
        except (OSError, EOFError, ValueError, zipfile.BadZipFile) as error:
            raise ResultsError(f"damaged samples: {error}", where=str(self._path)) from None
        if len(data) < length:
            raise ResultsError("damaged samples: they end early", where=str(self._path))
        return data


def _header(file: IO[bytes]) -> tuple[tuple[str, ...], int]:
    """Columns and number of rows (numpy.lib.format, version 1.0)."""
    if file.read(8) != _MAGIC:
        raise ValueError("no table")
    text = file.read(int.from_bytes(file.read(2), "little")).decode("latin-1")
    head = ast.literal_eval(text)
    columns = tuple(name for name, kind in head["descr"] if kind == "<i8")
    whole = columns and len(columns) == len(head["descr"]) <= _MOST_COLUMNS
    if not whole or "t_ns" not in columns or head["fortran_order"]:
        raise ValueError("no table of samples")
    return columns, int(head["shape"][0])
