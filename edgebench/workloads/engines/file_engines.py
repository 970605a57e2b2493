"""LiteRT, TensorFlow and TorchScript: engines that execute a file and time no operators."""

from __future__ import annotations

import os
import warnings
import zipfile
from collections.abc import Mapping
from typing import Any

from edgebench.layers.input_specs import STRING, FileInput
from edgebench.workloads.engines.engine import (
    EngineModel,
    FileEngine,
    note_runtime,
)
from edgebench.workloads.recorder import Recorder


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
    model = _TfliteModel
    remedy = (
        "convert it again with built-in operators, or see which version of LiteRT it is: "
        "python3 -m pip show ai-edge-litert"
    )

    def import_library(self, settings: Mapping[str, Any], recorder: Recorder) -> None:
        """Import the interpreter."""
        # Its own word for its version: reading the package's metadata takes 2 MiB.
        from ai_edge_litert import __version__, interpreter  # noqa: F401 - its memory is the base

        note_runtime(recorder, litert=__version__, threads=settings.get("threads"))


class _KerasModel(EngineModel):
    """A Keras file, executed as one graph."""

    _network: Any = None
    _graph: Any = None

    def load(self) -> None:
        import keras
        import tensorflow as tf

        if not zipfile.is_zipfile(self.file):
            # Keras would say that there is no such file.
            raise ValueError("it is no .keras file, or not a whole one")
        network = keras.saving.load_model(str(self.file), compile=False)
        # A chain has one input; a graph's may be a list or a table.
        chain = isinstance(network, keras.Sequential)
        ends = network.inputs[0] if chain else network.input

        def forward(values: dict[str, Any]) -> list[Any]:
            given = keras.tree.map_structure(lambda end: values[end.name], ends)
            return list(keras.tree.flatten(network(given, training=False)))

        xla = self.settings.get("xla", False)
        # Keras's layers need no autograph, which would leave its code in /tmp.
        self._network = network
        self._graph = tf.function(forward, jit_compile=xla, autograph=False)

    def inputs(self) -> list[FileInput]:
        # Keras casts what NumPy has no type for.
        names = {"string": STRING, "bfloat16": "float32"}
        return [
            FileInput(place.name, names.get(place.dtype, place.dtype), tuple(place.shape))
            for place in self._network.inputs
        ]

    def run(self, inputs: Mapping[str, Any]) -> Any:
        return self._graph(dict(inputs))

    def unload(self) -> None:
        # A network refers to itself: its memory is free after the collection before a round.
        self._network = self._graph = None

    def output_bytes(self, output: Any) -> bytes:
        return b"".join(tensor.numpy().tobytes() for tensor in output)


class TensorFlow(FileEngine):
    """TensorFlow on the CPU: a network is one graph, with XLA or without."""

    name = "tensorflow"
    title = "TensorFlow"
    formats = (".keras",)
    libraries = ("tensorflow", "keras")
    loaders = ("copy",)
    axes = ("onednn", "xla")
    no_operator_times = "edgebench does not read TensorFlow's profiler"
    model = _KerasModel
    remedy = (
        "load it in Python to see all of the message, and save it again with the versions "
        "installed here: python3 -m pip show keras tensorflow-cpu"
    )

    def import_library(self, settings: Mapping[str, Any], recorder: Recorder) -> None:
        """Import TensorFlow and Keras."""
        threads = settings.get("threads")
        versions = import_tensorflow(threads, settings.get("onednn", True))
        note_runtime(recorder, **versions, threads=threads)


#: Set before the import. No GPU is looked for; Keras computes with TensorFlow whatever a person's
#: own settings say, and neither reads nor writes them.
_VARIABLES = {
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "CUDA_VISIBLE_DEVICES": "-1",
    "KERAS_BACKEND": "tensorflow",
    "KERAS_HOME": "/dev/null/keras",
}


def import_tensorflow(threads: int | None = None, onednn: bool = True) -> dict[str, str]:
    """Import TensorFlow and Keras for the CPU; their versions.

    Args:
        threads: threads of an operator; operators run one after another then. None: as TensorFlow
            has them.
        onednn: whether operators may use oneDNN's kernels.
    """
    os.environ.update(_VARIABLES, TF_ENABLE_ONEDNN_OPTS=str(int(onednn)))
    import keras
    import tensorflow as tf

    if threads:
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(1)
    # Its runtime starts with the first operator; it belongs to the import.
    tf.constant(0)
    return {"tensorflow": tf.__version__, "keras": keras.__version__}


#: Types of TorchScript's plain values → those of arrays.
_VALUES = {"int": "int64", "float": "float64", "bool": "bool", "str": STRING}


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


class TorchScript(FileEngine):
    """PyTorch's interpreter of TorchScript, on the CPU."""

    name = "torchscript"
    title = "TorchScript"
    formats = (".pt", ".pth", ".jit", ".torchscript", ".ptl")
    libraries = ("torch",)
    loaders = ("copy",)
    no_operator_times = "operators of TorchScript are not timed"
    model = _ScriptModel
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

    def words(self, error: Exception) -> str:
        """Return what failed, without the trace of serialized code before it."""
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        reason = next((line for line in reversed(lines) if "Error: " in line), None)
        # The reason stands first where there is no trace, and last behind one.
        words = reason or (lines[0] if lines else type(error).__name__)
        for name in ("RuntimeError: ", "torch.jit.Error: ", "builtins."):
            words = words.removeprefix(name)
        return words
