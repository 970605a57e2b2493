"""Import TensorFlow without its chatter, and without what Keras writes to a home folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

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
    with _held_messages():
        import keras
        import tensorflow as tf

        if threads:
            tf.config.threading.set_intra_op_parallelism_threads(threads)
            tf.config.threading.set_inter_op_parallelism_threads(1)
        # Its runtime starts with the first operator; it belongs to the import.
        tf.constant(0)
    return {"tensorflow": tf.__version__, "keras": keras.__version__}


@contextmanager
def _held_messages() -> Iterator[None]:
    """Keep what is written to stderr; write it there only after an exception.

    TensorFlow logs before its own level of messages is in force, so no variable stops that.
    """
    ours, held = os.dup(2), os.memfd_create("stderr")
    os.dup2(held, 2)
    try:
        yield
    except BaseException:
        size = os.lseek(held, 0, os.SEEK_CUR)
        os.write(ours, os.pread(held, size, 0))
        raise
    finally:
        os.dup2(ours, 2)
        os.close(ours)
        os.close(held)
