"""The layer table, and the program that prepares networks outside any limit."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import pytest
from layers_making import layer_rows

from edgebench.layers.layer_table import LayerTableRow
from edgebench.layers.preparation import describe_layers
from edgebench.workloads.preparation import main

pytestmark = pytest.mark.torch


def prepare(capsys: pytest.CaptureFixture[str], **request: Any) -> tuple[int, dict[str, Any]]:
    """Exit code and answer."""
    code = main([json.dumps({**request, "task": "prepare"})])
    return code, json.loads(capsys.readouterr().out)


@functools.cache
def transformer() -> list[LayerTableRow]:
    """A vision transformer's table."""
    return layer_rows("vit_b_32")


def test_alexnets_table_is_the_known_one() -> None:
    """61,100,840 parameters; 714 million multiply-adds, each counted as two operations."""
    rows = layer_rows("alexnet")
    assert [row.order for row in rows] == list(range(21))
    assert sum(row.parameter_bytes for row in rows) == 61_100_840 * 4
    assert sum(row.flops for row in rows) == 2 * 714_188_480
    first = rows[0]
    assert (first.name, first.type) == ("features.0", "Conv2d")
    assert first.output_bytes == 64 * 55 * 55 * 4


def test_operations_and_outputs_grow_with_the_batch() -> None:
    """Weights don't."""
    one, four = layer_rows("lenet", batch=1), layer_rows("lenet", batch=4)
    for single, batched in zip(one, four, strict=True):
        assert batched.flops == 4 * single.flops
        assert batched.output_bytes == 4 * single.output_bytes
        assert batched.parameter_bytes == single.parameter_bytes


def test_a_containers_own_parameters_have_a_row() -> None:
    """It says so, and has neither output nor operations."""
    row = transformer()[0]
    assert (row.name, row.type) == ("(network)", "VisionTransformer (own)")
    assert (row.output_bytes, row.flops, row.parameter_bytes) == (0, 0, 768 * 4)


def test_attention_counts_its_operations() -> None:
    """It is one row, with its matrix products."""
    rows = {row.name: row for row in transformer()}
    attention = rows["encoder.layers.encoder_layer_0.self_attention"]
    projections = 2 * 50 * 768 * 768 * 4
    assert attention.flops >= projections
    assert attention.parameter_bytes == 4 * (4 * 768 * 768 + 4 * 768)


def test_preparing_answers_with_a_manifest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each row names its file and size; the sums are the files'."""
    code, answer = prepare(capsys, networks=["lenet"], cache=str(tmp_path))
    lenet = answer["networks"]["lenet"]
    files = {row["file"]: row["file_bytes"] for row in lenet["table"] if row["file"]}
    on_disk = {path.name: path.stat().st_size for path in Path(lenet["folder"]).glob("*.s*")}
    assert code == 0
    assert files == on_disk
    assert lenet["file_bytes"] == sum(on_disk.values())
    assert lenet["parameter_bytes"] == 61_706 * 4
    assert set(answer["versions"]) == {"torch", "torchvision"}


@pytest.mark.long
def test_parameters_of_a_part_called_twice_count_once() -> None:
    """MaxViT calls its bias tables' owners twice: the sum is the network's, not the rows'."""
    described = describe_layers({"networks": ["maxvit_t"]})["networks"]["maxvit_t"]
    assert described["parameter_bytes"] == 30_919_624 * 4


@pytest.mark.parametrize(
    ("request_", "what"),
    [
        ({"networks": ["lenett"]}, "no network 'lenett'"),
        ({"networks": ["alexnet"], "image": 16}, "can't run on an input"),
        ({"networks": ["lenet"], "checkpoints": {"lenet": "/nowhere.pt"}}, "No such file"),
    ],
)
def test_a_bad_request_is_answered_with_an_error(
    request_: dict[str, Any],
    what: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As JSON, with exit code 1, and nothing made."""
    code, answer = prepare(capsys, cache=str(tmp_path), **request_)
    assert code == 1
    assert what in answer["error"]["what"]
    assert set(answer["error"]) == {"what", "where", "remedy"}
    assert not list(tmp_path.iterdir())


def test_a_cache_that_cannot_be_written_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file is where the folder should be."""
    (tmp_path / "cache").write_text("")
    code, answer = prepare(capsys, networks=["lenet"], cache=str(tmp_path / "cache"))
    assert code == 1
    assert "can't be written" in answer["error"]["what"]
