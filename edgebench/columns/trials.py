"""A large ``trials.jsonl`` read: its lines as columns, and records made when they are asked for."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO, overload

from edgebench.columns.kept import Extent, keep_table, kept_table
from edgebench.columns.line import decoded
from edgebench.columns.table import NONE, Table, TableMaker
from edgebench.errors import ResultsError
from edgebench.printable import is_plain, may_obey
from edgebench.records.records import TrialRecord
from edgebench.results.layout import parse_line
from edgebench.results.lines import TORN, counted, damaged, whole_record

#: A file of fewer bytes is read into records at once, and so many new bytes are worth keeping.
LARGE_BYTES = 8 << 20
_PIECE = 4 << 20


class RecordsOnDisk(Sequence[TrialRecord]):
    """Records each of which is read from its line whenever it is asked for.

    ``table`` has their columns. Reading one raises ResultsError if the file changed meanwhile.
    """

    def __init__(self, path: Path, table: Table) -> None:
        self.table = table
        self._path = path

    def __len__(self) -> int:
        return len(self.table)

    def of_strategies(self, own: bool) -> RecordsOnDisk:
        """Those that are strategies' own trials, or those that are not."""
        codes = self.table.texts["strategy"].codes
        rows = [row for row, code in enumerate(codes) if (code != NONE) == own]
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
        try:
            with self._path.open("rb") as file:
                for place in places:
                    file.seek(place)
                    yield self._whole(file.readline())
        except OSError as error:
            raise ResultsError(f"can't read it: {error.strerror}", where=str(self._path)) from None

    def _whole(self, line: bytes) -> TrialRecord:
        record = whole_record(parse_line(line), self._path)
        if record is None:
            raise ResultsError("it changed while it was read", where=str(self._path))
        return record


def read_large(path: Path, warnings: list[str]) -> RecordsOnDisk:
    """The records of a ``trials.jsonl``, one a trial.

    Raises:
        OSError: it can't be read.
        ResultsError: a newer version wrote it.
    """
    table = _table(path, warnings)
    return RecordsOnDisk(path, table.chosen(_counted(table, warnings)))


def _counted(table: Table, warnings: list[str]) -> Sequence[int]:
    if len(table.texts["trial"].words) == len(table):
        return range(len(table))
    every = range(len(table))
    trials, outcomes = table.words("trial", every), table.words("outcome", every)
    return counted(zip(map(str, trials), map(str, outcomes), strict=True), warnings)


def _table(path: Path, warnings: list[str]) -> Table:
    """Every whole line: from what is kept, as far as that goes, and the rest from the file."""
    found = kept_table(path)
    with path.open("rb") as file:
        now = os.fstat(file.fileno())
        table, extent = found or (None, Extent(0, 0))
        if table is not None and extent.end == now.st_size:
            warnings += extent.damage
            return table
        before = extent.end
        reader = _Reader(path, TableMaker(table), extent)
        extent.size, extent.mtime_ns = now.st_size, now.st_mtime_ns
        file.seek(before)
        torn = reader.read(file)
    table = reader.maker.table()
    if extent.end - before >= LARGE_BYTES:
        keep_table(path, table, extent)
    warnings += [*extent.damage, *([TORN] if torn else [])]
    return table


class _Reader:
    """Reads lines into a table, as ``whole_records`` of ``results/lines.py`` reads them."""

    def __init__(self, path: Path, maker: TableMaker, extent: Extent) -> None:
        self.maker = maker
        self._path = path
        self._extent = extent
        self._at = extent.end
        self._number = extent.lines
        #: The numbers of lines that are no JSON and behind which none has been found yet.
        self._torn: list[int] = []

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
                self._take(lines, strange=may_obey(piece))
        return bool(self._torn or rest)

    def _take(self, lines: list[bytes], strange: bool) -> None:
        """Lines without their ends."""
        ends = list(accumulate((len(line) + 1 for line in lines), initial=self._at))
        if strange or not self._fast(lines, ends):
            self._careful(lines, ends)
        self._at = ends[-1]
        if not self._torn:
            self._extent.end, self._extent.lines = self._at, self._number

    def _whole(self, lines: int) -> None:
        """So many lines more, with nothing wrong about them: what was torn before is damage."""
        self._extent.damage += damaged(self._torn)
        self._torn = []
        self._number += lines

    def _fast(self, lines: list[bytes], ends: Sequence[int]) -> bool:
        """All together; False if there is anything about one of them."""
        try:
            self.maker.add([decoded(line) for line in lines], ends[:-1])
        except ValueError:
            return False
        self._whole(len(lines))
        return True

    def _careful(self, lines: list[bytes], ends: Sequence[int]) -> None:
        """One by one, each as far as it goes."""
        rows, places = [], []
        for line, place in zip(lines, ends, strict=False):
            row = self._one(line)
            if row is not None:
                rows.append(row)
                places.append(place)
            if not self._torn:
                self._extent.end = place + len(line) + 1
                self._extent.lines = self._number
        if rows:
            self.maker.add(rows, places)

    def _one(self, line: bytes) -> Any:
        if not is_plain(line):
            return self._strange(line)
        try:
            row = decoded(line)
            self.maker.check(row)
        except ValueError:
            return self._strange(line)
        self._whole(1)
        return row

    def _strange(self, line: bytes) -> TrialRecord | None:
        """What is whole all the same, or None: it is empty, damaged or torn."""
        data = parse_line(line) if line else None
        if data is None:
            self._number += 1
            self._torn += [self._number] if line else []
            return None
        record = whole_record(data, self._path)
        self._whole(1)
        if record is None:
            self._extent.damage += damaged([self._number])
        return record
