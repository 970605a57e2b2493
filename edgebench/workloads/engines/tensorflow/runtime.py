"""TensorFlow: a network that Keras saved, as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgebench.errors import WorkloadError, error_words
from edgebench.workloads.engines.engine import WHOLE, note_runtime, registered_engine
from edgebench.workloads.engines.files import EngineModel, FileEngine, Unit, WholeFileModel

if TYPE_CHECKING:
    from edgebench.workloads.recorder import Recorder

#: Of the files that it executes.
SUFFIX = ".keras"
_MOST_WORDS = 300


@registered_engine
class TensorFlow(FileEngine):
    """TensorFlow on the CPU: a network is one graph, with XLA or without."""

    name = "tensorflow"
    title = "TensorFlow"
    formats = (SUFFIX,)
    libraries = ("tensorflow", "keras")
    schedules = (WHOLE,)
    loaders = ("copy",)
    axes = ("onednn", "xla")
    preparation = "edgebench.workloads.engines.tensorflow.preparation:prepare_keras"
    no_operator_times = "edgebench does not read TensorFlow's profiler"

    def import_library(self, settings: Mapping[str, Any], recorder: Recorder) -> None:
        """Import TensorFlow and Keras."""
        from edgebench.workloads.engines.tensorflow.library import import_tensorflow

        threads = settings.get("threads")
        versions = import_tensorflow(threads, settings.get("onednn", True))
        note_runtime(recorder, **versions, threads=threads)

    def model(self, folder: Path, settings: Mapping[str, Any], profile: Path | None) -> EngineModel:
        """The network that was prepared in a folder."""
        return _KerasModel(folder, settings)


class _KerasModel(WholeFileModel):
    """A Keras file, executed as one graph."""

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        super().__init__(folder, SUFFIX, settings)
        self._network: Any = None
        self._graph: Any = None

    def inputs(self) -> dict[str, Any]:
        import tensorflow as tf

        return {name: tf.constant(value) for name, value in super().inputs().items()}

    def load(self, unit: Unit) -> None:
        import keras
        import tensorflow as tf

        try:
            network = keras.saving.load_model(str(self._file), compile=False, safe_mode=True)
        except Exception as error:
            raise tensorflow_refuses(error, self._where) from error
        self._network = network
        # A chain has one input; a graph's may be a list or a table.
        chain = isinstance(network, keras.Sequential)
        ends = network.inputs[0] if chain else network.input

        def forward(values: dict[str, Any]) -> list[Any]:
            given = keras.tree.map_structure(lambda one: values[one.name], ends)
            return list(keras.tree.flatten(network(given, training=False)))

        xla = self._settings.get("xla", False)
        # Keras's layers need no autograph, which would leave its code in /tmp.
        self._graph = tf.function(forward, jit_compile=xla, autograph=False)

    def run(self, unit: Unit, inputs: Mapping[str, Any]) -> dict[str, Any]:
        try:
            values = self._graph(dict(inputs))
        except Exception as error:
            raise tensorflow_refuses(error, self._where) from error
        return dict(zip(self.outputs, values, strict=True))

    def unload(self, unit: Unit) -> None:
        # A network refers to itself: its memory is free after the collection before a round.
        self._network = self._graph = None

    def output_bytes(self, outputs: Mapping[str, Any]) -> bytes:
        return b"".join(outputs[name].numpy().tobytes() for name in self.outputs)


def tensorflow_refuses(error: Exception, where: str) -> WorkloadError:
    """TensorFlow's own words, in one line."""
    words = error_words(error)
    if len(words) > _MOST_WORDS:
        words = f"{words[:_MOST_WORDS].rstrip()} …"
    return WorkloadError(
        f"TensorFlow refuses it: {words}",
        where=where,
        remedy="load it in Python to see all of the message, and save it again with the versions "
        "installed here: python3 -m pip show keras tensorflow-cpu",
    )
