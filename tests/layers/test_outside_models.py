"""Networks from outside run layer by layer as they are, with outputs equal bit for bit."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from layers_making import SEED, SpanLog, prepared
from outside_models import CONFIGS, Deciding

from edgebench.errors import WorkloadError
from edgebench.layers.examination import sample_of
from edgebench.layers.network import run_model, tensors_in
from edgebench.layers.pipeline import SCHEDULES, build_pipeline, shared_files
from edgebench.layers.references import parse_reference
from edgebench.layers.sources import network_source
from edgebench.layers.tensor_files import LOADERS

pytestmark = pytest.mark.torch

HERE = Path(__file__).parent


def _long(*names: str) -> list[Any]:
    return [pytest.param(name, marks=pytest.mark.long) for name in names]


OWN = ("Detector", "TiedEncoder", *_long("Recurrent", "Deciding"))
OF_TORCHVISION = ("convnext", *_long("vision_transformer", "swin", "maxvit"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, config in CONFIGS.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps(config))
    return tmp_path


def plain_outputs(text: str, folder: Path, **keys: Any) -> list[torch.Tensor]:
    source = network_source(parse_reference(text, folder))
    torch.manual_seed(SEED)
    model = source.construct(weights=True)
    sample = sample_of(source, model, {"seed": SEED, **keys}, 1)
    with torch.inference_mode():
        return list(tensors_in(run_model(model, sample)))


def check_outputs(text: str, folder: Path, combinations: list[tuple[str, str]], **keys: Any) -> Any:
    settings, made = prepared(text, folder, **keys)
    expected = plain_outputs(text, folder, **keys)
    assert expected
    for schedule, loader in combinations:
        how = {**settings, "schedule": schedule, "loader": loader}
        pipeline = build_pipeline(how, SpanLog())
        for number in range(2):
            outputs = list(tensors_in(pipeline.schedule.run(pipeline.inputs, number)))
            assert len(outputs) == len(expected), schedule
            assert all(map(torch.equal, outputs, expected)), (schedule, loader)
        (network,) = pipeline.schedule.networks
        left = [name for name, tensor in network.model.named_parameters() if not tensor.is_meta]
        assert not left, "weights stay in memory after a round"
    return made


EVERY = [(schedule, loader) for schedule in SCHEDULES for loader in LOADERS]
TWO = [("linear", "copy"), ("stream", "mmap")]


@pytest.mark.parametrize("name", OWN)
def test_own_modules_compute_what_they_always_compute(name: str, folder: Path) -> None:
    check_outputs(f"{HERE}/outside_models.py:{name}", folder, EVERY)


@pytest.mark.parametrize("name", OF_TORCHVISION)
def test_classes_of_torchvision_compute_what_they_always_compute(name: str, folder: Path) -> None:
    """Attention whole or with tables of its own, layer scales, class tokens; in small."""
    text, image = f"{HERE}/outside_models.py:{name}", "float32 1x3x32x32"
    check_outputs(text, folder, EVERY, input=image)


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_transformers_compute_what_they_always_compute(name: str, folder: Path) -> None:
    pytest.importorskip("transformers")
    check_outputs(f"transformers:{name}", folder, TWO)


@pytest.mark.long
@pytest.mark.parametrize("name", CONFIGS)
def test_transformers_under_every_schedule(name: str, folder: Path) -> None:
    pytest.importorskip("transformers")
    check_outputs(f"transformers:{name}", folder, EVERY)


def test_an_exported_program_is_a_network(folder: Path) -> None:
    module = torch.nn.Sequential(
        torch.nn.Linear(300, 400), torch.nn.ReLU(), torch.nn.Linear(400, 5)
    )
    program = torch.export.export(module.eval(), (torch.rand(1, 300),))
    torch.export.save(program, folder / "model.pt2")
    made = check_outputs("model.pt2", folder, TWO)
    assert [row["part"] for row in made["table"]] == ["0", "1", "2"]
    hollow = Path(made["folder"]) / "program.pt2"
    assert hollow.stat().st_size < (folder / "model.pt2").stat().st_size / 5


def test_tied_weights_are_on_disk_and_in_memory_once(folder: Path) -> None:
    """Embedding and head are one tensor, so the network is as large as its parameters."""
    settings, made = prepared(f"{HERE}/outside_models.py:TiedEncoder", folder)
    (shared,) = shared_files(Path(made["folder"]))
    assert shared.places == {
        "embedding.weight": [("embedding", "weight"), ("head", "weight")],
    }
    how = {**settings, "schedule": "bulk", "loader": "copy"}
    network = build_pipeline(how, SpanLog()).schedule.networks[0]
    for call in network.first_calls():
        network.load(call)
    modules = dict(network.model.named_modules())
    tied = {row["part"]: row["tied_bytes"] for row in made["table"] if row["tied_bytes"]}
    assert tied == {name: {"embedding.weight": 50 * 16 * 4} for name in ("embedding", "head")}
    one, other = (modules[name].weight.data_ptr() for name in ("embedding", "head"))
    assert one == other
    assert (
        made["parameter_bytes"] == sum(p.nbytes for p in network.model.parameters()) - 50 * 16 * 4
    )


def test_inputs_are_called_by_name(folder: Path) -> None:
    described = {"ids": "int64 1x7 <1000", "mask": "float32 1x7 ones"}
    check_outputs(f"{HERE}/outside_models.py:Pair", folder, EVERY[:1], input=described)


def test_a_network_that_cant_run_on_meta_has_the_layers_of_the_path_it_takes(folder: Path) -> None:
    _, made = prepared(f"{HERE}/outside_models.py:Deciding", folder)
    assert [row["part"] for row in made["table"]] == ["first", "second"]
    assert Deciding().eval()(torch.ones(1, 8)).shape == (1, 8)


def test_changed_code_ends_the_trial_and_is_another_network(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trial never runs other code than its sweep began with; a new start knows it is new."""
    code = "from torch import nn\n\ndef make():\n    return nn.Conv2d(3, 4, 3)\n"
    file = folder / "changing_network.py"
    file.write_text(code)
    settings, before = prepared("changing_network.py:make", folder)
    file.write_text(code + "# another line\n")
    with pytest.raises(WorkloadError, match="changed while it was measured"):
        build_pipeline({**settings, "schedule": "bulk", "loader": "copy"}, SpanLog())
    _, after = prepared("changing_network.py:make", folder)
    assert after["content"] != before["content"]
    assert after["folder"] != before["folder"]


