"""The files of a results folder: their names, how each is read and written whole, and records.

docs/reference/results.md is the contract for every file and key. :mod:`edgebench.results.folder`
writes a sweep with this, :mod:`edgebench.results.sweep_reader` reads one. The second half decodes
and checks the lines of ``trials.jsonl``, and tells which of them count.
"""

from __future__ import annotations

import contextlib
import fcntl
import gzip
import json
import os
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import msgspec

from edgebench.errors import ResultsError
from edgebench.records import (
    FINAL_OUTCOMES,
    SCHEMA,
    Count,
    Number,
    Positive,
    SignedCount,
    TrialRecord,
)
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
            values = _DECODER.decode_lines(data)
            if len(values) == data.count(b"\n") + (not data.endswith(b"\n")):
                return [value for value in values if isinstance(value, dict)]
    parsed = (parse_line(line) for line in data.split(b"\n") if line)
    return [value for value in parsed if value is not None]


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
        # A reader asking is_being_written holds the lock for a moment, so one refusal is no answer.
        for _ in range(_LOCK_TRIES):
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return descriptor
            time.sleep(_LOCK_PAUSE_S)
        what = "another sweep is writing to this folder"
        raise ResultsError(what, where=str(path.parent), remedy=LOCKED_REMEDY)
    except BaseException:
        os.close(descriptor)
        raise


TORN = f"{TRIALS}: the last line is torn; its trial is not counted"
#: A packed file that holds more is made to fill the memory.
MOST_PACKED_BYTES = 256 << 20
#: The fault of a line that can't be parsed.
NO_JSON = "it is no JSON object"
_Words = Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
#: Settings → their type; None is always possible, and other settings are of any type.
SETTING_TYPES: Mapping[str, Any] = {
    "kind": str,
    "networks": _Words,
    "command": _Words,
    "env": dict[str, str],
    "learning_rate": Number,
    "stop_after_s": Number,
    "seed": SignedCount,
    **dict.fromkeys(("reset", "files"), tuple[str, ...]),
    **dict.fromkeys(("checkpoint", "references"), dict[str, Any]),
    **dict.fromkeys(("warm", "depth", "width", "draw", "background_bytes"), Count),
    **dict.fromkeys(
        (
            *("batch", "image", "rounds", "workers", "threads", "interop_threads", "prompt"),
            *("new_tokens", "kernel", "stack", "channels", "passes", "accumulation", "classes"),
            *("examples", "steps", "epochs"),
        ),
        Positive,
    ),
    **dict.fromkeys(
        (
            *("schedule", "loader", "engine", "gc", "page_cache", "precision", "accelerator"),
            *("network", "data", "optimizer", "activation", "trained", "start", "framework"),
            *("shape", "loss", "optimization", "remedy", "cwd"),
        ),
        str,
    ),
    **dict.fromkeys(
        (
            *("backward", "compiled", "checkpointing", "per_layer", "evaluate", "arena", "xla"),
            *("memory_pattern", "prepacking", "xnnpack", "onednn", "malloc_trim", "huge_pages"),
        ),
        bool,
    ),
}
#: Kind of workload → settings that each of its trials has.
_NEEDED: dict[str, tuple[str, ...]] = {
    "inference": ("networks",),
    "convolution": ("kernel", "stack", "batch", "channels", "image", "backward", "warm"),
    "training": ("network", "batch"),
    "command": ("command",),
}


def _settings_type(needed: tuple[str, ...] = ()) -> Any:
    always = ("kind", *needed)
    optional: list[Any] = [(k, t | None, None) for k, t in SETTING_TYPES.items() if k not in always]
    fields = [*((key, SETTING_TYPES[key]) for key in always), *optional]
    return msgspec.defstruct("Settings", fields, kw_only=True, gc=False)


class _SystemMemory(msgspec.Struct, gc=False):
    interval_s: Number
    mean_bytes: Number | None
    samples: Count


_SETTINGS_OF: dict[object, Any] = {kind: _settings_type(needed) for kind, needed in _NEEDED.items()}
_OTHER_SETTINGS = _settings_type()
#: Notes that are read → their type; the workload writes them.
_NOTES: dict[str, Any] = {
    "held_bytes": dict[str, Count],
    "system_memory": list[_SystemMemory],
    "loss": float,
    "test_accuracy": float,
}
_RECORDS = msgspec.json.Decoder(TrialRecord)
_encode = msgspec.json.Encoder().encode


