"""The form: made from a scenario's typed keys, and read back as a scenario.

Keys that the form does not show are refused. So no path and no command gets through: a key of a
type without a control (a path, a command, a free text) is not shown, and files are named, not
their paths. Code is imported only from the folder of ``serve --files``: a name is compared with
what lies in that folder, and becomes a path only if it is there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from edgebench.boards import board_names
from edgebench.layers.names import CONFIGURATIONS
from edgebench.layers.references import TRANSFORMERS
from edgebench.safe_files import real_path
from edgebench.scenario.keys import (
    CHECKPOINT_SUFFIXES,
    LimitLabel,
    OneOf,
    PartLabel,
    Seconds,
    ShapeLabel,
    Size,
    faults_of,
    tables_in,
)
from edgebench.scenario.limits import BoardName, StorageLabel, SwapKeys
from edgebench.scenario.preview import preview, this_machine
from edgebench.scenario.scenario import SCHEMA, Scenario, scenario_of
from edgebench.workloads.training.names import DATA_SETS, FROM_FOLDER, SCRATCH, VISION_FILES

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
_BY_TYPE = {bool: "switch", int: "int", float: "float"}


#: Keys whose values may be references, of any kind of workload.
_REFERENCES = {"network", "pipeline", "data", "start"}
#: What follows a file's name: a function with its arguments, or nothing.
_FUNCTION = re.compile(r"(?:[^\W\d][\w.]*(?:\?[^/\\]*)?)?")
_PLAIN = re.compile(r"[\w-]+")
#: Networks that generate text and come with edgebench.
_GENERATORS = tuple(f"{TRANSFORMERS}:{name}" for name in CONFIGURATIONS)
_NO_FOLDER = (
    "type a known network's name; package.module:function or a file: edgebench run, or "
    "edgebench serve --files FOLDER, which permits the files in it"
)
_WORKLOAD, _TOP = "workload", "scenario"


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
        self.type = self.type or _BY_TYPE.get(annotation, "")
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
    """Return the keys of a table that the form shows."""
    keys = []
    for name, info in model.model_fields.items():
        key = Key(info.alias or name, required=info.is_required(), example=example_of(info))
        if key.read(info.annotation, info.metadata) and key.name != "schema":
            key.default = _default(info, key.type)
            keys.append(key)
    return keys


def example_of(info: FieldInfo) -> Any:
    """Return the key's example as plain data.

    Examples are written as in TOML, which JSON mostly reads.
    """
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


@dataclass(frozen=True)
class FormFiles:
    """Data sets, checkpoints, networks and code directly in ``folder``; the form names no path.

    Without a folder, only what needs no files.
    """

    folder: Path | None = None

    @cached_property
    def names(self) -> frozenset[str]:
        """Names of the folder's own files; a link that leads out is none."""
        inside = real_path(self.folder) if self.folder else None
        return frozenset(
            file.name
            for file in (self.folder.iterdir() if self.folder else ())
            if file.is_file() and real_path(file).parent == inside
        )

    def keys(self, kind: str, keys: Sequence[Key]) -> list[Key]:
        """Return a workload's keys.

        Those of training with the data sets and checkpoints at hand.
        """
        if kind != "training":
            known = {"network": _GENERATORS}
            return [replace(k, choices=(*k.choices, *known.get(k.name, ()))) for k in keys]
        sets = tuple(n for n in DATA_SETS if n not in FROM_FOLDER or self._has_data(n))
        fitted = [replace(key, choices=sets) if key.name == "data" else key for key in keys]
        if found := sorted(n for n in self.names if n.endswith(tuple(CHECKPOINT_SUFFIXES))):
            start = Key("start", "choice", many=True, default=[SCRATCH], example=SCRATCH)
            fitted.append(replace(start, choices=(SCRATCH, *found)))
        return fitted

    def _has_data(self, name: str) -> bool:
        folder = self.folder
        return folder is not None and all((folder / file).is_file() for file in VISION_FILES[name])

    def with_paths(self, workload: Mapping[str, Any]) -> dict[str, Any]:
        """Return the workload's table, with the path of each file that it names.

        Raises:
            UnnamedFileError: a value names something else than is permitted.
        """
        table = dict(workload)
        for key in _REFERENCES & table.keys():
            values = table[key]
            paths = [self._reference(key, value) for value in as_list(values)]
            table[key] = paths if isinstance(values, list) else paths[0]
        if self.folder and any(name in FROM_FOLDER for name in as_list(table.get("data"))):
            table["data_folder"] = str(self.folder)
        return table

    def _reference(self, key: str, name: Any) -> Any:
        """Return a plain name as it is; a file of the folder by its path."""
        if not isinstance(name, str) or _PLAIN.fullmatch(name) or name in _GENERATORS:
            return name
        if self.folder is None:
            raise UnnamedFileError(key, _NO_FOLDER)
        file, _, function = name.partition(":")
        if file in self.names and _FUNCTION.fullmatch(function):
            return f"{self.folder / name}"
        shown = ", ".join(sorted(self.names)) or "none"
        raise UnnamedFileError(
            key,
            f"{name!r} is no file of this server's folder; it has {shown}: "
            "write file.py:function, or a file's name",
        )


