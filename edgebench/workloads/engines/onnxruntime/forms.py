"""What trials of an ONNX file load: the whole network or its layers, weights inside or beside.

Each form is a folder of its own below the network's: ``whole-copy``, ``layers-mmap`` and so on.
``copy`` has the weights in the ONNX file, which the engine reads into memory. ``mmap`` has them in
a ``.data`` file beside it, which the engine maps.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from edgebench.errors import WorkloadError
from edgebench.workloads.engines.engine import WHOLE
from edgebench.workloads.engines.file_inputs import FileInput
from edgebench.workloads.engines.files import Unit

INDEX = "index.json"
#: The description of a network's inputs, in its folder.
INPUTS = "inputs.json"
#: ONNX Runtime's words for a file of an opset that it does not have.
_OPSET = re.compile(r"Opset (\d+) is under development.* is till opset (\d+)", re.DOTALL)
_MOST_WORDS = 300


@dataclass(frozen=True)
class OnnxForm:
    """A prepared folder: its units with their files, the network's inputs and outputs."""

    files: Mapping[Unit, Path]
    inputs: list[FileInput]
    outputs: tuple[str, ...]

    @classmethod
    def read(cls, folder: Path, schedule: str, loader: str) -> OnnxForm:
        """The form that trials with this schedule and loader load.

        Raises:
            WorkloadError: it is not there.
        """
        place = folder / form_name(schedule, loader)
        try:
            index = json.loads((place / INDEX).read_text())
            inputs = json.loads((folder / INPUTS).read_text())
        except (OSError, ValueError) as error:
            raise WorkloadError(
                "the prepared files of a network are missing",
                where=str(place),
                remedy="start the sweep again; it makes them",
            ) from error
        files = {
            Unit(one["order"], one["name"], tuple(one["inputs"]), tuple(one["outputs"])): place
            / one["file"]
            for one in index["units"]
        }
        described = [FileInput.from_json(one) for one in inputs]
        return cls(files, described, tuple(index["outputs"]))


def form_name(schedule: str, loader: str) -> str:
    """The folder that trials with this schedule and loader read."""
    return f"{WHOLE if schedule == WHOLE else 'layers'}-{loader}"


def refused(error: Exception, where: str) -> WorkloadError:
    """ONNX Runtime's own words, without the codes before them."""
    words = (str(error).strip().splitlines() or [type(error).__name__])[0]
    words = words.removeprefix("[ONNXRuntimeError] : ")
    parts = words.split(" : ", 2)
    told = parts[-1] if parts[0].isdigit() else words
    if opset := _OPSET.search(words):
        told = f"it is of opset {opset[1]}, and this version reads up to {opset[2]}"
    told = f"{told[:_MOST_WORDS].rstrip()} …" if len(told) > _MOST_WORDS else told
    return WorkloadError(
        f"ONNX Runtime refuses it: {told}",
        where=where,
        remedy="see which operators and versions this version of onnxruntime has: "
        "python3 -c 'import onnxruntime; print(onnxruntime.__version__)'",
    )
