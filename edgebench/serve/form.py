"""The form: made from a scenario's typed keys, and read back as a scenario.

What the form does not show can't be sent either. It shows numbers, sizes, durations, limits,
switches and choices; so no path, no command and no free text gets through.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from edgebench.faults import faults_of
from edgebench.keys import LimitLabel, OneOf, Seconds, Size
from edgebench.limit_axes import Swap
from edgebench.preview import preview, this_machine
from edgebench.scenario import SCHEMA, Scenario, scenario_of

#: Validators that make a text more than a text.
_BY_CHECK = {get_args(Seconds)[1]: "duration", get_args(Size)[1]: "size"}
_BY_CHECK |= {get_args(LimitLabel)[1]: "limit"}
_PLAIN = {bool: "switch", int: "int", float: "float"}
_WORKLOAD, _TOP = "workload", "scenario"


@dataclass(frozen=True)
class Key:
    """One key of a table, as the page asks for it.

    ``type`` is ``int``, ``float``, ``switch``, ``choice``, ``duration``, ``size``, ``limit``,
    ``swap`` or ``name``; ``many``: several values make an axis. ``default`` is None where there
    is none; ``example`` is as one would write it.
    """

    name: str
    type: str
    many: bool
    required: bool
    default: Any
    example: Any
    choices: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None


def tables() -> dict[str, Any]:
    """Every table of a scenario with its keys; of the workload, one table a kind."""
    fields = Scenario.model_fields
    kinds = {_kind_of(model): _keys(model) for model in _models(fields[_WORKLOAD])}
    inner = {
        info.alias or name: _keys(model)
        for name, info in fields.items()
        if name != _WORKLOAD
        for model in _models(info)
        if _can_be_filled_in(model)
    }
    shown = {
        kind: [asdict(key) for key in keys if key.name != "kind"]
        for kind, keys in kinds.items()
        if all(key.name != "command" for key in keys) and kind != "command"
    }
    rest = {_TOP: _keys(Scenario), **inner}
    return {
        _WORKLOAD: shown,
        **{name: [asdict(key) for key in keys] for name, keys in rest.items()},
    }


def check(sent: Mapping[str, Any]) -> dict[str, Any]:
    """What the page sent, as ``edgebench check`` sees it: a scenario, or every fault.

    With faults ``{"faults": [{"key", "says"}]}``; else ``name``, ``scenario`` (TOML), ``points``,
    ``trials``, ``longest_s`` and ``warnings``.
    """
    if strange := _strange_keys(sent, tables()):
        return {"faults": [{"key": key, "says": "is no key of the form"} for key in strange]}
    data = {"schema": SCHEMA, **sent.get(_TOP, {})}
    data |= {name: table for name, table in sent.items() if name != _TOP and table}
    try:
        scenario = scenario_of(data)
    except ValidationError as error:
        faults = faults_of(error, Scenario, data, "")
        return {"faults": [{"key": fault.key, "says": fault.says} for fault in faults]}
    seen = preview(scenario, this_machine())
    return {
        "name": scenario.name,
        "scenario": scenario.text,
        "points": len(seen.points),
        "trials": seen.trials + seen.own_trials,
        "longest_s": seen.longest_s,
        "warnings": list(seen.warnings),
    }


def _strange_keys(sent: Mapping[str, Any], known: Mapping[str, Any]) -> list[str]:
    """What was sent that the form does not have."""
    strange = []
    for table, values in sent.items():
        if table not in known or not isinstance(values, Mapping):
            strange.append(table)
            continue
        shown = known[table]
        if table == _WORKLOAD:
            kind = values.get("kind")
            if not isinstance(kind, str) or kind not in shown:
                strange.append(f"{_WORKLOAD}.kind")
                continue
            shown = [{"name": "kind"}, *shown[kind]]
        names = {key["name"] for key in shown}
        # A table or a list of them is no value of any key that the form has.
        bad = [key for key in values if key not in names or not _is_plain(values[key])]
        strange += [f"{table}.{key}" for key in bad]
    return strange


def _is_plain(value: Any) -> bool:
    values = value if isinstance(value, list) else [value]
    return all(isinstance(one, str | int | float) for one in values)


def _models(info: FieldInfo) -> list[type[BaseModel]]:
    """The tables that a key may hold."""
    found: list[type[BaseModel]] = []

    def look(annotation: Any) -> None:
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            found.append(annotation)
        for part in get_args(annotation):
            look(part)

    look(info.annotation)
    return found


def _can_be_filled_in(model: type[BaseModel]) -> bool:
    """Whether the form can ask for all that the table needs."""
    asked = {key.name for key in _keys(model)}
    needed = {info.alias or n for n, info in model.model_fields.items() if info.is_required()}
    return needed <= asked


def _kind_of(model: type[BaseModel]) -> str:
    return str(_example(model.model_fields["kind"]))


def _keys(model: type[BaseModel]) -> list[Key]:
    made = (_key(info.alias or name, info) for name, info in model.model_fields.items())
    return [key for key in made if key is not None and key.name != "schema"]


def _key(name: str, info: FieldInfo) -> Key | None:
    """The key as the page asks for it; None if it is none that may be asked for."""
    seen = _Seen()
    if not seen.look(info.annotation, info.metadata):
        return None
    return Key(
        name,
        seen.type,
        seen.many,
        info.is_required(),
        _default(info, seen.type),
        _example(info),
        tuple(seen.choices),
        seen.least,
        seen.most,
    )


class _Seen:
    """What an annotation tells of a key's values."""

    def __init__(self) -> None:
        self.type = ""
        self.many = False
        self.choices: Sequence[str] = ()
        self.least: float | None = None
        self.most: float | None = None

    def look(self, annotation: Any, metadata: Iterable[Any] = ()) -> bool:
        """Take in an annotation; whether it is one that the form has."""
        for one in metadata:
            self._note(one)
        origin, parts = get_origin(annotation), get_args(annotation)
        if origin is Annotated:
            return self.look(parts[0], parts[1:])
        if origin in (Union, UnionType):
            return any(self.look(part) for part in parts if part is not type(None))
        if origin is tuple:
            self.many = True
            return self.look(parts[0])
        if annotation is Swap:
            self.type = "swap"
        self.type = self.type or _PLAIN.get(annotation, "")
        return bool(self.type)

    def _note(self, one: Any) -> None:
        if isinstance(one, FieldInfo):
            for inner in one.metadata:
                self._note(inner)
        elif isinstance(getattr(one, "func", None), OneOf):
            self.type, self.choices = "choice", one.func.choices
        elif getattr(one, "pattern", None):
            self.type = "name"
        else:
            self.type = _check_type(one) or self.type
            self.least = getattr(one, "ge", self.least)
            self.most = getattr(one, "le", self.most)


def _check_type(one: Any) -> str:
    try:
        return _BY_CHECK.get(one, "")
    except TypeError:
        return ""


def _default(info: FieldInfo, kind: str) -> Any:
    value = info.default
    if value is PydanticUndefined or value is None:
        return None
    if isinstance(value, Swap):
        return value.kind[0]
    values = value if isinstance(value, tuple) else (value,)
    plain = [f"{one:g}s" if kind == "duration" else one for one in values]
    return plain if isinstance(value, tuple) else plain[0]


def _example(info: FieldInfo) -> Any:
    """The key's example as plain data; examples are written as in TOML, which JSON mostly reads."""
    text = str((info.examples or [""])[0])
    try:
        return json.loads(text)
    except ValueError:
        return text
