"""What trials of an ONNX file load: the whole network or its layers, weights inside or beside.

Each form is a folder of its own below the network's: ``whole-copy``, ``layers-mmap`` and so on.
A whole network under ``copy`` is the person's file as it is: the engine reads weights inside it
into memory, and maps those in files beside it. Layers under ``copy`` have their weights inside.
``mmap`` has all weights in files beside, which the engine maps.

Two more forms are what the engine itself wrote of a whole network, optimised: ``ort`` in its own
format, which is mapped; and ``packed`` with the weights beside, as its kernels want them, so that
none are packed when it is loaded.
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

#: Loaders of files that ONNX Runtime writes itself.
ORT_FORMAT, SAVED_PACKING = "ort", "packed"
INDEX = "index.json"
#: The description of a network's inputs, in its folder.
INPUTS = "inputs.json"
#: ONNX Runtime's words for a file of an opset that it does not have.
_OPSET = re.compile(r"Opset (\d+) is under development.* is till opset (\d+)", re.DOTALL)
#: Its words for a node that fails: operator, name, reason; and a check's place and condition.
_NODE = re.compile(
    r"running (\w+) node\. ?Name:'([^']*)' Status Message: ((?:(?!Non-zero status code).)*)"
)
_CHECK = re.compile(r"^\S+:\d+ (?:.*? was false\. )?")
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


def own_words(error: Exception) -> str:
    """ONNX Runtime's own words, without the codes before them."""
    words = (str(error).strip().splitlines() or [type(error).__name__])[0]
    words = words.removeprefix("[ONNXRuntimeError] : ")
    parts = words.split(" : ", 2)
    told = parts[-1] if parts[0].isdigit() else words
    if failed := _NODE.findall(told):
        # Of nodes in nodes, the one that failed itself.
        kind, _, reason = failed[-1]
        told = f"its {kind} node: {_CHECK.sub('', reason)}"
    if opset := _OPSET.search(words):
        told = f"it is of opset {opset[1]}, and this version reads up to {opset[2]}"
    return f"{told[:_MOST_WORDS].rstrip()} …" if len(told) > _MOST_WORDS else told


def refused(error: Exception, where: str) -> WorkloadError:
    """The error for a file that ONNX Runtime does not load or execute."""
    return WorkloadError(
        f"ONNX Runtime refuses it: {own_words(error)}",
        where=where,
        remedy="see which operators and versions this version of onnxruntime has: "
        "python3 -c 'import onnxruntime; print(onnxruntime.__version__)'",
    )
