"""Layer tables, of known networks and a person's own, and the program that prepares networks."""

from __future__ import annotations

import functools
import json
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from layers_making import layer_rows, request_of

from edgebench.errors import WorkloadError
from edgebench.layers.examination import LayerTableRow
from edgebench.layers.pipeline import describe_layers
from edgebench.workloads.preparation import describe_networks, main

pytestmark = pytest.mark.torch

OWN = """
    import sys
    import torch
    from torch import nn

    def make():
        return nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.Linear(8 * 222 * 222, 10))

    def picky():
        class Picky(nn.Module):
            def forward(self, x):
                return x["images"]
        return Picky()

    def broken():
        raise ValueError("no such file: weights.bin")

    def leaving():
        sys.exit("bye")

    def deep(depth):
        return nn.Sequential(*(nn.Linear(4, 4) for _ in range(depth)))

    def pair():
        class Pair(nn.Module):
            def forward(self, x, y):
                return x + y
        return Pair()

    def seven():
        return 7

    constant = 3
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "mynet.py").write_text(textwrap.dedent(OWN))
    (tmp_path / "torn.py").write_text("import a_module_that_is_not_there\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "modules", sys.modules.copy())
    return tmp_path


def prepare(capsys: pytest.CaptureFixture[str], **request: Any) -> tuple[int, dict[str, Any]]:
    code = main([json.dumps({**request, "task": "prepare"})])
    return code, json.loads(capsys.readouterr().out)


@functools.cache
def transformer() -> list[LayerTableRow]:
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
    rows = {row.name: row for row in transformer()}
    attention = rows["encoder.layers.encoder_layer_0.self_attention"]
    projections = 2 * 50 * 768 * 768 * 4
    assert attention.flops >= projections
    assert attention.parameter_bytes == 4 * (4 * 768 * 768 + 4 * 768)


def test_preparing_answers_with_a_manifest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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
    code, answer = prepare(capsys, cache=str(tmp_path), **request_)
    assert code == 1
    assert what in answer["error"]["what"]
    assert set(answer["error"]) == {"what", "where", "remedy"}
    assert not list(tmp_path.iterdir())


def test_a_cache_that_cannot_be_written_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cache").write_text("")
    code, answer = prepare(capsys, networks=["lenet"], cache=str(tmp_path / "cache"))
    assert code == 1
    assert "can't be written" in answer["error"]["what"]


def test_a_known_network_is_described_as_it_is_prepared():
    made = describe_layers({"networks": ["alexnet"]})["networks"]["alexnet"]
    assert [row["name"] for row in made["table"]] == [row.name for row in layer_rows("alexnet")]
    assert made["parameter_bytes"] == 61_100_840 * 4
    assert made["file_bytes"] == pytest.approx(made["parameter_bytes"], rel=0.001)


def test_a_network_of_ones_own(own: Path):
    request = request_of("mynet:make", own)
    made = describe_networks(**request, identity=None)["networks"]["mynet:make"]
    assert [row["type"] for row in made["table"]] == ["Conv2d", "Flatten", "Linear"]
    assert made["parameter_bytes"] == 4 * (3 * 8 * 9 + 8 + 8 * 222 * 222 * 10 + 10)


@pytest.mark.parametrize(
    ("named", "told", "remedy"),
    [
        ("nonet:make", "no module 'nonet'", "folder that holds it"),
        ("mynet:mak", "module mynet has no 'mak'", "did you mean mynet:make?"),
        ("mynet:deep", "missing a required argument: 'depth'", "it takes depth; arguments follow"),
        ("mynet:make?depth=2", "unexpected keyword argument 'depth'", "it takes nothing"),
        ("mynet:pair", "takes several inputs: x, y", '--input "x='),
        ("mynet:constant", "is no function, but 3", "package.module:function"),
        ("mynet:seven", "made a int, no torch.nn.Module", "package.module:function"),
        ("mynet:broken", "ValueError in your own code: no such file", "import mynet"),
        ("mynet:leaving", "SystemExit in your own code: bye", "import mynet"),
        ("torn:make", "No module named 'a_module_that_is_not_there'", "import torn"),
        ("mynet:picky", "can't run on an input of (1, 3, 224, 224)", "--input"),
    ],
)
def test_what_cant_be_had_is_told(own: Path, named: str, told: str, remedy: str):
    with pytest.raises(WorkloadError) as caught:
        describe_layers(request_of(named, own))
    assert told in caught.value.what
    assert caught.value.remedy
    assert remedy in caught.value.remedy
