"""A scenario's typed keys as the form asks for them: what kind of value each takes.

Only numbers, sizes, durations, limits, shapes, parts of a network, switches and choices have a
kind here. A key of any other type (a path, a command, a free text) is none that may be asked for.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from edgebench.scenario.keys import LimitLabel, OneOf, Seconds, Size
from edgebench.scenario.limit_axes import Swap
from edgebench.workloads.training_settings import PartLabel, ShapeLabel

#: Validators that make a text more than a text.
_BY_CHECK = {
    get_args(text)[1]: kind
    for text, kind in (
        (Seconds, "duration"),
        (Size, "size"),
        (LimitLabel, "limit"),
        (ShapeLabel, "shape"),
        (PartLabel, "part"),
    )
}
_PLAIN = {bool: "switch", int: "int", float: "float"}


@dataclass(frozen=True)
class Key:
    """One key of a table, as the page asks for it.

    ``type`` is ``int``, ``float``, ``switch``, ``choice``, ``duration``, ``size``, ``limit``,
    ``swap``, ``shape``, ``part`` or ``name``; ``many``: several values make an axis. ``default`` is
    None where there is none; ``example`` is as one would write it.
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


def keys_of(model: type[BaseModel]) -> list[Key]:
    """Those of a table's keys that may be asked for."""
    made = (_key(info.alias or name, info) for name, info in model.model_fields.items())
    return [key for key in made if key is not None and key.name != "schema"]


def example_of(info: FieldInfo) -> Any:
    """The key's example as plain data; examples are written as in TOML, which JSON mostly reads."""
    text = str((info.examples or [""])[0])
    try:
        return json.loads(text)
    except ValueError:
        return text


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
        example_of(info),
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
