"""The types of a trial's record for msgspec, which checks records.

They are made from the dataclasses of :mod:`edgebench.records`: same fields, same defaults, and
numbers that fit 64 bits and are possible. Settings have the keys of their kind.
"""

from __future__ import annotations

from dataclasses import MISSING, Field, fields
from typing import Annotated, Any

import msgspec

from edgebench.accelerator_report import AcceleratorReport
from edgebench.boards.storage import StorageReport
from edgebench.records import (
    LARGEST,
    SCHEMA,
    KillReport,
    LimitSetting,
    Outcome,
    PhaseSum,
    SamplerReport,
    TrialRecord,
    Watching,
)
from edgebench.sensor_report import EnergyReport, SensorReport
from edgebench.walk_report import Direction, WalkReport
from edgebench.working_set import WorkingSet

Count = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]
#: A column of the table of trials that goes through floating point, which is exact so far.
_Turn = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Positive = Annotated[int, msgspec.Meta(ge=1, le=LARGEST)]
#: The bound is just outside what fits 64 bits.
Number = Annotated[float, msgspec.Meta(ge=0, lt=2.0**63)]
_SignedCount = Annotated[int, msgspec.Meta(ge=-LARGEST, le=LARGEST)]
_SignedNumber = Annotated[float, msgspec.Meta(gt=-(2.0**63), lt=2.0**63)]
_Words = Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
#: A field's annotation → the type of its value. An empty tuple costs nothing, an empty list does.
_TYPES: dict[str, Any] = {
    "int": Count,
    "float": Number,
    "str": str,
    "bool": bool,
    "Outcome": Outcome,
    "Direction": Direction,
    "list[float]": tuple[Number, ...],
    "list[str]": tuple[str, ...],
    "list[dict[str, Any]]": tuple[dict[str, Any], ...],
    "dict[str, Any]": dict[str, Any],
    "dict[str, str]": dict[str, Any],
}
#: Fields whose type their annotation doesn't say. Energy is what a baseline was taken from.
_RULES: dict[str, Any] = {
    "schema": Annotated[int, msgspec.Meta(ge=1, le=SCHEMA)],
    "passes": Positive,
    "block": _Turn,
    "repeat": _Turn,
    # Before the first it is -1.
    "round": Annotated[int, msgspec.Meta(ge=-1, le=LARGEST)],
    "exit_code": _SignedCount,
    "cpu_quota": Annotated[float, msgspec.Meta(gt=0, lt=2.0**63)],
    **dict.fromkeys(("limit_bytes", "memory_bytes", "accelerator_bytes", "cores"), Positive),
    **dict.fromkeys(("j", "round_j", "execution_j", "temperature_max_c"), _SignedNumber),
}
#: Settings → their type; None is always possible, and other settings are of any type.
_SETTINGS: dict[str, Any] = {
    "networks": _Words,
    "command": _Words,
    "env": dict[str, str],
    "learning_rate": Number,
    "stop_after_s": Number,
    "seed": _SignedCount,
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
            *("shape", "loss", "page_advice", "optimization", "remedy", "unit", "cwd"),
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


def _struct(kind: Any) -> Any:
    made = [_field(field) for field in fields(kind)]
    return msgspec.defstruct(kind.__name__, made, kw_only=True, gc=False)


def _field(field: Field[Any]) -> Any:
    words, _, optional = str(field.type).partition(" | ")
    kind = _RULES.get(field.name) or _TYPES[words]
    kind = kind | None if optional else kind
    if field.default is not MISSING:
        return field.name, kind, field.default
    if field.default_factory is not MISSING:
        return field.name, kind, msgspec.field(default_factory=field.default_factory)
    return field.name, kind


_REPORTS = (
    *(SamplerReport, Watching, KillReport, StorageReport, WalkReport),
    *(EnergyReport, SensorReport, AcceleratorReport, WorkingSet),
)
for _kind in (LimitSetting, PhaseSum, *_REPORTS):
    _TYPES[_kind.__name__] = _made = _struct(_kind)
    _TYPES[f"list[{_kind.__name__}]"] = tuple[_made, ...]  # type: ignore[valid-type]
_Record = _struct(TrialRecord)


def _settings(needed: tuple[str, ...]) -> Any:
    optional: list[Any] = [
        (key, kind | None, None) for key, kind in _SETTINGS.items() if key not in needed
    ]
    made: list[Any] = [("kind", str), *((key, _SETTINGS[key]) for key in needed), *optional]
    return msgspec.defstruct("Settings", made, kw_only=True, gc=False)


_SystemMemory: Any = msgspec.defstruct(
    "SystemMemory", [("interval_s", Number), ("mean_bytes", Number | None), ("samples", Count)]
)
#: Notes that are read → their type; the workload writes them.
_NOTES: dict[str, Any] = {
    "held_bytes": dict[str, Count],
    "system_memory": list[_SystemMemory],
    **dict.fromkeys(("loss", "test_accuracy"), float),
}
_SETTINGS_OF: dict[str | None, Any] = {kind: _settings(needed) for kind, needed in _NEEDED.items()}
_OTHER_SETTINGS = _settings(())


def find_fault(data: dict[str, Any]) -> str | None:
    """What is wrong with a record's keys and values, as ``key: what``; None: nothing.

    Keys may be missing where they have a default, and keys may be added.
    """
    return _fault(data, _Record) or _settings_fault(data["settings"])


def sound_notes(notes: dict[str, Any]) -> dict[str, Any]:
    """The notes without those that are not what is read there."""
    return {k: v for k, v in notes.items() if k not in _NOTES or _fault(v, _NOTES[k]) is None}


def is_whole_limit(data: object) -> bool:
    """Whether these are the limits of a point."""
    return _fault(data, _TYPES["LimitSetting"]) is None


def _settings_fault(data: Any) -> str | None:
    kind = data.get("kind") if isinstance(data, dict) else None
    fault = _fault(data, _SETTINGS_OF.get(kind if isinstance(kind, str) else None, _OTHER_SETTINGS))
    return f"settings: {fault}" if fault else None


def _fault(data: object, kind: Any) -> str | None:
    try:
        msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        what, _, place = str(error).partition(" - at `$")
        place = place.strip("`").removeprefix(".")
        return f"{place}: {what}" if place else what
    return None
