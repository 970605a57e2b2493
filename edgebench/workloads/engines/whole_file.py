"""A network in a file that its engine loads and executes as a whole: its inputs, its one unit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgebench.workloads.engines.engine import WHOLE, EngineModel, Unit
from edgebench.workloads.engines.file_inputs import FileInput, WantedInputs, make_inputs

#: In a prepared network's folder: the description of its inputs and the names of its outputs.
ENDS = "ends.json"


def whole_file(folder: Path, suffix: str) -> Path:
    """Where the file itself lies in a prepared network's folder."""
    return folder / f"{WHOLE}{suffix}"


class WholeFileModel(EngineModel):
    """What engines that can't cut a file have in common.

    Args:
        folder: of the prepared network.
        suffix: of the engine's files, as ``.tflite``.
        settings: of the trial.
    """

    def __init__(self, folder: Path, suffix: str, settings: Mapping[str, Any]) -> None:
        self._file, self._where = whole_file(folder, suffix), folder.name
        self._settings, self._wanted = settings, WantedInputs.of(settings)
        ends = json.loads((folder / ENDS).read_text())
        self._described = [FileInput.from_json(one) for one in ends["inputs"]]
        self.outputs = tuple(ends["outputs"])
        names = tuple(one.name for one in self._described)
        self.units = (Unit(None, WHOLE, names, self.outputs),)

    def inputs(self) -> dict[str, Any]:
        """Arrays of NumPy."""
        return make_inputs(self._described, self._wanted, self._settings["seed"], self._where)
