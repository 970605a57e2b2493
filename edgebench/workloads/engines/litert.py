"""LiteRT (formerly TensorFlow Lite): a file as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgebench.workloads.engines.engine import note_runtime, registered_engine
from edgebench.workloads.engines.files import EngineModel, FileEngine, FileInput

if TYPE_CHECKING:
    from edgebench.workloads.recorder import Recorder


@registered_engine
class LiteRt(FileEngine):
    """LiteRT's interpreter on the CPU, with XNNPACK or without."""

    name = "litert"
    title = "LiteRT"
    formats = (".tflite",)
    libraries = ("ai_edge_litert",)
    #: ``model_path`` maps the file.
    loaders = ("mmap", "copy")
    axes = ("xnnpack",)
    no_operator_times = "LiteRT's Python package has no profiler"
    remedy = (
        "convert it again with built-in operators, or see which version of LiteRT it is: "
        "python3 -m pip show ai-edge-litert"
    )

    def import_library(self, settings: Mapping[str, Any], recorder: Recorder) -> None:
        """Import the interpreter."""
        # Its own word for its version: reading the package's metadata takes 2 MiB.
        from ai_edge_litert import __version__, interpreter  # noqa: F401 - its memory is the base

        note_runtime(recorder, litert=__version__, threads=settings.get("threads"))

    def model(
        self, file: Path, settings: Mapping[str, Any], profile: Path | None = None
    ) -> EngineModel:
        """Return the network in a file."""
        return _TfliteModel(file, settings)


class _TfliteModel(EngineModel):
    """A TFLite file in an interpreter."""

    _interpreter: Any = None

    def load(self) -> None:
        from ai_edge_litert.interpreter import Interpreter, OpResolverType

        mapped = self.settings["loader"] == "mmap"
        plain = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        self._interpreter = Interpreter(
            model_path=str(self.file) if mapped else None,
            model_content=None if mapped else self.file.read_bytes(),
            num_threads=self.settings.get("threads"),
            experimental_op_resolver_type=(
                OpResolverType.AUTO if self.settings.get("xnnpack", True) else plain
            ),
        )

    def inputs(self) -> list[FileInput]:
        inputs = []
        for place in self._interpreter.get_input_details():
            dims = place["shape_signature"] if len(place["shape_signature"]) else place["shape"]
            shape = tuple(int(size) if size >= 0 else None for size in dims)
            inputs.append(FileInput(place["name"], place["dtype"].__name__, shape))
        return inputs

    def fit(self, inputs: Mapping[str, Any]) -> None:
        for place in self._interpreter.get_input_details():
            shape = inputs[place["name"]].shape
            if tuple(place["shape"]) != shape:
                self._interpreter.resize_tensor_input(place["index"], shape)
        self._interpreter.allocate_tensors()

    def run(self, inputs: Mapping[str, Any]) -> Any:
        for place in self._interpreter.get_input_details():
            self._interpreter.set_tensor(place["index"], inputs[place["name"]])
        self._interpreter.invoke()
        places = self._interpreter.get_output_details()
        return [self._interpreter.get_tensor(place["index"]) for place in places]

    def unload(self) -> None:
        self._interpreter = None

    def output_bytes(self, output: Any) -> bytes:
        return b"".join(array.tobytes() for array in output)
