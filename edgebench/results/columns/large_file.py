"""A large ``trials.jsonl`` read: its lines as columns, and records made when they are asked for."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO, overload

from edgebench.errors import ResultsError
from edgebench.records import TrialRecord
from edgebench.results.columns.cache import Extent, keep_table, kept_table
from edgebench.results.columns.table import NONE, ColumnTable, TableMaker
from edgebench.results.layout import MOST_LINE_BYTES, TRIALS, parse_line
from edgebench.results.record_types import decoded
from edgebench.results.trial_lines import TORN, LineReader, final_rows, read_record
from edgebench.safe_reading import open_to_read
from edgebench.text import is_plain, may_have_controls
from edgebench.walk_report import UP

#: A file of fewer bytes is read into records at once, and so many new bytes are worth keeping.
LARGE_BYTES = 8 << 20
_PIECE = 4 << 20


class RecordsOnDisk(Sequence[TrialRecord]):
    """Records each of which is read from its line whenever it is asked for.

    ``table`` has their columns. Reading one raises ResultsError if the file changed meanwhile.
    """

    def __init__(self, path: Path, table: ColumnTable) -> None:
        self.table = table
        self._path = path

    def __len__(self) -> int:
        return len(self.table)

    def of_strategies(self, own: bool) -> RecordsOnDisk:
        """Those that are strategies' own trials, or those that are not."""
        codes = self.table.texts["strategy"].codes
        rows = [row for row, code in enumerate(codes) if (code != NONE) == own]
        return RecordsOnDisk(self._path, self.table.chosen(rows))

    def upward(self, up: bool) -> RecordsOnDisk:
        """Those on a walk's way up, or all others."""
        ways = self.table.words("direction", range(len(self.table)))
        rows = [row for row, way in enumerate(ways) if (way == UP) == up]
        return RecordsOnDisk(self._path, self.table.chosen(rows))

    def __iter__(self) -> Iterator[TrialRecord]:
        return self._read(self.table.places)

    @overload
    def __getitem__(self, index: int) -> TrialRecord: ...
    @overload
    def __getitem__(self, index: slice) -> list[TrialRecord]: ...
    def __getitem__(self, index: int | slice) -> TrialRecord | list[TrialRecord]:
        if isinstance(index, slice):
            return list(self._read(self.table.places[index]))
        return next(self._read([self.table.places[index]]))

    def _read(self, places: Sequence[int]) -> Iterator[TrialRecord]:
        where = str(self._path)
        try:
            with open_to_read(self._path) as file:
                for place in places:
                    file.seek(place)
                    data = parse_line(file.readline(MOST_LINE_BYTES))
                    record = None if data is None else read_record(data, self._path)
                    if not isinstance(record, TrialRecord):
                        raise ResultsError("it changed while it was read", where=where)
                    yield record
        except OSError as error:
            raise ResultsError(f"can't read it: {error.strerror}", where=where) from None


def read_large(path: Path, warnings: list[str]) -> RecordsOnDisk:
    """The records of a ``trials.jsonl``, one a trial.

    Raises:
        OSError: it can't be read.
        ResultsError: a newer version wrote it.
    """
    table = _table(path, warnings)
    rows: Sequence[int] = range(len(table))
    if len(table.texts["trial"].words) < len(table):
        trials, outcomes = table.words("trial", rows), table.words("outcome", rows)
        rows = final_rows(zip(map(str, trials), map(str, outcomes), strict=True), warnings)
    return RecordsOnDisk(path, table.chosen(rows))


def _table(path: Path, warnings: list[str]) -> ColumnTable:
    """Every whole line: from what is kept, as far as that goes, and the rest from the file."""
    table, extent = kept_table(path) or (None, Extent(0, 0))
    with open_to_read(path) as file:
        now = os.fstat(file.fileno())
        if table is not None and extent.end == now.st_size:
            warnings += extent.damage
            return table
        before = extent.end
        reader = _TableReader(path, TableMaker(table), extent, warnings)
        extent.size, extent.mtime_ns = now.st_size, now.st_mtime_ns
        file.seek(before)
        torn = reader.read(file)
    table = reader.maker.table()
    if extent.end - before >= LARGE_BYTES:
        keep_table(path, table, extent)
    warnings += [*extent.damage, *([TORN] if torn else [])]
    return table


class _TableReader:
    """Reads lines into a table and moves the extent forward with them."""

    def __init__(self, path: Path, maker: TableMaker, extent: Extent, warnings: list[str]) -> None:
        self.maker = maker
        self._warnings = warnings
        self._extent = extent
        self._lines = LineReader(path, extent.lines, extent.damage)
        self._at = extent.end

    def read(self, file: BinaryIO) -> bool:
        """Read to the file's end; whether that is torn.

        Raises:
            ResultsError: a newer version wrote a line.
        """
        rest = b""
        while piece := file.read(_PIECE):
            piece = rest + piece
            *lines, rest = piece.split(b"\n")
            if lines:
                self._add(lines, strange=may_have_controls(piece))
            if len(rest) > MOST_LINE_BYTES:
                self._warnings.append(f"{TRIALS} is damaged from byte {self._at} on")
                return False
        return bool(self._lines.torn or rest)

    def _add(self, lines: list[bytes], strange: bool) -> None:
        """Add lines without their ends."""
        starts = list(accumulate((len(line) + 1 for line in lines), initial=self._at))
        self._at = starts.pop()
        if strange or not self._add_together(lines, starts):
            self._add_each(lines, starts)

    def _add_together(self, lines: list[bytes], starts: Sequence[int]) -> bool:
        """Add all of them fast; False, and nothing is added, if one is damaged or unusual."""
        try:
            self.maker.add([decoded(line) for line in lines], starts)
        except ValueError:
            return False
        self._lines.skip(len(lines))
        self._extent.end, self._extent.lines = self._at, self._lines.number
        return True

    def _add_each(self, lines: list[bytes], starts: Sequence[int]) -> None:
        rows, places = [], []
        for line, start in zip(lines, starts, strict=True):
            row = self._row(line)
            if row is not None:
                rows.append(row)
                places.append(start)
            if not self._lines.torn:
                self._extent.end = start + len(line) + 1
                self._extent.lines = self._lines.number
        if rows:
            self.maker.add(rows, places)

    def _row(self, line: bytes) -> Any:
        """The decoded line or its record; None if it is empty, damaged or torn."""
        if is_plain(line):
            with suppress(ValueError):
                row = decoded(line)
                self.maker.check(row)
                self._lines.skip(1)
                return row
        return self._lines.read(line)
