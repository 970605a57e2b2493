"""The training loop: what it records, that training trains, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from training_making import Told, settings, trained

from edgebench.errors import WorkloadError
from edgebench.workloads.training.loop import run_training

pytestmark = pytest.mark.torch


@pytest.mark.parametrize(
    ("optimizer", "rate"),
    [
        *(("sgd", 0.5), ("adam", 0.01)),
        pytest.param("momentum", 0.1, marks=pytest.mark.long),
        pytest.param("adagrad", 0.05, marks=pytest.mark.long),
    ],
)
def test_every_optimizer_trains(optimizer: str, rate: float):
    told = trained(
        network="mlp",
        optimizer=optimizer,
        learning_rate=rate,
        batch=64,
        epochs=5,
        evaluate=True,
    )
    assert told.losses[-1] < told.losses[0] / 2
    assert told.said("test_accuracy") > 0.8


def test_a_step_is_a_round_of_four_phases():
    told = trained(network="mlp", batch=8, accumulation=2, steps=2)
    first = [phase for phase, number, _ in told.spans if number == 0]
    assert first == ["round", *("data", "forward", "backward") * 2, "step"]
    assert [phase for phase, number, _ in told.spans if number is None] == ["import", "init"]


def test_layers_are_told_forward_and_backward_where_asked():
    told = trained(network="lenet", image=28, steps=1, per_layer=True)
    forward = [layer for phase, _, layer in told.spans if phase == "forward" and layer is not None]
    backward = [
        layer for phase, _, layer in told.spans if phase == "backward" and layer is not None
    ]
    assert forward == list(range(11))
    assert backward == sorted(forward, reverse=True)


@pytest.mark.parametrize("network", ["lenet", "basic_cnn", "mlp"])
def test_same_seed_same_losses(network: str):
    first, second = (trained(network=network, image=28, steps=3).losses for _ in range(2))
    assert first == second


@pytest.mark.parametrize(
    "network",
    [
        "mobilenet_v2",
        *(pytest.param(n, marks=pytest.mark.long) for n in ("alexnet", "resnet18", "mobilenet_v1")),
    ],
)
def test_checkpointing_changes_no_loss(network: str):
    plain, again = (
        trained(network=network, image=64, batch=2, steps=2, checkpointing=on).losses
        for on in (False, True)
    )
    assert plain == again


def test_accumulation_gives_the_whole_batch_s_gradients():
    whole, parts = (
        trained(network="mlp", batch=32, accumulation=n, steps=4, learning_rate=0.5).losses
        for n in (1, 4)
    )
    assert parts == pytest.approx(whole, rel=1e-5)


def test_half_as_many_bits_half_the_bytes():
    full, half = (
        trained(network="lenet", image=28, steps=1, precision=p).said("held_bytes")
        for p in ("float32", "bfloat16")
    )
    assert {name: 2 * size for name, size in half.items()} == full


@pytest.mark.parametrize(("optimizer", "copies"), [("sgd", 0), ("momentum", 1), ("adam", 2)])
def test_what_an_optimizer_keeps(optimizer: str, copies: int):
    held = trained(network="lenet", image=28, steps=2, optimizer=optimizer).said("held_bytes")
    assert held["gradients"] == held["parameters"]
    assert held["optimizer"] == pytest.approx(copies * held["parameters"], abs=100)


def test_a_loss_that_is_no_number_ends_training():
    with pytest.raises(WorkloadError, match="the loss became nan in step"):
        trained(network="mlp", learning_rate=1e5, steps=30)


@pytest.mark.parametrize(
    ("workload", "says"),
    [
        ({"network": "lenet"}, "lenet needs images of 12 x 12 pixels or more; these have 8 x 8"),
        ({"network": "alexnet", "batch": 1}, "alexnet can't be trained on images of 1 x 3 x 8 x 8"),
        ({"network": "mlp", "batch": 2000}, "a batch of 2000 is larger than the data"),
        (
            {"network": "resnet18", "data": "synthetic", "shape": "2x32x32"},
            "resnet18 reads images of 3 colours, or grey ones, not of 2 channels",
        ),
    ],
)
def test_what_cant_be_trained_is_said(workload: dict[str, object], says: str):
    with pytest.raises(WorkloadError, match=says):
        trained(steps=1, **workload)


def test_grey_images_in_networks_for_colour_are_seen_once():
    from edgebench.workloads.training.loop import Problem
    from edgebench.workloads.training.pytorch import build

    made = build(settings(network="resnet18"), Problem((1, 32, 32), 10, 16), Told())
    batch = made.batch(torch.ones(4, 1, 32, 32, dtype=torch.uint8).numpy(), torch.zeros(4).numpy())
    assert batch.images.shape == (4, 3, 32, 32)
    assert batch.images.untyped_storage().nbytes() == 4 * 32 * 32 * 4


def test_right_labels_are_counted_after_the_step(monkeypatch: pytest.MonkeyPatch):
    """Off its clock, from small scores; larger ones would add to the peak and are counted in it."""
    from edgebench.workloads.training import loop

    told, limit = {}, loop._MOST_KEPT_BYTES
    for kept in (limit, 0):
        monkeypatch.setattr(loop, "_MOST_KEPT_BYTES", kept)
        counts: list[bool] = []
        recorder = Told()
        with monkeypatch.context() as patched:
            patched.setattr(torch.Tensor, "argmax", seen(torch.Tensor.argmax, recorder, counts))
            run_training(settings(network="mlp", batch=8, steps=3), recorder)
        told[kept] = [note["accuracy"] for note in recorder.notes if "accuracy" in note]
        assert counts == [kept == 0] * 3
    assert told[0] == told[limit]
    assert all(0 <= 8 * share <= 8 for share in told[0])


def seen(argmax: Any, recorder: Told, counts: list[bool]) -> Any:
    def called(*words: Any) -> Any:
        counts.append(bool(recorder._open))
        return argmax(*words)

    return called


def test_the_heap_is_trimmed_within_each_step(monkeypatch: pytest.MonkeyPatch):
    trims: list[None] = []

    def trimmer(asked: dict[str, Any]) -> Any:
        return (lambda: trims.append(None)) if asked.get("malloc_trim") else (lambda: None)

    monkeypatch.setattr("edgebench.workloads.training.loop.heap_trimmer", trimmer)
    plain = trained(network="mlp", batch=8, steps=3)
    assert not trims
    told = trained(network="mlp", batch=8, steps=3, malloc_trim=True)
    assert len(trims) == 3
    assert told.losses == plain.losses
    assert told.spans == plain.spans
