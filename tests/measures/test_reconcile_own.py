"""``reconcile`` of a person's own networks: measured at once, in whatever engine runs them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from edgebench.cli import cli
from edgebench.errors import EdgebenchError

pytestmark = [pytest.mark.torch, pytest.mark.timeout(1200)]


def verb(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """``edgebench reconcile`` in a folder, as a person calls it."""
    return subprocess.run(
        [sys.executable, "-m", "edgebench", "reconcile", *words],
        cwd=folder,
        env={**os.environ, "EDGEBENCH_CACHE": str(folder / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.own_cgroup
def test_a_file_of_another_engine_has_the_ledgers_of_the_process(tmp_path: Path) -> None:
    """An ONNX file has no torch to look into; the rest is as of any network."""
    onnx = pytest.importorskip("onnx")
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    ends = [helper.make_tensor_value_info(name, kind, [1, 1000]) for name in "xy"]
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
        pytest.param(
            ("nosuchmodule:Net",),
            1,
            "no module 'nosuchmodule'",
            marks=[pytest.mark.own_cgroup, pytest.mark.torch],
        ),
        (("gone",), 1, "gone"),
        ((".", "--input", "float32 1x3"), 2, "--input is of a network that is measured now"),
    ],
)
def test_what_cant_be_reconciled_is_said(
    tmp_path: Path, words: tuple[str, ...], code: int, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One message, and no folder of results."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EDGEBENCH_CACHE", str(tmp_path / "cache"))
    with pytest.raises(EdgebenchError) as refused:
        CliRunner().invoke(cli, ["reconcile", *words], catch_exceptions=False)
    assert refused.value.exit_code == code
    assert says in str(refused.value)
    assert not (tmp_path / "results").exists()
