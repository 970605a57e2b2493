"""Files that the form may name: those directly in the folder of ``serve --files``, and no other.

A name is compared with what lies in the folder, and becomes a path only if it is there. So the
folder is the user's permission to import its Python files, and nothing outside it is reached.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from edgebench.layers.names import CONFIGURATIONS
from edgebench.layers.references import FILE_KINDS, TRANSFORMERS
from edgebench.scenario.keys import CHECKPOINT_SUFFIXES
from edgebench.serve.form_keys import Key
from edgebench.workloads.training.names import DATA_SETS, FROM_FOLDER, SCRATCH, VISION_FILES

#: Keys whose values may be references, of any kind of workload.
_REFERENCES = ("network", "pipeline", "data")
#: A file's name, and a function in it with its arguments.
_CODE = re.compile(r"([^/\\:?]+\.py)(:[^\W\d][\w.]*(?:\?[^/\\]*)?)")
_PLAIN = re.compile(r"[\w-]+")
#: Networks that generate text and come with edgebench.
_GENERATORS = tuple(f"{TRANSFORMERS}:{name}" for name in CONFIGURATIONS)
_NO_FOLDER = (
    "type a known network's name; package.module:function or a file: edgebench run, or "
    "edgebench serve --files FOLDER, which permits the files in it"
)


@dataclass(frozen=True)
class FormFiles:
    """Data sets, checkpoints, networks and code directly in ``folder``; the form names no path.

    Without a folder, only what needs no files.
    """

    folder: Path | None = None

    def keys(self, kind: str, keys: Sequence[Key]) -> list[Key]:
        """A workload's keys; those of training with the data sets and checkpoints at hand."""
        if kind != "training":
            return [_with_generators(key) if key.name == "network" else key for key in keys]
        sets = tuple(name for name in DATA_SETS if name not in FROM_FOLDER or self._has(name))
        fitted = [replace(key, choices=sets) if key.name == "data" else key for key in keys]
        if found := self._named(CHECKPOINT_SUFFIXES):
            start = Key("start", "choice", many=True, default=[SCRATCH], example=SCRATCH)
            fitted.append(replace(start, choices=(SCRATCH, *found)))
        return fitted

    def with_paths(self, workload: Mapping[str, Any]) -> dict[str, Any]:
        """The workload's table, with the path of each file that it names.

        Raises:
            UnnamedFileError: a value names something else than is permitted.
        """
        table = dict(workload)
        for key in _REFERENCES:
            if key in table:
                many, values = isinstance(table[key], list), as_list(table[key])
                found = [self._reference(key, value) for value in values]
                table[key] = found if many else found[0]
        if self.folder and any(name in FROM_FOLDER for name in as_list(table.get("data"))):
            table["data_folder"] = str(self.folder)
        if "start" in table:
            table["start"] = [self._start(name) for name in as_list(table["start"])]
        return table

    def _reference(self, key: str, name: Any) -> Any:
        """A plain name as it is; a file of the folder by its path."""
        if not isinstance(name, str) or _PLAIN.fullmatch(name) or name in _GENERATORS:
            return name
        if self.folder is None:
            raise UnnamedFileError(key, _NO_FOLDER)
        code = _CODE.fullmatch(name)
        file, rest = (code[1], code[2]) if code else (name, "")
        known = self._named((".py",) if code else tuple(FILE_KINDS))
        if file not in known:
            shown = ", ".join(self._named((".py", *FILE_KINDS))) or "none"
            raise UnnamedFileError(
                key,
                f"{name!r} is no file of this server's folder; it has {shown}: "
                "write file.py:function, or a file's name",
            )
        return f"{self.folder / file}{rest}"

    def _has(self, name: str) -> bool:
        folder = self.folder
        return folder is not None and all((folder / file).is_file() for file in VISION_FILES[name])

    def _named(self, suffixes: Sequence[str]) -> tuple[str, ...]:
        """Names of the folder's own files with these endings; a link that leads out is none."""
        files = self.folder.iterdir() if self.folder else ()
        found = (f.name for f in files if f.suffix in suffixes and self._is_own(f))
        return tuple(sorted(found))

    def _is_own(self, file: Path) -> bool:
        inside = file.resolve().parent == file.parent.resolve()
        return inside and file.is_file()

    def _start(self, name: Any) -> str:
        if name == SCRATCH:
            return SCRATCH
        if self.folder is None or name not in self._named(CHECKPOINT_SUFFIXES):
            raise UnnamedFileError("start", f"{name!r} is not one of this server's checkpoints")
        return str(self.folder / name)


def _with_generators(key: Key) -> Key:
    return replace(key, choices=(*key.choices, *_GENERATORS))


class UnnamedFileError(ValueError):
    """A value of the workload's ``key`` that names no permitted file; its text says why."""

    def __init__(self, key: str, says: str) -> None:
        super().__init__(says)
        self.key = key


def as_list(value: Any) -> list[Any]:
    """The values of a key: one, or several."""
    return value if isinstance(value, list) else [value]
