"""A bare loop: load a network's file in an engine, execute it, print the seconds of each step.

    python benchmarks/engines/bare.py ENGINE FOLDER NETWORK WARM

One thread. ``first`` is the first execution, ``execute`` the mean of WARM more; without edgebench.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Execute = Callable[[], np.ndarray]
#: Import; then, of a file and an input in NCHW, load, and return what executes it.
Bare = Callable[[], Callable[[Path, str, np.ndarray], Execute]]


def bare_torch() -> Callable[[Path, str, np.ndarray], Execute]:
    """PyTorch: a network of torchvision, its weights from safetensors."""
    import torch
    from safetensors.torch import load_file

    # PyPI's torchvision beside torch for CPUs lacks these, and doesn't import without them.
    with_schema = torch.library.Library("torchvision", "FRAGMENT")
    try:
        import torchvision
    except RuntimeError:
        with_schema.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        with_schema.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        import torchvision

    torch.set_num_threads(1)

    def load(base: Path, name: str, picture: np.ndarray) -> Execute:
        with torch.device("meta"):
            network = torchvision.models.get_model(name).eval()
        network.load_state_dict(load_file(base.with_suffix(".safetensors")), assign=True)
        given = torch.from_numpy(picture)

        def execute() -> np.ndarray:
            with torch.inference_mode():
                made: np.ndarray = network(given).numpy()
            return made

        return execute

    return load


def bare_onnxruntime() -> Callable[[Path, str, np.ndarray], Execute]:
    """ONNX Runtime."""
    import onnxruntime

    def load(base: Path, name: str, picture: np.ndarray) -> Execute:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        file = str(base.with_suffix(".onnx"))
        session = onnxruntime.InferenceSession(file, options, ["CPUExecutionProvider"])
        given = {session.get_inputs()[0].name: picture}
        return lambda: session.run(None, given)[0]

    return load


def bare_litert() -> Callable[[Path, str, np.ndarray], Execute]:
    """LiteRT."""
    from ai_edge_litert.interpreter import Interpreter

    def load(base: Path, name: str, picture: np.ndarray) -> Execute:
        content = base.with_suffix(".tflite").read_bytes()
        engine = Interpreter(model_content=content, num_threads=1)
        engine.allocate_tensors()
        given, made = engine.get_input_details()[0], engine.get_output_details()[0]
        values = np.ascontiguousarray(picture.transpose(0, 2, 3, 1))

        def execute() -> np.ndarray:
            engine.set_tensor(given["index"], values)
            engine.invoke()
            found: np.ndarray = engine.get_tensor(made["index"])
            return found

        return execute

    return load


def bare_tensorflow() -> Callable[[Path, str, np.ndarray], Execute]:
    """TensorFlow."""
    os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="-1")
    import keras
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)

    def load(base: Path, name: str, picture: np.ndarray) -> Execute:
        network = keras.saving.load_model(str(base.with_suffix(".keras")), compile=False)
        graph = tf.function(lambda one: network(one, training=False))
        given = tf.constant(np.ascontiguousarray(picture.transpose(0, 2, 3, 1)))
        return lambda: graph(given).numpy()

    return load


LOOPS: dict[str, Bare] = {
    "torch": bare_torch,
    "onnxruntime": bare_onnxruntime,
    "litert": bare_litert,
    "tensorflow": bare_tensorflow,
}


def timed(step: Callable[[], Any]) -> tuple[float, Any]:
    """The seconds of a step, and what it returns."""
    began = time.perf_counter()
    made = step()
    return time.perf_counter() - began, made


def main(engine: str, folder: Path, name: str, warm: int) -> None:
    """One process: import, load, execute."""
    picture = np.load(folder / f"{name}.npy")
    import_s, load = timed(LOOPS[engine])
    # As edgebench's rounds have it.
    gc.collect()
    gc.disable()
    load_s, execute = timed(lambda: load(folder / name, name, picture))
    first_s, output = timed(execute)
    took = [timed(execute)[0] for _ in range(warm)]
    np.save(folder / f"{name}-{engine}.npy", output)
    seconds = {"import": import_s, "load": load_s, "first": first_s}
    print(json.dumps({**seconds, "execute": sum(took) / warm if warm else 0.0}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
