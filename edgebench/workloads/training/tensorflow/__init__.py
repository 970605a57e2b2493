"""TensorFlow as a backend of training (:class:`edgebench.workloads.training.loop.Backend`)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from edgebench.workloads.engines.engine import note_runtime
from edgebench.workloads.engines.file_engines import import_tensorflow
from edgebench.workloads.recorder import Recorder
from edgebench.workloads.training.loop import Problem, Settings

if TYPE_CHECKING:
    from edgebench.workloads.training.tensorflow.network import TensorflowNetwork

_NO_OPERATOR_TIMES = "TensorFlow's own profiler is not read"


def import_runtime(settings: Settings, recorder: Recorder) -> None:
    """Import TensorFlow and Keras, and the code that trains."""
    versions = import_tensorflow(settings["threads"])
    # Its code counts as base.
    import edgebench.workloads.training.tensorflow.network  # noqa: F401

    note_runtime(recorder, **versions, threads=settings["threads"] or len(os.sched_getaffinity(0)))
    if recorder.profile_folder:
        recorder.note(no_operator_times=_NO_OPERATOR_TIMES)


def build(settings: Settings, problem: Problem, recorder: Recorder) -> TensorflowNetwork:
    """Build the network with its optimizer, equal for equal seeds.

    Raises:
        WorkloadError: the network can't be had for such images.
    """
    import keras

    from edgebench.workloads.training.tensorflow.network import (
        CompiledTensorflowNetwork,
        TensorflowNetwork,
        keras_network,
    )

    keras.utils.set_random_seed(settings["seed"])
    network = keras_network(settings["network"], problem)
    kind = CompiledTensorflowNetwork if settings["compiled"] else TensorflowNetwork
    return kind(network, settings, problem)
