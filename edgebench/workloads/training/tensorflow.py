"""TensorFlow as a backend of training: what is set before it is imported."""

from __future__ import annotations

import os

from edgebench.workloads.engines.engine import note_runtime
from edgebench.workloads.engines.file_engines import import_tensorflow
from edgebench.workloads.recorder import Recorder
from edgebench.workloads.training.loop import BuildNetwork, Settings

_NO_OPERATOR_TIMES = "TensorFlow's own profiler is not read"


def import_runtime(settings: Settings, recorder: Recorder) -> BuildNetwork:
    """Import TensorFlow and Keras, and the code that trains."""
    versions = import_tensorflow(settings["threads"])
    from edgebench.workloads.training.tensorflow_network import build

    note_runtime(recorder, **versions, threads=settings["threads"] or len(os.sched_getaffinity(0)))
    if recorder.profile_folder:
        recorder.note(no_operator_times=_NO_OPERATOR_TIMES)
    return build
