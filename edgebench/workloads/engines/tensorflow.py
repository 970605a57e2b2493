"""TensorFlow: a network that Keras saved, as a whole."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgebench.layers.input_specs import STRING
from edgebench.workloads.engines.engine import note_runtime, registered_engine
from edgebench.workloads.engines.files import EngineModel, FileEngine, FileInput

if TYPE_CHECKING:
    from edgebench.workloads.recorder import Recorder


@registered_engine
class TensorFlow(FileEngine):
    """TensorFlow on the CPU: a network is one graph, with XLA or without."""

    name = "tensorflow"
    title = "TensorFlow"
    formats = (".keras",)
    libraries = ("tensorflow", "keras")
    loaders = ("copy",)
    axes = ("onednn", "xla")
    no_operator_times = "edgebench does not read TensorFlow's profiler"
    remedy = (
        "load it in Python to see all of the message, and save it again with the versions "
        "installed here: python3 -m pip show keras tensorflow-cpu"
    )

    def import_library(self, settings: Mapping[str, Any], recorder: Recorder) -> None:
        """Import TensorFlow and Keras."""
        threads = settings.get("threads")
        versions = import_tensorflow(threads, settings.get("onednn", True))
        note_runtime(recorder, **versions, threads=threads)

    def model(
        self, file: Path, settings: Mapping[str, Any], profile: Path | None = None
    ) -> EngineModel:
        """Return the network in a file."""
        return _KerasModel(file, settings)


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
