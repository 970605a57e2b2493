"""TorchScript: a program that ``torch.jit.save`` wrote, as a whole."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgebench.layers.input_specs import STRING
from edgebench.workloads.engines.engine import note_runtime, registered_engine
from edgebench.workloads.engines.files import EngineModel, FileEngine, FileInput

if TYPE_CHECKING:
    from edgebench.workloads.recorder import Recorder

#: Types of TorchScript's plain values → those of arrays.
_VALUES = {"int": "int64", "float": "float64", "bool": "bool", "str": STRING}


@registered_engine
class TorchScript(FileEngine):
    """PyTorch's interpreter of TorchScript, on the CPU."""

    name = "torchscript"
    title = "TorchScript"
    formats = (".pt", ".pth", ".jit", ".torchscript", ".ptl")
    libraries = ("torch",)
    loaders = ("copy",)
    no_operator_times = "operators of TorchScript are not timed"
    remedy = (
        "if it needs operators of another library, measure the program that imports it: "
        "edgebench minimum -- python3 infer.py"
    )

    def import_library(self, settings: Mapping[str, Any], recorder: Recorder) -> None:
        """Import torch."""
        import torch

        if threads := settings.get("threads"):
            torch.set_num_threads(threads)
        note_runtime(recorder, torch=torch.__version__, threads=torch.get_num_threads())

    def model(
        self, file: Path, settings: Mapping[str, Any], profile: Path | None = None
    ) -> EngineModel:
        """Return the program in a file."""
        return _ScriptModel(file, settings)

    def words(self, error: Exception) -> str:
        """Return what failed, without the trace of serialized code before it."""
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        reason = next((one for one in reversed(lines) if "Error: " in one), None)
        # The reason stands first where there is no trace, and last behind one.
        words = reason or (lines[0] if lines else type(error).__name__)
        for name in ("RuntimeError: ", "torch.jit.Error: ", "builtins."):
            words = words.removeprefix(name)
        return words


class _ScriptModel(EngineModel):
    """A TorchScript file in PyTorch."""

    _program: Any = None

    def load(self) -> None:
        import torch

        # Torch's own function has no types, and warns that it is of an older kind.
        load: Any = torch.jit.load
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            self._program = load(str(self.file), map_location="cpu").eval()

    def inputs(self) -> list[FileInput]:
        inputs = []
        for argument in self._program.forward.schema.arguments[1:]:
            kind = str(argument.type).removeprefix("Optional[").removesuffix("]")
            shape = () if kind in _VALUES else None
            kind = _VALUES.get(kind, "" if "Tensor" in kind else kind)
            inputs.append(FileInput(argument.name, kind, shape, argument.has_default_value()))
        return inputs

    def run(self, inputs: Mapping[str, Any]) -> Any:
        import torch

        given: dict[str, Any] = {}
        for argument in self._program.forward.schema.arguments[1:]:
            if argument.name in inputs:
                value, kind = inputs[argument.name], str(argument.type)
                tensor = torch.from_numpy(value) if "Tensor" in kind else value.item()
                given[argument.name] = [tensor] if kind == "List[Tensor]" else tensor
        with torch.no_grad():
            return self._program(**given)

    def unload(self) -> None:
        self._program = None

    def output_bytes(self, output: Any) -> bytes:
        from edgebench.layers.network import tensor_bytes

        return b"".join(tensor_bytes(output))
