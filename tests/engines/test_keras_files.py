"""Keras files: what Keras opens is executed as a plain call executes it; the rest is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from engine_models import made_keras

from tests.own_path import python_path

pytestmark = pytest.mark.skipif(not find_spec("keras"), reason="needs Keras")
#: Makes files, has each of them prepared, and prints what came of it: Keras's own output for the
#: inputs that a trial makes, and the trial's; or the error.
_RUN = """
import json
from pathlib import Path
import numpy as np
from engine_models import run_settings
from engine_runs import prepared, run
from edgebench.errors import EdgebenchError
from edgebench.layers.input_specs import FileInput, make_inputs
from edgebench.workloads.engines.file_engines import import_tensorflow
import hashlib
import_tensorflow(1)
import keras
one, other = keras.Input((8,), name="one"), keras.Input((8,), name="other", dtype="int32")
both = one + keras.ops.cast(other, "float32")
outputs = [keras.layers.Dense(3)(both), keras.layers.Dense(2)(one)]
keras.Model({"one": one, "other": other}, outputs).save("two.keras")
keras.Sequential([keras.Input((None, None, 3)), keras.layers.Conv2D(2, 3)]).save("free.keras")
keras.Sequential([keras.Input((8,)), keras.layers.Lambda(lambda x: x * 2)]).save("code.keras")
Path("broken.keras").write_bytes(Path("small.keras").read_bytes()[:9000])
told = {}
for name in ("small", "two", "free", "code", "broken"):
    file = Path(f"{name}.keras").absolute()
    try:
        made = prepared(file, Path("cache").absolute())
        notes = run(file.name, "tensorflow", Path(made["folder"])).notes
        network = keras.saving.load_model(file)
        inputs = [FileInput(i.name, i.dtype, tuple(i.shape)) for i in network.inputs]
        given = make_inputs(inputs, {"batch": 1, "seed": 3}, "f")
        plain = keras.tree.flatten(network(given if name == "two" else given["picture"]))
        plain = b"".join(np.asarray(one).tobytes() for one in plain)
        told[name] = [notes["output_sha256"][file.name], hashlib.sha256(plain).hexdigest()]
    except EdgebenchError as error:
        told[name] = [error.what, error.remedy]
print(json.dumps(told))
"""


@pytest.mark.torch
def test_what_becomes_of_keras_files(tmp_path: Path):
    made_keras(tmp_path)
    env = {**os.environ, "PYTHONPATH": f"{python_path()}:{Path(__file__).parent}"}
    done = subprocess.run(
        [sys.executable, "-c", _RUN], cwd=tmp_path, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    for name in ("small", "two"):
        trial, plain = told[name]
        assert trial == plain, name
    assert "is float32 ? x ? x ? x 3" in told["free"][0]
    assert "float32 1x224x224x3" in told["free"][1]
    assert told["code"][0].startswith("TensorFlow can't load it: ")
    assert "Lambda" in told["code"][0]
    assert told["broken"][0].startswith("TensorFlow can't load it: ")
