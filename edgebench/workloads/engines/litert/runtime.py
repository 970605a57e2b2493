"""LiteRT (formerly TensorFlow Lite): a file as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgebench.errors import WorkloadError, error_words
from edgebench.workloads.engines.engine import WHOLE, note_runtime, registered_engine
from edgebench.workloads.engines.file_inputs import concrete_shapes
from edgebench.workloads.engines.files import EngineModel, FileEngine, Unit, WholeFileModel

if TYPE_CHECKING:
    from edgebench.workloads.recorder import Recorder

#: Of the files that it executes.
SUFFIX = ".tflite"


@registered_engine
class LiteRt(FileEngine):
    """LiteRT's interpreter on the CPU, with XNNPACK or without."""

    name = "litert"
    title = "LiteRT"
    formats = (SUFFIX,)
    libraries = ("ai_edge_litert",)
    schedules = (WHOLE,)
    #: ``model_path`` maps the file.
    loaders = ("mmap", "copy")
    axes = ("xnnpack",)
    preparation = "edgebench.workloads.engines.litert.preparation:prepare_tflite"
    no_operator_times = "LiteRT's Python package has no profiler"

    def import_library(self, settings: Mapping[str, Any], recorder: Recorder) -> None:
        """Import the interpreter."""
        # Its own word for its version: reading the package's metadata takes 2 MiB.
        from ai_edge_litert import __version__, interpreter  # noqa: F401 - its memory is the base

        note_runtime(recorder, litert=__version__, threads=settings.get("threads"))

    def model(self, folder: Path, settings: Mapping[str, Any], profile: Path | None) -> EngineModel:
        """The network that was prepared in a folder."""
        return _TfliteModel(folder, settings)


class _TfliteModel(WholeFileModel):
    """A TFLite file in an interpreter."""

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        super().__init__(folder, SUFFIX, settings)
        self._interpreter: Any = None
        self._shapes = concrete_shapes(self._described, self._wanted, self._where)

    def load(self, unit: Unit) -> None:
        try:
            self._interpreter = self._opened()
            for place, one in zip(
                self._interpreter.get_input_details(), self._described, strict=True
            ):
                if tuple(place["shape"]) != self._shapes[one.name]:
                    self._interpreter.resize_tensor_input(place["index"], self._shapes[one.name])
            self._interpreter.allocate_tensors()
        except (RuntimeError, ValueError) as error:
            raise litert_refuses(error, self._where) from error

    def _opened(self) -> Any:
        """``copy`` reads the file into memory, ``mmap`` has LiteRT map it."""
        from ai_edge_litert.interpreter import Interpreter, OpResolverType

        mapped = self._settings["loader"] == "mmap"
        plain = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        resolver = OpResolverType.AUTO if self._settings.get("xnnpack", True) else plain
        return Interpreter(
            model_path=str(self._file) if mapped else None,
            model_content=None if mapped else self._file.read_bytes(),
            num_threads=self._settings.get("threads"),
            experimental_op_resolver_type=resolver,
        )

    def run(self, unit: Unit, inputs: Mapping[str, Any]) -> dict[str, Any]:
        engine = self._interpreter
        try:
            for place, one in zip(engine.get_input_details(), self._described, strict=True):
                engine.set_tensor(place["index"], inputs[one.name])
            engine.invoke()
        except (RuntimeError, ValueError) as error:
            raise litert_refuses(error, self._where) from error
        details = zip(self.outputs, engine.get_output_details(), strict=True)
        return {name: engine.get_tensor(place["index"]) for name, place in details}

    def unload(self, unit: Unit) -> None:
        self._interpreter = None

    def output_bytes(self, outputs: Mapping[str, Any]) -> bytes:
        return b"".join(outputs[name].tobytes() for name in self.outputs)


def litert_refuses(error: Exception, where: str) -> WorkloadError:
    """LiteRT's own words."""
    words = error_words(error)
    return WorkloadError(
        f"LiteRT refuses it: {words}",
        where=where,
        remedy="see which version it is, or convert the network with built-in operators alone: "
        "python3 -m pip show ai-edge-litert",
    )
