"""The results folder's layout, and how each of its files is written and read whole.

docs/reference/results.md is the contract for every file and key. This module knows names and bytes
only; :mod:`edgebench.results.folder` writes a sweep with it, :mod:`edgebench.results.results` reads
one.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from edgebench.errors import ResultsError
from edgebench.records import SCHEMA
from edgebench.safe_files import open_file, open_to_read, read_file
from edgebench.text import is_plain, safe_json

TRIALS = "trials.jsonl"
#: The same of a finished sweep that is kept: packed by ``gzip``.
PACKED_TRIALS = f"{TRIALS}.gz"
SCENARIO = "scenario.toml"
RESOLVED = "resolved.json"
ENVIRONMENT = "environment.json"
NETWORKS = "networks.json"
COMPLETE = "complete.json"
SAMPLES = "samples"
EVENTS = "events"
LOGS = "logs"
READINGS = "readings"
LIVE = "live.json"
#: The answer of a search for remedies.
ADVICE = "advice.json"
_DECODER = msgspec.json.Decoder()
NEWER_REMEDY = "read it with the edgebench that made it, or a newer one: pip install -U edgebench"
LOCKED_REMEDY = "wait until that sweep ends, or stop it; see how far it is with: edgebench show"
DAMAGED_REMEDY = "move this folder away; then start the scenario again: edgebench run"
#: No line of ``trials.jsonl`` is longer: a file with a longer one is damaged from there on.
MOST_LINE_BYTES = 32 << 20
#: A file with more damaged lines is read no further: a packed one may hold a thousand million.
MOST_DAMAGED_LINES = 1000
_PIECE = 4 << 20
_LOCK_TRIES = 20
_LOCK_PAUSE_S = 0.05


class NewerResultsError(ResultsError):
    """A newer version wrote this; what it means isn't known here."""


def json_bytes(data: dict[str, Any]) -> bytes:
    """Return a JSON file's bytes, with the schema version in it."""
    return (json.dumps({"schema": SCHEMA} | data | {"schema": SCHEMA}, indent=1) + "\n").encode()


def read_json(path: Path) -> dict[str, Any]:
    """One of the folder's JSON files.

    Raises:
        ResultsError: missing, damaged, or written by a newer version.
    """
    try:
        data = parse_line(read_file(path))
    except OSError as error:
        raise ResultsError(f"can't read {path.name}: {error.strerror}", where=str(path)) from None
    if data is None:
        raise ResultsError(f"{path.name} is damaged", where=str(path), remedy=DAMAGED_REMEDY)
    check_schema(data.get("schema"), path)
    return data


def check_schema(schema: object, path: Path) -> None:
    """Refuse what a newer version wrote; what an older one wrote is read.

    Raises:
        ResultsError: a newer schema, or none.
    """
    if not isinstance(schema, int):
        raise ResultsError(
            f"{path.name} has no schema version", where=str(path), remedy=DAMAGED_REMEDY
        )
    if schema > SCHEMA:
        raise NewerResultsError(
            f"{path.name} has schema {schema}; this edgebench reads up to {SCHEMA}",
            where=str(path),
            remedy=NEWER_REMEDY,
        )


def trials_file(folder: Path) -> Path | None:
    """Return the file of a results folder's records, as it is written or packed; None: no results.

    A file that is written comes first: its sweep goes on.
    """
    files = (folder / TRIALS, folder / PACKED_TRIALS)
    return next((file for file in files if file.is_file()), None)


def whole_length(data: bytes) -> int:
    """How many bytes of ``trials.jsonl`` are whole lines; the rest is a torn tail.

    A power cut may also leave a last line of zeros: a last line that is no JSON is torn too.
    """
    end = data.rfind(b"\n") + 1
    while end:
        start = data.rfind(b"\n", 0, end - 1) + 1
        if parse_line(data[start:end]) is not None:
            break
        end = start
    return end


def whole_lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield the whole lines of ``trials.jsonl`` from here on, some MiB at a time."""
    rest = b""
    while len(rest) <= MOST_LINE_BYTES and (piece := file.read(_PIECE)):
        rest += piece
        end = rest.rfind(b"\n") + 1
        if end:
            yield rest[:end]
            rest = rest[end:]


def parse_line(line: bytes) -> dict[str, Any] | None:
    """Return the object in one line, its texts safe to print; None if the line is damaged."""
    data: Any = None
    if is_plain(line):
        # Several times as fast; the other reads a little more, as NaN.
        with contextlib.suppress(msgspec.MsgspecError):
            data = msgspec.json.decode(line)
            return data if isinstance(data, dict) else None
    with contextlib.suppress(ValueError):
        data = safe_json(line)
    return data if isinstance(data, dict) else None


def most_values_in(lines: bytes | bytearray) -> int:
    """How many values of JSON are in the lines at most; the objects of short lines count more."""
    return 4 * lines.count(b"\n") + lines.count(b",") + lines.count(b"{") + lines.count(b"[")


def parse_objects(data: bytes) -> list[dict[str, Any]]:
    """Return the objects of all lines; damaged ones are left out."""
    if is_plain(data):
        # All at once, which is faster; if one is damaged, line by line.
        with contextlib.suppress(msgspec.MsgspecError):
            found = _DECODER.decode_lines(data)
            if len(found) == data.count(b"\n") + (not data.endswith(b"\n")):
                return [one for one in found if isinstance(one, dict)]
    parsed = (parse_line(line) for line in data.split(b"\n") if line)
    return [one for one in parsed if one is not None]


def is_being_written(path: Path) -> bool:
    """Whether a sweep is writing to this folder now."""
    try:
        with open_to_read(Path(path) / TRIALS) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def open_locked(path: Path, flags: int = 0) -> int:
    """Open for appending, as the one process that writes; the lock goes with the descriptor.

    Raises:
        ResultsError: another process has it.
        UnsafePathError: it is no file of its own.
        OSError: it can't be opened.
    """
    descriptor = open_file(path, os.O_RDWR | os.O_APPEND | flags, 0o644)
    try:
        _lock(descriptor, path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _lock(descriptor: int, path: Path) -> None:
    # A reader asking is_being_written holds the lock for a moment, so one refusal is no answer.
    for _ in range(_LOCK_TRIES):
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        time.sleep(_LOCK_PAUSE_S)
    raise ResultsError(
        "another sweep is writing to this folder", where=str(path.parent), remedy=LOCKED_REMEDY
    )
