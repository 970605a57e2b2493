"""``reconcile`` of files, in whatever engine runs them, and of what isn't there."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from shared_sweeps import SharedSweep

from edgebench.cli import cli
from edgebench.errors import EdgebenchError

pytestmark = [pytest.mark.torch, pytest.mark.timeout(1200)]


@pytest.mark.own_cgroup
def test_a_file_of_another_engine_has_the_ledgers_of_the_process(
    shared_sweep: SharedSweep,
) -> None:
    """An ONNX file has no torch to look into; the rest is as of any network."""
    words = ["reconcile", str(shared_sweep("onnx"))]
    told = CliRunner().invoke(cli, words, catch_exceptions=False).stdout
    assert told.startswith("1 point   peaks differ by ")
    assert "small.onnx" in told


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
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EDGEBENCH_CACHE", str(tmp_path / "cache"))
    with pytest.raises(EdgebenchError) as refused:
        CliRunner().invoke(cli, ["reconcile", *words], catch_exceptions=False)
    assert refused.value.exit_code == code
    assert says in str(refused.value)
    assert not (tmp_path / "results").exists()
