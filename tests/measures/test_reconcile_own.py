"""``reconcile`` of a person's own networks: measured at once, in whatever engine runs them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

pytestmark = pytest.mark.torch

_MODULE = """from torch import nn

def make(width=64):
    return nn.Sequential(nn.Conv2d(3, width, 3), nn.ReLU(), nn.Flatten(), nn.Linear(900 * width, 9))
"""


def verb(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """``edgebench reconcile`` in a folder, as a person calls it."""
    return subprocess.run(
        [sys.executable, "-m", "edgebench", "reconcile", *words],
        cwd=folder,
        env={**os.environ, "EDGEBENCH_CACHE": str(folder / "cache")},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


@pytest.mark.own_cgroup
def test_a_module_of_ones_own_is_measured_and_reconciled(tmp_path: Path) -> None:
    """Every ledger is there, down to torch's allocations and the model's own sum."""
    (tmp_path / "mynet.py").write_text(_MODULE)
    words = ("mynet.py:make?width=128", "--input", "float32 1x3x32x32", "--json")
    done = verb(tmp_path, *words)
    assert done.returncode == 0, done.stderr
    (point,) = json.loads(done.stdout)["points"]
    ends = [(led["from"], led["to"]) for led in point["ledgers"]]
    assert {("process", "kernel"), ("malloc", "torch"), ("torch", "analytic")} <= set(ends)
    analytic = point["ledgers"][ends.index(("torch", "analytic"))]
    assert abs(analytic["unexplained_bytes"]) < 1 << 20


@pytest.mark.own_cgroup
def test_a_file_of_another_engine_has_the_ledgers_of_the_process(tmp_path: Path) -> None:
    """An ONNX file has no torch to look into; the rest is as of any network."""
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 1000]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, str(tmp_path / "relu.onnx"))
    done = verb(tmp_path, "relu.onnx")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Strategies' peaks of this point differ by up to")
    assert "relu.onnx" in done.stdout
    assert len(list(tmp_path.glob("results/*/*-reconcile-relu-onnx-*"))) == 1


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("gone.onnx",), 2, "no file"),
        (("nosuchmodule:Net",), 1, "no module 'nosuchmodule'"),
        (("gone",), 1, "gone"),
        ((".", "--input", "float32 1x3"), 2, "--input is of a network that is measured now"),
    ],
)
def test_what_cant_be_reconciled_is_said(
    tmp_path: Path, words: tuple[str, ...], code: int, says: str
) -> None:
    """One message, and no folder of results."""
    done = verb(tmp_path, *words)
    assert done.returncode == code, done.stderr
    assert says in done.stderr
    assert done.stderr.count("edgebench: ") == 1
    assert not (tmp_path / "results").exists()
