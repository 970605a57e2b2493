"""The column table saved beside its ``trials.jsonl``, for the next reader.

A zip of plain arrays. It records which bytes of the file it was made from: a file of the same
size and time counts as unchanged, otherwise a checksum decides; only newer lines are read.
A cache that is damaged, of another version or of another byte order is ignored.
"""

from __future__ import annotations

import contextlib
import os
import sys
import zipfile
import zlib
from array import array
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import msgspec

from edgebench import __version__
from edgebench.errors import UnsafePathError
from edgebench.records import LARGEST
from edgebench.results.columns.table import NONE, TEXTS, ColumnTable, Texts, check_text
from edgebench.results.layout import COLUMNS
from edgebench.safe_files import replaced
from edgebench.safe_reading import open_to_read
from edgebench.text import safe_json

#: Raise it when a column's meaning changes.
_VERSION = 12
_PIECE = 4 << 20
#: Two changes within this time may have the same modification time.
_SETTLED_NS = 2_000_000_000
_HEADER = "header"
_Size = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]


@dataclass
class Extent:
    """How far a file was read: to the byte ``end``, after ``lines`` lines, a torn tail excluded.

    ``damage`` has the warnings about these lines. ``size`` and ``mtime_ns`` are the file's when
    reading began.
    """

    size: _Size
    mtime_ns: _Size
    end: _Size = 0
    lines: _Size = 0
    damage: list[str] = field(default_factory=list)


@dataclass
class _Header:
    made_by: list[str | int]
    extent: Extent
    digest: int
    lines: int
    numbers: list[str]


def kept_table(trials: Path) -> tuple[ColumnTable, Extent] | None:
    """The cached table and how much of the file it covers; None without a usable one."""
    cache = trials.with_name(COLUMNS)
    try:
        with open_to_read(cache) as packed, zipfile.ZipFile(packed) as kept:
            # Nobody else's is believed, and edgebench compresses nothing: what is compressed could
            # unpack to more than fits in memory.
            own = os.fstat(packed.fileno()).st_uid == os.geteuid()
            if not own or any(one.compress_type for one in kept.infolist()):
                return None
            header = msgspec.convert(safe_json(kept.read(_HEADER)), _Header)
            with open_to_read(trials) as file:
                if header.made_by != _made_by() or not _is_unchanged(file, header, cache):
                    return None
            return _read(kept, header), header.extent
    # The last three are what the zip module raises for damaged bytes.
    except (
        *(OSError, ValueError, LookupError, zipfile.BadZipFile, msgspec.MsgspecError),
        *(EOFError, NotImplementedError, RuntimeError),
    ):
        return None


def keep_table(trials: Path, table: ColumnTable, extent: Extent) -> None:
    """Save the table for the next reader, whole or not at all; a failure is ignored.

    Only in a folder of the user's own: root leaves nothing in somebody else's.
    """
    folder = trials.parent
    with contextlib.suppress(OSError, UnsafePathError):
        if folder.stat().st_uid != os.geteuid():
            return
        with replaced(folder / COLUMNS) as file, zipfile.ZipFile(file, "w") as kept:
            with open_to_read(trials) as read:
                digest = _digest(read, extent.end)
            _write(kept, table, _Header(_made_by(), extent, digest, len(table), [*table.numbers]))


def _made_by() -> list[str | int]:
    return [_VERSION, __version__, sys.byteorder, array("i").itemsize]


def _is_unchanged(file: BinaryIO, header: _Header, cache: Path) -> bool:
    """Whether what was read of the file is still the same: by size and time, else by checksum."""
    now, extent = os.fstat(file.fileno()), header.extent
    same = (now.st_size, now.st_mtime_ns) == (extent.size, extent.mtime_ns)
    if same and now.st_mtime_ns + _SETTLED_NS < cache.stat().st_mtime_ns:
        return True
    return _digest(file, extent.end) == header.digest


def _digest(file: BinaryIO, end: int) -> int:
    """A checksum against accidents; whoever may change the file may change the cache too.

    Raises:
        ValueError: the file is shorter.
    """
    digest = 0
    for at in range(0, end, _PIECE):
        piece = file.read(min(_PIECE, end - at))
        if not piece:
            raise ValueError(end)
        digest = zlib.crc32(piece, digest)
    return digest


def _write(kept: zipfile.ZipFile, table: ColumnTable, header: _Header) -> None:
    kept.writestr(_HEADER, msgspec.json.encode(header))
    kept.writestr("places", memoryview(table.places).cast("B"))
    for name, column in table.numbers.items():
        kept.writestr(f"number/{name}", memoryview(column).cast("B"))
    for name, texts in table.texts.items():
        kept.writestr(f"codes/{name}", memoryview(texts.codes).cast("B"))
        kept.writestr(f"words/{name}", msgspec.json.encode(texts.words))


def _read(kept: zipfile.ZipFile, header: _Header) -> ColumnTable:
    """The table.

    Raises:
        ValueError: it is damaged.
    """
    lines = header.lines
    texts = {}
    for name in TEXTS:
        codes = _array(kept, f"codes/{name}", "i", lines)
        words = msgspec.convert(safe_json(kept.read(f"words/{name}")), list[str])
        if lines and not (min(codes) >= NONE and max(codes) < len(words) == len({*words})):
            raise ValueError(name)
        for word in words:
            check_text(name, word)
        texts[name] = Texts(codes, words)
    return ColumnTable(
        _array(kept, "places", "q", lines),
        {name: _array(kept, f"number/{name}", "d", lines) for name in header.numbers},
        texts,
    )


def _array(kept: zipfile.ZipFile, name: str, kind: str, lines: int) -> array[Any]:
    made = array(kind)
    made.frombytes(kept.read(name))
    if len(made) != lines:
        raise ValueError(name)
    return made