def parse_record(line: bytes, path: Path) -> TrialRecord | str:
    """Return the record in a line of ``trials.jsonl``, or what is wrong with it, as ``key: what``.

    Keys may be missing where they have a default; unknown keys are left out, and notes of a wrong
    type.

    Raises:
        ResultsError: a newer version wrote it.
    """
    try:
        if is_plain(line):
            return _checked(_RECORDS.decode(line))
    except msgspec.MsgspecError:
        # Read again below: it may hold what only the slower parser reads, or is damaged.
        pass
    data = parse_line(line)
    if data is None:
        return NO_JSON
    if isinstance(data.get("schema"), int):
        check_schema(data["schema"], path)
    return convert_record(data)


def convert_record(data: Mapping[str, Any]) -> TrialRecord | str:
    """As :func:`parse_record`, of a line that is parsed."""
    try:
        return _checked(msgspec.convert(data, TrialRecord))
    except msgspec.ValidationError as error:
        return _fault(error)


def _checked(record: TrialRecord) -> TrialRecord:
    if fault := _settings_fault(_encode(record.settings)):
        raise msgspec.ValidationError(f"settings: {fault}")
    notes = record.notes
    for key in _NOTES.keys() & notes.keys():
        try:
            msgspec.convert(notes[key], _NOTES[key])
        except msgspec.ValidationError:
            del notes[key]
    return record


@lru_cache(maxsize=4096)
def _settings_fault(settings: bytes) -> str | None:
    """Return what is wrong with settings in JSON.

    None: nothing. All trials of a point have the same.
    """
    kind = msgspec.json.decode(settings).get("kind")
    known = _SETTINGS_OF.get(kind) if isinstance(kind, str) else None
    try:
        msgspec.json.decode(settings, type=known or _OTHER_SETTINGS)
    except msgspec.ValidationError as error:
        return _fault(error)
    return None


def _fault(error: msgspec.ValidationError) -> str:
    what, _, place = str(error).partition(" - at `$")
    place = place.strip("`").removeprefix(".")
    return f"{place}: {what}" if place else what


def read_records(path: Path, warnings: list[str]) -> list[TrialRecord]:
    """Return the records of ``trials.jsonl``, one a trial: its final one, else its latest.

    Args:
        path: the file, or one that ``gzip`` packed.
        warnings: gets a sentence for each damaged line, and each trial with several records.

    Raises:
        ResultsError: unreadable, or a newer version's.
    """
    try:
        with open_to_read(path) as file:
            packed = path.name == PACKED_TRIALS
            lines: BinaryIO = gzip.GzipFile(fileobj=file) if packed else file  # type: ignore[assignment]
            return _final(_whole(lines, path, warnings), warnings)
    except (OSError, EOFError, zlib.error) as error:
        why = getattr(error, "strerror", None) or error
        raise ResultsError(f"can't read it: {why}", where=str(path)) from None


def _whole(file: BinaryIO, path: Path, warnings: list[str]) -> list[TrialRecord]:
    """Return the records of whole lines. What isn't whole at the end is torn, not damaged."""
    records: list[TrialRecord] = []
    #: Lines that are no JSON, with none behind them yet: torn if they are the last ones.
    torn: list[int] = []
    number = end = damaged = 0
    for lines in whole_lines(file):
        end += len(lines)
        if path.name == PACKED_TRIALS and end > MOST_PACKED_BYTES:
            raise ResultsError(f"{PACKED_TRIALS} holds too much", where=str(path))
        for line in lines.split(b"\n")[:-1]:
            number += 1
            record = parse_record(line, path) if line else NO_JSON
            damaged += isinstance(record, str)
            if damaged > MOST_DAMAGED_LINES:
                warnings.append(f"{TRIALS} is damaged from line {number} on")
                return records
            if record is NO_JSON:
                torn += [number] if line else []
                continue
            warnings += [_damage(line_number, NO_JSON) for line_number in torn]
            torn = []
            if isinstance(record, str):
                warnings.append(_damage(number, record))
            else:
                records.append(record)
    rest = file.tell() - end
    if rest > MOST_LINE_BYTES:
        warnings.append(f"{TRIALS} is damaged from byte {end} on")
    elif torn or rest:
        warnings.append(TORN)
    return records


def _damage(number: int, what: str) -> str:
    return f"{TRIALS} line {number} is damaged and is left out: {what}"


def _final(records: Iterable[TrialRecord], warnings: list[str]) -> list[TrialRecord]:
    """Return the records that count, one a trial; ``records`` are in the order they were made."""
    latest: dict[str, TrialRecord] = {}
    for record in records:
        trial, known = record.trial, latest.get(record.trial)
        if known is not None and known.outcome in FINAL_OUTCOMES:
            warnings.append(f"trial {trial} is recorded twice; the first counts")
            continue
        if known is not None:
            warnings.append(f"trial {trial} was made again: it ended as {known.outcome}")
        latest[trial] = record
    return list(latest.values())
