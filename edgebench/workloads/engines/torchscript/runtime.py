"""TorchScript: a program that ``torch.jit.save`` wrote, as a whole.

It runs in the trial as the caller's user, as any program of theirs. ``torch.jit.load`` unpickles
no classes of Python's, but the program's own operators may read and write files.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgebench.errors import WorkloadError
from edgebench.workloads.engines.engine import WHOLE, note_runtime, registered_engine
from edgebench.workloads.engines.file_inputs import WantedInputs
from edgebench.workloads.engines.files import ENDS, EngineModel, FileEngine, Unit, whole_file
from edgebench.workloads.engines.torchscript.arguments import ScriptArgument, call_arguments

if TYPE_CHECKING:
    from edgebench.workloads.recorder import Recorder

_MOST_WORDS = 300
#: The one name that a round gives its output: what a program returns may be nested.
_OUTPUT = "output"


@registered_engine
class TorchScript(FileEngine):
    """PyTorch's interpreter of TorchScript, on the CPU."""

    name = "torchscript"
    title = "TorchScript"
    formats = (".pt", ".pth", ".jit", ".torchscript", ".ptl")
    libraries = ("torch",)
    schedules = (WHOLE,)
    loaders = ("copy",)
    preparation = "edgebench.workloads.engines.torchscript.preparation:prepare_torchscript"
    no_operator_times = "operators of TorchScript are not timed"

    def import_library(self, settings: Mapping[str, Any], recorder: Recorder) -> None:
        """Import torch."""
        import torch

        if threads := settings.get("threads"):
            torch.set_num_threads(threads)
        note_runtime(recorder, torch=torch.__version__, threads=torch.get_num_threads())

    def model(self, folder: Path, settings: Mapping[str, Any], profile: Path | None) -> EngineModel:
        """The program that was prepared in a folder."""
        return _ScriptModel(folder, settings)


class _ScriptModel(EngineModel):
    """A TorchScript file in PyTorch."""

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self._settings, self._where = settings, folder.name
        ends = json.loads((folder / ENDS).read_text())
        self._file = whole_file(folder, ends["suffix"])
        self._arguments = [ScriptArgument(**one) for one in ends["arguments"]]
        self.outputs = (_OUTPUT,)
        self._program: Any = None
        self._values = call_arguments(
            self._arguments, WantedInputs.of(settings), settings["seed"], self._where
        )
        self.units = (Unit(None, WHOLE, tuple(self._values), self.outputs),)

    def inputs(self) -> dict[str, Any]:
        return self._values

    def load(self, unit: Unit) -> None:
        self._program = loaded_program(self._file, self._where)

    def run(self, unit: Unit, inputs: Mapping[str, Any]) -> dict[str, Any]:
        import torch

        try:
            with torch.no_grad():
                return {_OUTPUT: self._program(**inputs)}
        except Exception as error:
            raise WorkloadError(
                f"TorchScript can't execute it: {script_words(error)}",
                where=self._where,
                remedy="try another --input",
            ) from error

    def unload(self, unit: Unit) -> None:
        self._program = None

    def output_bytes(self, outputs: Mapping[str, Any]) -> bytes:
        from edgebench.layers.samples import tensor_bytes

        return b"".join(tensor_bytes(outputs[_OUTPUT]))


def loaded_program(file: Path, where: str) -> Any:
    """The program, for the CPU, as it is for inference.

    Raises:
        WorkloadError: PyTorch refuses it; says in what words.
    """
    import torch

    try:
        # Torch's own function has no types, and warns that it is of an older kind.
        load: Any = torch.jit.load
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            return load(str(file), map_location="cpu").eval()
    except Exception as error:
        raise WorkloadError(
            f"PyTorch does not load it as TorchScript: {script_words(error)}",
            where=where,
            remedy="if it needs operators of another library, measure the program that imports "
            "it: edgebench minimum -- python3 infer.py",
        ) from error


def script_words(error: Exception) -> str:
    """What failed, without the trace of serialized code before it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = next((one for one in reversed(lines) if "Error: " in one), None)
    # The reason stands first where there is no trace, and last behind one.
    words = told or (lines[0] if lines else type(error).__name__)
    for name in ("RuntimeError: ", "torch.jit.Error: ", "builtins."):
        words = words.removeprefix(name)
    return f"{words[:_MOST_WORDS].rstrip()} …" if len(words) > _MOST_WORDS else words
