"""A finished trial's samples as points for a screen, read in little memory and without numpy.

Each table of a ``.npz`` is a structured array of int64
(see :mod:`edgebench.cgroups.sampler_process`). It is read in pieces, and of each
stretch of rows the lowest and highest usage are kept, so that no peak is lost.
"""

from __future__ import annotations

import ast
import contextlib
import zipfile
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from edgebench.errors import ResultsError
from edgebench.safe_reading import check_unpacked, open_to_read

#: How many stretches are drawn.
_MOST_POINTS = 1000
_PIECE_ROWS = 8192
_MAGIC = b"\x93NUMPY\x01\x00"
_MOST_COLUMNS = 64


def fast_points(path: Path, points: int = _MOST_POINTS) -> dict[str, Any]:
    """Usage and swap of one trial over time: ``columns``, ``rows`` and how many ``samples``.

    Rows are seconds after the first sample, lowest usage, highest usage, highest swap (None where
    the kernel doesn't tell).

    Raises:
        ResultsError: missing or damaged.
    """
    with _table(path, "fast") as table:
        rows = [
            [
                stretch["t_ns"][0],
                min(stretch["usage_bytes"]),
                max(stretch["usage_bytes"]),
                max(stretch["swap_bytes"]),
            ]
            for stretch in table.stretches(points, ("t_ns", "usage_bytes", "swap_bytes"))
        ]
    columns = ["t_s", "low_bytes", "high_bytes", "swap_bytes"]
    start_ns = rows[0][0] if rows else 0
    timed = _timed(rows, start_ns)
    return {"samples": table.rows, "start_ns": start_ns, "columns": columns, "rows": timed}


def stat_points(path: Path, start_ns: int, points: int = _MOST_POINTS // 2) -> dict[str, Any]:
    """Usage by kind over time: the last row of each stretch, all columns; seconds after the start.

    Raises:
        ResultsError: missing or damaged.
    """
    with _table(path, "stat") as table:
        names = ("t_ns", *(name for name in table.columns if name != "t_ns"))
        rows = [[one[name][-1] for name in names] for one in table.stretches(points, names)]
    return {"columns": ["t_s", *names[1:]], "rows": _timed(rows, start_ns)}


def _timed(rows: list[list[int]], start_ns: int) -> list[list[float | None]]:
    """Rows with seconds for nanoseconds, and None for what the kernel doesn't tell."""
    return [
        [(t_ns - start_ns) / 1e9, *(value if value >= 0 else None for value in rest)]
        for t_ns, *rest in rows
    ]


@dataclass(frozen=True)
class _Table:
    """One member of the archive, open for reading in pieces."""

    file: IO[bytes]
    columns: tuple[str, ...]
    rows: int

    def stretches(self, points: int, names: tuple[str, ...]) -> Iterator[dict[str, array[int]]]:
        """The columns of these names in each of at most so many stretches of rows."""
        step, every = len(self.columns), max(1, -(-self.rows // points))
        most = max(1, _PIECE_ROWS // every) * every
        for first in range(0, self.rows, most):
            count = min(most, self.rows - first)
            data = self.file.read(count * step * 8)
            if len(data) < count * step * 8:
                raise ValueError("they end early")
            values = array("q", data)
            for at in range(0, count, every):
                piece = values[at * step : (at + every) * step]
                yield {name: piece[self.columns.index(name) :: step] for name in names}


@contextlib.contextmanager
def _table(path: Path, name: str) -> Iterator[_Table]:
    try:
        with (
            open_to_read(path) as packed,
            zipfile.ZipFile(packed) as archive,
            archive.open(f"{name}.npy") as file,
        ):
            check_unpacked(archive.getinfo(f"{name}.npy"))
            yield _Table(file, *_header(file))
    except (OSError, EOFError, KeyError, ValueError, SyntaxError, zipfile.BadZipFile) as error:
        raise ResultsError(f"damaged samples: {error}", where=str(path)) from None


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
