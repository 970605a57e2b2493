"""The table of engines: what each can do, which files it runs, and what tells its trials apart."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from edgebench.layers.names import SCHEDULES as BY_LAYER
from edgebench.results.frames import ENGINE
from edgebench.results.workload_labels import workload_label
from edgebench.workloads.engines.registry import all_engines, engine_of, engines_for
from tests.own_path import python_path


@pytest.mark.process
def test_names_and_formats_need_no_heavy_library():
    """A scenario is read where no engine is installed: the table of engines imports none."""
    code = (
        "import sys; from edgebench.workloads.engines.registry import all_engines; all_engines(); "
        "print([m for m in ('torch', 'onnxruntime', 'onnx', 'ai_edge_litert', 'tensorflow', "
        "'keras', 'numpy') if m in sys.modules])"
    )
    env = {**os.environ, "PYTHONPATH": python_path()}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=True)
    assert done.stdout.strip() == b"[]"
    assert list(all_engines()) == ["torch", "litert", "onnxruntime", "tensorflow"]
    assert engines_for("a.onnx") == ("onnxruntime",)
    assert engines_for("a.TFLITE") == ("litert",)
    assert engines_for("a.keras") == ("tensorflow",)
    assert engines_for("resnet18") == ("torch",)
    assert not engine_of("litert").by_layer
    assert engine_of("onnxruntime").by_layer


def test_each_option_is_a_column_and_in_a_label():
    """Two workloads that differ in an option alone are told apart in frames and in words."""
    for engine in all_engines().values():
        assert set(engine.axes) <= set(ENGINE)
        for axis in engine.axes:
            known = {workload_label({axis: value}) for value in (True, False)}
            assert len(known) == 2, axis


def test_torch_is_behind_the_same_interface():
    """Its engine answers as the others do: what it can, what it needs, and who runs a name."""
    torch = all_engines()["torch"]
    assert torch.available() is None
    assert torch.schedules == BY_LAYER
    assert not hasattr(torch, "prepare")
