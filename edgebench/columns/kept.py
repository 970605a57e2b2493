"""A table kept beside its ``trials.jsonl``, for the next reader; nothing depends on it.

A zip of plain arrays. It says which bytes of the file it was made of: those of the same size and
time are taken to be the same, otherwise their digest decides, and lines that came since are read.
What is damaged, of another version or of another machine's byte order is as if it were not there.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import sys
import zipfile
import zlib
from array import array
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from edgebench import __version__
from edgebench.columns.table import GOOD, NONE, TEXTS, Table, Texts
from edgebench.printable import safe_json
from edgebench.records.shapes import is_count
from edgebench.results.layout import COLUMNS, PART

#: Raise it when a column's meaning changes.
_VERSION = 1
_PIECE = 4 << 20
#: Two changes so close to each other may have the same time.
_SETTLED_NS = 2_000_000_000
_ABOUT = "about"


@dataclass
class Extent:
    """How far a file was read: the end of its last line that is no torn one, so many lines on.

    ``damage`` is what was said of the lines before it. ``size`` and ``mtime_ns`` are the file's
    when reading began.
    """

    size: int
    mtime_ns: int
    end: int = 0
    lines: int = 0
    damage: list[str] = field(default_factory=list)


def kept_table(trials: Path) -> tuple[Table, Extent] | None:
    """The table kept beside the file, and of how much of the file; None without a sound one."""
    try:
        with zipfile.ZipFile(trials.with_name(COLUMNS)) as kept, trials.open("rb") as file:
            about = safe_json(kept.read(_ABOUT))
            extent = _checked(Extent(**about["extent"]))
            kept_ns = trials.with_name(COLUMNS).stat().st_mtime_ns
            as_then = _as_then(file, extent, kept_ns)
            if about["made_by"] != _made_by():
                return None
            if not as_then and _digest(file, extent.end) != about["digest"]:
                return None
            return _read(kept, about), extent
    except (OSError, ValueError, LookupError, TypeError, AttributeError, zipfile.BadZipFile):
        return None
    # The zip module's own way to say that bytes are not what they should be.
    except (EOFError, NotImplementedError, RuntimeError):
        return None


def keep_table(trials: Path, table: Table, extent: Extent) -> None:
    """Keep it for the next reader, whole or not at all; where that can't be, nothing is lost.

    Only where the folder is one's own: root reading somebody's results leaves nothing there.
    """
    folder = trials.parent
    part = folder / f".{COLUMNS}.{secrets.token_hex(4)}{PART}"
    with contextlib.suppress(OSError):
        if folder.stat().st_uid != os.geteuid():
            return
        try:
            with part.open("xb") as file, zipfile.ZipFile(file, "w") as kept:
                with trials.open("rb") as read:
                    digest = _digest(read, extent.end)
                _write(kept, table, extent, digest)
            part.replace(folder / COLUMNS)
        finally:
            part.unlink(missing_ok=True)


def _made_by() -> list[Any]:
    return [_VERSION, __version__, sys.byteorder, array("i").itemsize]


def _checked(extent: Extent) -> Extent:
    """The extent itself.

    Raises:
        ValueError: it is none.
    """
    _check_texts(extent.damage)
    numbers = (extent.size, extent.mtime_ns, extent.end, extent.lines)
    if not all(is_count(number) and number >= 0 for number in numbers):
        raise ValueError(numbers)
    return extent


def _as_then(file: BinaryIO, extent: Extent, kept_ns: int) -> bool:
    """Whether size and time say that nothing changed since; what is just written may again be."""
    now = os.fstat(file.fileno())
    same = (now.st_size, now.st_mtime_ns) == (extent.size, extent.mtime_ns)
    return same and now.st_mtime_ns + _SETTLED_NS < kept_ns


def _digest(file: BinaryIO, end: int) -> int:
    """Tells what changed by accident, which is enough: who may change the file may change this.

    Raises:
        ValueError: the file ends before.
    """
    digest = 0
    for at in range(0, end, _PIECE):
        piece = file.read(min(_PIECE, end - at))
        if not piece:
            raise ValueError(end)
        digest = zlib.crc32(piece, digest)
    return digest


def _write(kept: zipfile.ZipFile, table: Table, extent: Extent, digest: int) -> None:
    about = {
        "made_by": _made_by(),
        "extent": asdict(extent),
        "digest": digest,
        "lines": len(table),
        "numbers": list(table.numbers),
    }
    kept.writestr(_ABOUT, json.dumps(about))
    kept.writestr("places", memoryview(table.places).cast("B"))
    for name, column in table.numbers.items():
        kept.writestr(f"number/{name}", memoryview(column).cast("B"))
    for name, texts in table.texts.items():
        kept.writestr(f"codes/{name}", memoryview(texts.codes).cast("B"))
        kept.writestr(f"words/{name}", json.dumps(texts.words))


def _read(kept: zipfile.ZipFile, about: dict[str, Any]) -> Table:
    """The table of a sound zip.

    Raises:
        ValueError: it isn't one.
    """
    lines = about["lines"]
    return Table(
        _array(kept, "places", "q", lines),
        {name: _array(kept, f"number/{name}", "d", lines) for name in about["numbers"]},
        dict(_texts(kept, lines)),
    )


def _texts(kept: zipfile.ZipFile, lines: int) -> Iterator[tuple[str, Texts]]:
    for name in TEXTS:
        codes, words = _array(kept, f"codes/{name}", "i", lines), _words(kept, name)
        if lines and not (min(codes) >= NONE and max(codes) < len(words)):
            raise ValueError(name)
        yield name, Texts(codes, words)


def _words(kept: zipfile.ZipFile, name: str) -> list[str]:
    words = safe_json(kept.read(f"words/{name}"))
    _check_texts(words)
    if name in GOOD and not all(map(GOOD[name], words)):
        raise ValueError(name)
    return list(words)


def _check_texts(words: Any) -> None:
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise ValueError(words)


def _array(kept: zipfile.ZipFile, name: str, kind: str, lines: int) -> array[Any]:
    made = array(kind)
    # Packed bytes could stand for more than any memory holds; ours never are.
    if kept.getinfo(name).compress_type != zipfile.ZIP_STORED:
        raise ValueError(name)
    made.frombytes(kept.read(name))
    if len(made) != lines:
        raise ValueError(name)
    return made