class UnnamedFileError(ValueError):
    """A value of the workload's ``key`` that names no permitted file; its text says why."""

    def __init__(self, key: str, says: str) -> None:
        super().__init__(says)
        self.key = key


def as_list(value: Any) -> list[Any]:
    """Return the values of a key: one, or several."""
    return value if isinstance(value, list) else [value]


def form_tables(files: FormFiles) -> dict[str, Any]:
    """Every table of a scenario with its keys; for the workload, one table for each kind."""
    fields = Scenario.model_fields
    shown = {}
    for model in tables_in(fields[_WORKLOAD].annotation):
        kind = str(example_of(model.model_fields["kind"]))
        keys = files.keys(kind, keys_of(model))
        shown[kind] = [asdict(key) for key in keys if key.name != "kind"]
    del shown["command"]
    rest = {
        info.alias or name: [asdict(key) for key in keys_of(model)]
        for name, info in fields.items()
        if name != _WORKLOAD
        for model in tables_in(info.annotation)
        # The form has all keys that the table needs.
        if {info.alias or n for n, info in model.model_fields.items() if info.is_required()}
        <= {key.name for key in keys_of(model)}
    }
    return {_WORKLOAD: shown, _TOP: [asdict(key) for key in keys_of(Scenario)], **rest}


def check_form(sent: Mapping[str, Any], files: FormFiles) -> dict[str, Any]:
    """Return what ``edgebench run --dry-run`` says of a filled-in form.

    If it has faults, ``{"faults": [{"key", "says"}]}``; otherwise ``name``, ``scenario`` (TOML),
    ``points``, ``trials``, ``longest_s`` and ``warnings``.
    """
    if strange := _strange_keys(sent, form_tables(files)):
        return {"faults": [{"key": key, "says": "is not a key of this form"} for key in strange]}
    # A path would have the server read that file.
    boards = as_list(sent.get("limits", {}).get("board") or [])
    if unlisted := [name for name in boards if name not in board_names()]:
        says = "is not one of the boards that come with edgebench; choose one from the list"
        return {"faults": [{"key": "limits.board", "says": f"{n!r} {says}"} for n in unlisted]}
    data = {"schema": SCHEMA, **sent.get(_TOP, {})}
    data |= {name: table for name, table in sent.items() if name != _TOP and table}
    try:
        data |= {_WORKLOAD: files.with_paths(sent.get(_WORKLOAD, {}))}
        scenario = scenario_of(data)
    except UnnamedFileError as error:
        return {"faults": [{"key": f"{_WORKLOAD}.{error.key}", "says": str(error)}]}
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
    """Return the sent keys that the form does not have."""
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
        for key, value in values.items():
            # No key of the form takes a table or a list of tables.
            plain = all(isinstance(part, str | int | float) for part in as_list(value))
            if key not in names or not plain:
                strange.append(f"{table}.{key}")
    return strange
