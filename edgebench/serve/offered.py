"""Data sets and checkpoints that the form offers by name: those of a folder the server was given.

A form never names a path. What it may choose lies directly in that folder, and the path is put in
the name's place here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from edgebench.serve.form_keys import Key
from edgebench.training.data.names import DATA_SETS, FROM_FOLDER, VISION_FILES
from edgebench.training.names import SCRATCH
from edgebench.workloads.training_settings import CHECKPOINTS, KIND


@dataclass(frozen=True)
class Offered:
    """What the form offers of ``folder``; without one only what needs no files."""

    folder: Path | None = None

    def keys(self, kind: str, keys: Sequence[Key]) -> list[Key]:
        """A workload's keys, those of training with the data sets and checkpoints at hand."""
        if kind != KIND:
            return list(keys)
        sets = self.data_sets()
        fitted = [replace(key, choices=sets) if key.name == "data" else key for key in keys]
        if found := self.checkpoints():
            choices = (SCRATCH, *found)
            fitted.append(Key("start", "choice", True, False, [SCRATCH], SCRATCH, choices))
        return fitted

    def data_sets(self) -> tuple[str, ...]:
        """Names of the data sets that can be had."""
        return tuple(name for name in DATA_SETS if name not in FROM_FOLDER or self._has(name))

    def checkpoints(self) -> tuple[str, ...]:
        """Names of the checkpoints in the folder, in order."""
        files = self.folder.glob("*") if self.folder else ()
        return tuple(sorted(f.name for f in files if f.suffix in CHECKPOINTS and f.is_file()))

    def placed(self, workload: Mapping[str, Any]) -> dict[str, Any]:
        """The workload's table, with paths where it names what lies in the folder.

        Raises:
            ValueError: it names a checkpoint that is not offered.
        """
        placed = dict(workload)
        if self.folder and any(name in FROM_FOLDER for name in _listed(workload.get("data"))):
            placed["data_folder"] = str(self.folder)
        if "start" in workload:
            placed["start"] = [self._start(name) for name in _listed(workload["start"])]
        return placed

    def _has(self, name: str) -> bool:
        folder = self.folder
        return folder is not None and all((folder / file).is_file() for file in VISION_FILES[name])

    def _start(self, name: Any) -> str:
        if name == SCRATCH:
            return SCRATCH
        if self.folder is None or name not in self.checkpoints():
            raise ValueError(f"{name!r} is none of the checkpoints that this server offers")
        return str(self.folder / name)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
