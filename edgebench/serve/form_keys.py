"""A scenario's typed keys as the form shows them: what type of value each takes.

Only numbers, sizes, durations, limits, speeds of storage, shapes, parts of a network, switches and
choices have a type here. A key of any other type (a path, a command, a free text) is not shown.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from edgebench.boards.board import board_names
from edgebench.scenario.keys import LimitLabel, OneOf, PartLabel, Seconds, ShapeLabel, Size
from edgebench.scenario.limits import BoardName, StorageLabel, SwapKeys

#: Types of text, by the validator in their annotation.
_BY_CHECK = {
    get_args(text)[1]: kind
    for text, kind in (
        (Seconds, "duration"),
        (Size, "size"),
        (LimitLabel, "limit"),
        (StorageLabel, "storage"),
        (ShapeLabel, "shape"),
        (PartLabel, "part"),
    )
}
#: Also takes a path; the form has names alone (:func:`edgebench.serve.form.check_form`).
_BOARD = get_args(BoardName)[1]
_PLAIN = {bool: "switch", int: "int", float: "float"}


@dataclass
class Key:
    """One key of a table, as the page shows it.

    ``type`` is ``int``, ``float``, ``switch``, ``choice``, ``duration``, ``size``, ``limit``,
    ``swap``, ``storage``, ``shape``, ``part`` or ``name``; ``many``: several values make an axis.
    ``default`` is None where there is none; ``example`` is as one would write it.
    """

    name: str
    type: str = ""
    many: bool = False
    required: bool = False
    default: Any = None
    example: Any = None
    choices: Sequence[str] = ()
    least: float | None = None
    most: float | None = None

    def read(self, annotation: Any, metadata: Iterable[Any] = ()) -> bool:
        """Take the type from an annotation; whether the form has a control for it."""
        for one in metadata:
            self._read_constraint(one)
        origin, parts = get_origin(annotation), get_args(annotation)
        if origin is Annotated:
            return self.read(parts[0], parts[1:])
        if origin in (Union, UnionType):
            return any(self.read(part) for part in parts if part is not type(None))
        if origin is tuple:
            self.many = True
            return self.read(parts[0])
        if annotation is SwapKeys:
            self.type = "swap"
        self.type = self.type or _PLAIN.get(annotation, "")
        return bool(self.type)

    def _read_constraint(self, one: Any) -> None:
        if isinstance(one, FieldInfo):
            for inner in one.metadata:
                self._read_constraint(inner)
        elif isinstance(getattr(one, "func", None), OneOf):
            self.type, self.choices = "choice", one.func.choices
        elif one == _BOARD:
            self.type, self.choices = "choice", board_names()
        elif getattr(one, "pattern", None):
            self.type = "name"
        else:
            self.type = (_BY_CHECK.get(one) if isinstance(one, Hashable) else None) or self.type
            self.least = getattr(one, "ge", self.least)
            self.most = getattr(one, "le", self.most)


def keys_of(model: type[BaseModel]) -> list[Key]:
    """The keys of a table that the form shows."""
    keys = []
    for name, info in model.model_fields.items():
        key = Key(info.alias or name, required=info.is_required(), example=example_of(info))
        if key.read(info.annotation, info.metadata) and key.name != "schema":
            key.default = _default(info, key.type)
            keys.append(key)
    return keys


def example_of(info: FieldInfo) -> Any:
    """The key's example as plain data; examples are written as in TOML, which JSON mostly reads."""
    text = str((info.examples or [""])[0])
    try:
        return json.loads(text)
    except ValueError:
        return text


def _default(info: FieldInfo, kind: str) -> Any:
    value = info.default
    if value is PydanticUndefined or value is None:
        return None
    if isinstance(value, SwapKeys):
        return value.kind[0]
    values = value if isinstance(value, tuple) else (value,)
    plain = [f"{one:g}s" if kind == "duration" else one for one in values]
    return plain if isinstance(value, tuple) else plain[0]
