"""Lines of ``trials.jsonl`` as records: decoded and checked, and which of them count."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import msgspec

from edgebench.errors import ResultsError
from edgebench.records import (
    FINAL_OUTCOMES,
    Count,
    LimitSetting,
    Number,
    Positive,
    SignedCount,
    TrialRecord,
)
from edgebench.results.layout import (
    MOST_DAMAGED_LINES,
    MOST_LINE_BYTES,
    PACKED_TRIALS,
    TRIALS,
    check_schema,
    parse_line,
    whole_lines,
)
from edgebench.safe_files import open_to_read
from edgebench.text import is_plain

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
_DECODER = msgspec.json.Decoder(TrialRecord)
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
            return _checked(_DECODER.decode(line))
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


def parse_limits(data: object) -> LimitSetting | None:
    """Return the limits of a point; None: a value is not possible."""
    try:
        return msgspec.convert(data, LimitSetting)
    except msgspec.ValidationError:
        return None


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
            warnings += [_damage(one, NO_JSON) for one in torn]
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
