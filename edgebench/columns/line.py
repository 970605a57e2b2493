"""One line of ``trials.jsonl`` decoded fast: what :mod:`.table` needs of it, checked.

What is decoded here is what :func:`edgebench.results.lines.whole_record` makes of the line, key by
key. Whatever is refused here, for damage or only for looking strange, is then read the careful way,
so refusing costs time and nothing else.
"""

from __future__ import annotations

from dataclasses import MISSING, Field, fields
from typing import Annotated, Any, get_args

import msgspec

from edgebench.printable import safe_json
from edgebench.records.records import (
    SCHEMA,
    LimitSetting,
    Outcome,
    PhaseSum,
    SamplerReport,
    TrialRecord,
    limit_setting,
)
from edgebench.records.shapes import LARGEST, is_whole_limit

_Count = Annotated[int, msgspec.Meta(ge=-LARGEST, le=LARGEST)]
#: The bounds are just outside what fits 64 bits.
_Number = Annotated[float, msgspec.Meta(gt=-(2.0**63), lt=2.0**63)]
#: A field's annotation → how its value is decoded. ``Raw`` is JSON that is not looked into; an
#: empty tuple costs nothing where an empty list does.
_KINDS: dict[str, Any] = {
    "int": _Count,
    "float": _Number,
    "str": str,
    "bool": bool,
    "Outcome": Outcome,
    "list[str]": tuple[str, ...],
    "dict[str, Any]": dict[str, msgspec.Raw],
    "dict[str, str]": dict[str, msgspec.Raw],
    "LimitSetting": msgspec.Raw,
}
_OWN: dict[str, Any] = {
    "schema": Annotated[int, msgspec.Meta(le=SCHEMA)],
    "settings": msgspec.Raw,
    "noise": dict[str, Any],
    "passes": Annotated[int, msgspec.Meta(ge=1, le=LARGEST)],
}


def _struct(kind: Any) -> Any:
    """A record's class as msgspec has it: same fields, same defaults, their values checked."""
    made = msgspec.defstruct(kind.__name__, map(_field, fields(kind)), kw_only=True, gc=False)
    _KINDS[kind.__name__] = made
    _KINDS[f"list[{kind.__name__}]"] = tuple[made, ...]  # type: ignore[valid-type]
    return made


def _field(field: Field[Any]) -> Any:
    words, _, optional = str(field.type).partition(" | ")
    kind = _OWN.get(field.name) or _KINDS[words]
    kind = kind | None if optional else kind
    if field.default is not MISSING:
        return field.name, kind, field.default
    if field.default_factory is not MISSING:
        return field.name, kind, msgspec.field(default_factory=field.default_factory)
    return field.name, kind


for _kind in (PhaseSum, SamplerReport):
    _struct(_kind)
_decode = msgspec.json.Decoder(_struct(TrialRecord)).decode


def decoded(line: bytes) -> Any:
    """A plain line (:func:`~edgebench.printable.is_plain`) as an object with a record's attributes.

    ``settings`` and ``limits`` are ``msgspec.Raw``: JSON, which :func:`is_table` and
    :func:`is_limit` have to look at.

    Raises:
        ValueError: it has to be read the careful way.
    """
    try:
        return _decode(line)
    except msgspec.MsgspecError as error:
        raise ValueError from error


def is_table(text: str) -> bool:
    """Whether the JSON is a table, nested no deeper than ours."""
    try:
        return isinstance(safe_json(text.encode()), dict)
    except ValueError:
        return False


def is_limit(text: str) -> bool:
    """Whether the JSON is what limits are."""
    return is_table(text) and is_whole_limit(limits_in(text))


def is_list(text: str) -> bool:
    """Whether the JSON is a list of texts."""
    try:
        data = safe_json(text.encode())
    except ValueError:
        return False
    return isinstance(data, list) and all(isinstance(one, str) for one in data)


def is_outcome(text: str) -> bool:
    """Whether it is one of the outcomes."""
    return text in get_args(Outcome)


def limits_in(text: str) -> LimitSetting:
    """The limits in JSON that is a table."""
    return limit_setting(safe_json(text.encode()))
