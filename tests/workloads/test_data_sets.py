"""Data sets by name, real and made ones, and the verb that lists, reads and fetches them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from data_making import TRAIN, write_cifar, write_mnist

from edgebench.cli import cli
from edgebench.errors import UsageError, WorkloadError
from edgebench.workloads.training.data_sources import load_data
from edgebench.workloads.training.names import DATA_SETS, DATA_SHAPES


def test_digits_are_those_of_the_uci_repository():
    """The classes are as often there as the repository says; each image once, of 0 to 16."""
    ours = load_data("digits", Path())
    labels = np.concatenate([ours.train.labels, ours.test.labels])
    counts = [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert np.bincount(labels).tolist() == counts
    images = np.concatenate([ours.train.images, ours.test.images]).reshape(-1, 64)
    assert len(np.unique(images, axis=0)) == sum(counts)
    assert (images.min(), images.max()) == (0, 16)
    assert (len(ours.train), len(ours.test), ours.shape) == (1500, 297, (1, 8, 8))


@pytest.mark.process
def test_digits_bring_no_library_in():
    """Reading them imports numpy alone: other code would count as memory in use."""
    import subprocess
    import sys

    code = (
        "import sys\n"
        "from edgebench.workloads.training.data_sources import load_data\n"
        "load_data('digits', None)\n"
        "assert not {'scipy', 'torchvision', 'torch'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.torch
@pytest.mark.parametrize(
    ("name", "folder"), [("mnist", "MNIST"), ("fashion-mnist", "FashionMNIST")]
)
def test_idx_files_are_read_by_torchvision(tmp_path: Path, name: str, folder: str):
    written = write_mnist(tmp_path, folder)
    data = load_data(name, tmp_path)
    assert data.train.images.shape == (TRAIN, 1, 28, 28)
    assert np.array_equal(data.train.images[:, 0], written["train-images-idx3"])
    assert data.test.labels.tolist() == written["t10k-labels-idx1"].tolist()


@pytest.mark.torch
def test_cifar_files_are_read_by_torchvision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from edgebench.layers.known_networks import import_torchvision

    import_torchvision()
    from torchvision.datasets import CIFAR10

    written, sums = write_cifar(tmp_path)
    monkeypatch.setattr(CIFAR10, "train_list", [[n, sums[n]] for n in sorted(sums) if "data" in n])
    monkeypatch.setattr(CIFAR10, "test_list", [["test_batch", sums["test_batch"]]])
    monkeypatch.setattr(CIFAR10, "meta", {**CIFAR10.meta, "md5": sums["batches.meta"]})
    data = load_data("cifar10", tmp_path)
    monkeypatch.undo()
    # Files that are not CIFAR-10's own.
    with pytest.raises(WorkloadError, match="corrupt"):
        load_data("cifar10", tmp_path)
    first = written["data_batch_1"].reshape(-1, 3, 32, 32)
    assert data.train.images.shape == (10, 3, 32, 32)
    assert np.array_equal(data.train.images[:2], first)


def test_a_missing_data_set_says_how_to_get_it(tmp_path: Path):
    with pytest.raises(WorkloadError) as refused:
        load_data("fashion-mnist", tmp_path)
    assert refused.value.where == str(tmp_path)
    assert f"edgebench data fashion-mnist --download --folder {tmp_path}" in str(refused.value)


@pytest.mark.torch
@pytest.mark.parametrize("keep", [0, 3, 16, 1000])
def test_a_torn_file_is_said_to_be_corrupt(tmp_path: Path, keep: int):
    write_mnist(tmp_path)
    file = tmp_path / "MNIST/raw/train-images-idx3-ubyte"
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(WorkloadError, match="corrupt"):
        load_data("mnist", tmp_path)


@pytest.mark.torch
def test_a_label_out_of_range_is_corrupt(tmp_path: Path):
    write_mnist(tmp_path, highest_label=200)
    with pytest.raises(WorkloadError, match="labels up to 200"):
        load_data("mnist", tmp_path)


def test_no_other_data_set_is_taken(tmp_path: Path):
    with pytest.raises(WorkloadError, match=r"no data set 'cifar-10'(?s:.*)did you mean 'cifar10'"):
        load_data("cifar-10", tmp_path)


@pytest.mark.parametrize("name", [name for name in DATA_SHAPES if name.startswith("synthetic")])
def test_made_sets_have_the_real_ones_shapes(name: str):
    data = load_data(name, Path(), examples=8)
    assert data.shape == DATA_SHAPES[name] == DATA_SHAPES[name.removeprefix("synthetic-")]
    assert (len(data.train), len(data.test)) == (8, 2)


def test_the_same_seed_makes_the_same_set():
    first, second, third = (
        load_data("synthetic", Path(), shape=(3, 20, 13), examples=6, seed=seed)
        for seed in (5, 5, 6)
    )
    assert np.array_equal(first.train.images, second.train.images)
    assert np.array_equal(first.test.labels, second.test.labels)
    assert not np.array_equal(first.train.images, third.train.images)


def test_made_images_can_be_learned():
    data = load_data("synthetic-mnist", Path(), examples=400)
    images, labels = data.train.images, data.train.labels
    means = np.stack([images[labels == label].mean(0).ravel() for label in range(10)])
    tested = data.test.images.reshape(len(data.test), 1, -1)
    nearest = np.square(tested - means).sum(2).argmin(1)
    assert (nearest == data.test.labels).mean() > 0.9


def data(*words: str) -> Result:
    return CliRunner().invoke(cli, ["data", *words])


def test_all_are_listed_with_what_to_type(tmp_path: Path):
    shown = data("--folder", str(tmp_path))
    assert shown.exit_code == 0
    assert all(name in shown.output for name in DATA_SETS)
    assert "edgebench data mnist --download" in shown.output


@pytest.mark.torch
def test_files_that_are_there_are_seen(tmp_path: Path):
    """JSON says so, and a name alone is read whole."""
    write_mnist(tmp_path)
    told = json.loads(data("--folder", str(tmp_path), "--json").output)
    states = {row["name"]: row["state"] for row in told["data_sets"]}
    assert states["mnist"] == "downloaded"
    words = " ".join(data("mnist", "--folder", str(tmp_path)).output.split())
    assert "12 training and 4 test images of 1x28x28, in 10 classes" in words


@pytest.mark.parametrize("words", [("--download",), ("digits", "--download")])
def test_only_sets_of_files_are_fetched(words: tuple[str, ...]):
    with pytest.raises(UsageError, match="can be downloaded"):
        CliRunner().invoke(cli, ["data", *words], catch_exceptions=False)