def test_code_that_was_moved_is_the_same_network(folder: Path) -> None:
    """Weights prepared where it was before name files that are gone: they are made again."""
    code = "from torch import nn\n\ndef make():\n    return nn.Conv2d(3, 4, 3)\n"
    made = []
    for place in ("before", "now"):
        (folder / place).mkdir()
        (folder / place / "moved_network.py").write_text(code)
        settings, found = prepared(f"{place}/moved_network.py:make", folder)
        build_pipeline({**settings, "schedule": "bulk", "loader": "copy"}, SpanLog())
        (folder / place / "moved_network.py").unlink()
        made.append(found)
    assert made[0]["folder"] != made[1]["folder"]


BERT = json.dumps(CONFIGS["bert"]).encode()
#: Files of networks that are refused.
REFUSED = {
    "broken.pt2": b"PK\x03\x04 cut short",
    "model.onnx": b"",
    "empty/none": b"",
    "strange/config.json": b'{"model_type": "nothing known"}',
    "pickled/config.json": BERT,
    "pickled/pytorch_model.bin": b"",
    "pickled_beside/config.json": BERT,
    "pickled_beside/pytorch_model.bin": b"",
    "pickled_beside/other.safetensors": b"",
    "elsewhere/config.json": BERT,
    "elsewhere/model.safetensors.index.json": b'{"weight_map": {"a": "../secret.safetensors"}}',
    "torn/config.json": BERT,
    "torn/model.safetensors.index.json": b'{"weight_map": {"a": 5}}',
    "with_code/config.json": b'{"model_type": "own", "auto_map": {"AutoConfig": "own.Config"}}',
    "with_code/own.py": b"raise SystemExit('it ran')\n",
    "large.py": b"from torch import nn\n\ndef make():\n    return nn.Linear(3 * 10**6, 10**6)\n",
}


@pytest.mark.parametrize(
    ("text", "says", "remedy"),
    [
        ("broken.pt2", "torch.export.load can't read broken.pt2", "torch.export.save"),
        ("another.pt2", "torch.export.load can't read another.pt2", "torch.export.save"),
        ("model.onnx", "torch does not run", "package.module:function"),
        ("transformers:empty", "no config.json", "save_pretrained"),
        ("transformers:pickled", "the weights are pickled", "save_pretrained"),
        ("transformers:strange", "nothing known", ""),
        ("transformers:pickled_beside", "no file named model.safetensors", ""),
        ("transformers:with_code", "contains custom code", ""),
        ("transformers:elsewhere", "names other files: '../secret.safetensors'", "anew"),
        ("transformers:torn", "index of its weights names other files", "anew"),
        ("large.py:make", "are free on this machine", "smaller"),
    ],
)
def test_what_cant_be_had_is_said_in_a_sentence(
    text: str, says: str, remedy: str, folder: Path
) -> None:
    if text.startswith("transformers"):
        pytest.importorskip("transformers")
    for name, content in REFUSED.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    with zipfile.ZipFile(folder / "another.pt2", "w") as archive:
        archive.writestr("config.json", "{}")
    keys = {"input": "float32 1x3000000"} if text.startswith("large") else {}
    with pytest.raises(WorkloadError, match=says) as refused:
        prepared(text, folder, **keys)
    assert remedy in str(refused.value.remedy or "")


@pytest.mark.parametrize(
    ("described", "says"),
    [
        ({"ids": "int64 1x7 <1000"}, "missing 1 required positional argument"),
        ({"ids": "float32 1x7", "mask": "float32 1x7"}, "can't run on an input"),
    ],
)
def test_an_input_that_does_not_match_is_refused(
    described: dict[str, str], says: str, folder: Path
) -> None:
    with pytest.raises(WorkloadError, match=says) as refused:
        prepared(f"{HERE}/outside_models.py:Pair", folder, input=described)
    assert "--input" in str(refused.value.remedy)
