"""The types of a trial's record for msgspec, which checks records and decodes lines fast.

They are made from the dataclasses of :mod:`edgebench.records`: same fields, same defaults, and
numbers that fit 64 bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from typing import Annotated, Any

import msgspec

from edgebench.accelerator_report import AcceleratorReport
from edgebench.kills import has_killed_child
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
from edgebench.storage_speed import StorageReport
from edgebench.walk_report import Direction, WalkReport
from edgebench.working_set import WorkingSet

Count = Annotated[int, msgspec.Meta(ge=-LARGEST, le=LARGEST)]
#: The bounds are just outside what fits 64 bits.
Number = Annotated[float, msgspec.Meta(gt=-(2.0**63), lt=2.0**63)]
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
_RULES: dict[str, Any] = {
    "schema": Annotated[int, msgspec.Meta(le=SCHEMA)],
    "passes": Annotated[int, msgspec.Meta(ge=1, le=LARGEST)],
}
#: What is not looked into when a line is decoded; :func:`check_text` checks the first two.
_UNREAD: dict[str, Any] = {
    **dict.fromkeys(("settings", "limits"), msgspec.Raw),
    **dict.fromkeys(("gnu_time", "notes", "missing"), dict[str, msgspec.Raw]),
}


def _struct(kind: Any, rules: Mapping[str, Any] = _RULES) -> Any:
    made = [_field(field, rules) for field in fields(kind)]
    return msgspec.defstruct(kind.__name__, made, kw_only=True, gc=False)


def _field(field: Field[Any], rules: Mapping[str, Any]) -> Any:
    words, _, optional = str(field.type).partition(" | ")
    kind = rules.get(field.name) or _TYPES[words]
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
_decode = msgspec.json.Decoder(_struct(TrialRecord, {**_RULES, **_UNREAD})).decode


def is_whole(data: object) -> bool:
    """Whether these are a record's keys and values; keys may be missing or added."""
    return _has_type(data, _Record)


def is_whole_limit(data: object) -> bool:
    """Whether these are the limits of a point."""
    return _has_type(data, _TYPES["LimitSetting"])


def _has_type(data: object, kind: Any) -> bool:
    try:
        msgspec.convert(data, kind)
    except msgspec.ValidationError:
        return False
    return True


def decoded(line: bytes) -> Any:
    """A plain line (:func:`~edgebench.text.is_plain`) as an object with a record's attributes.

    ``settings`` and ``limits`` are ``msgspec.Raw``: unchecked JSON.

    Raises:
        ValueError: it has to be read by :class:`~edgebench.results.trial_lines.LineReader`,
            because it is damaged or unusual.
    """
    try:
        row = _decode(line)
    except msgspec.MsgspecError as error:
        raise ValueError from error
    if has_killed_child(row):
        raise ValueError("its outcome is another one today")
    return row
