"""Weights are made once, from a seed or a checkpoint, and cached whole or not at all."""

from __future__ import annotations

import shlex
import subprocess
import sys
import zlib
from pathlib import Path

import outside_models
import pytest
import torch
from layers_making import prepare_known, prepared, written_tensors
from safetensors.torch import save_file

from edgebench.errors import WorkloadError
from edgebench.layers.known_networks import ZOO, import_torchvision

pytestmark = pytest.mark.torch


@pytest.fixture
def checkpoint() -> dict[str, torch.Tensor]:
    """LeNet's state as training would leave it."""
    return dict(ZOO["lenet"]().state_dict())


def test_the_same_seed_gives_the_same_weights(tmp_path: Path) -> None:
    """In another cache, and so on another day, too; another seed gives others."""
    first = written_tensors(prepare_known("lenet", tmp_path / "a", 1)[0])
    second = written_tensors(prepare_known("lenet", tmp_path / "b", 1)[0])
    other = written_tensors(prepare_known("lenet", tmp_path / "b", 2)[0])
    assert all(torch.equal(first[key], second[key]) for key in first)
    assert not any(torch.equal(first[key], other[key]) for key in first)


def test_weights_are_made_once(tmp_path: Path) -> None:
    folder, files = prepare_known("lenet", tmp_path, 0)
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert prepare_known("lenet", tmp_path, 0) == (folder, files)
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    assert all((folder / file).stat().st_size == size for file, size in files.values())


def test_made_weights_hardly_compress(tmp_path: Path) -> None:
    """Zeros would flatter a swap device that compresses."""
    _, files = folder_of_linear = prepare_known("lenet", tmp_path, 0)
    file, size = files["classifier.0"]
    data = (folder_of_linear[0] / file).read_bytes()
    assert len(zlib.compress(data)) > 0.85 * size


def test_what_a_constructor_computes_is_kept(tmp_path: Path) -> None:
    text = f"{Path(outside_models.__file__)}:swin"
    _, about = prepared(text, tmp_path, input="float32 1x3x32x32")
    made = written_tensors(Path(about["folder"]))
    real = dict(outside_models.swin().named_buffers())
    assert {tensor.dtype for tensor in real.values()} == {torch.int64, torch.float32}
    assert set(real) <= set(made)
    assert all(torch.equal(made[key], real[key]) for key in real)


def test_running_statistics_are_random_and_positive(tmp_path: Path) -> None:
    made = written_tensors(prepare_known("shufflenet_v2_x0_5", tmp_path, 0)[0])
    variances = torch.cat([made[key] for key in made if key.endswith("running_var")])
    assert 0.9 <= variances.min() < variances.max() <= 1.1


def test_what_a_killed_maker_left_is_cleared(tmp_path: Path) -> None:
    folder, _ = prepare_known("lenet", tmp_path, 0)
    half_made = folder.with_name(f".{folder.name}.part")
    folder.rename(half_made)
    (half_made / "index.json").unlink()
    assert prepare_known("lenet", tmp_path, 0)[0] == folder
    assert not half_made.exists()


@pytest.mark.parametrize("name", ["lenet.safetensors", "lenet.pt", "lenet.pth", "nested.pt"])
def test_a_checkpoint_is_taken(
    name: str, checkpoint: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    path = tmp_path / name
    if path.suffix == ".safetensors":
        save_file(checkpoint, path)
    else:
        nested = {"state_dict": checkpoint, "epoch": 3}
        torch.save(nested if name == "nested.pt" else checkpoint, path)
    made = written_tensors(prepare_known("lenet", tmp_path, 0, path)[0])
    assert all(torch.equal(made[key], checkpoint[key]) for key in checkpoint)


def test_a_checkpoint_may_lack_what_never_runs_and_what_is_computed(tmp_path: Path) -> None:
    state = import_torchvision().googlenet(weights=None, init_weights=False).state_dict()
    kept = {k: v for k, v in state.items() if "aux" not in k and "num_batches" not in k}
    torch.save(kept, tmp_path / "g.pt")
    made = written_tensors(prepare_known("googlenet", tmp_path, 0, tmp_path / "g.pt")[0])
    assert all(torch.equal(made[key], kept[key]) for key in kept)


def test_a_changed_checkpoint_is_taken_anew(
    checkpoint: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    path = tmp_path / "c.pt"
    torch.save(checkpoint, path)
    first, _ = prepare_known("lenet", tmp_path, 0, path)
    checkpoint["classifier.4.bias"] += 1
    torch.save(checkpoint, path)
    assert prepare_known("lenet", tmp_path, 0, path)[0] != first


def test_a_checkpoint_of_other_shapes_is_refused(
    checkpoint: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    wrong = {key: torch.zeros(tensor.ndim + 1) for key, tensor in checkpoint.items()}
    del wrong["features.0.bias"]
    torch.save(wrong, tmp_path / "c.pt")
    with pytest.raises(WorkloadError) as caught:
        prepare_known("lenet", tmp_path, 0, tmp_path / "c.pt")
    assert "features.0.weight: (5,) in the checkpoint, (6, 1, 5, 5)" in caught.value.what
    assert "features.0.bias: not in the checkpoint" in caught.value.what
    assert "7 more" in caught.value.what


def test_a_checkpoint_that_would_run_code_is_refused(tmp_path: Path) -> None:
    torch.save(ZOO["lenet"](), tmp_path / "c.pt")
    with pytest.raises(WorkloadError, match="reading these runs code in the file") as refused:
        prepare_known("lenet", tmp_path, 0, tmp_path / "c.pt")
    remedy = str(refused.value.remedy)
    assert "if you trust it, convert it" in remedy
    # What it says to type does what it says.
    command = shlex.split(remedy[remedy.index("python3 -c") :])
    subprocess.run([sys.executable, *command[1:]], cwd=tmp_path, check=True)
    converted = torch.load(tmp_path / "weights.pt", weights_only=True)
    assert converted.keys() == ZOO["lenet"]().state_dict().keys()


@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
def test_a_checkpoint_of_the_other_format_or_cut_short(suffix: str, tmp_path: Path) -> None:
    state = ZOO["lenet"]().state_dict()
    save_file(state, tmp_path / "whole.safetensors")
    torch.save(state, tmp_path / "whole.pt")
    other = ".pt" if suffix == ".safetensors" else ".safetensors"
    for data in (
        (tmp_path / f"whole{other}").read_bytes(),
        (tmp_path / f"whole{suffix}").read_bytes()[:-700],
        b"",
    ):
        path = tmp_path / f"c{suffix}"
        path.write_bytes(data)
        with pytest.raises(WorkloadError, match=r"it is no .*, or not a whole one") as refused:
            prepare_known("lenet", tmp_path, 0, path)
        assert "weights_only" not in str(refused.value)
        assert ".safetensors" in str(refused.value.remedy)
