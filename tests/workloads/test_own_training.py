"""Networks, losses and data of the user's own are trained; what is wrong is one clear message."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from own_training import Regressor, squares, table
from training_making import settings, trained

from edgebench.errors import EdgebenchError, WorkloadError
from edgebench.workloads.training.loop import describe_code

pytestmark = pytest.mark.torch

FILE = Path(__file__).parent / "own_training.py"
REGRESSION = {
    "network": f"{FILE}:Regressor",
    "loss": f"{FILE}:squares?weight=2",
    "data": f"{FILE}:table",
    "batch": 8,
    "steps": 4,
}


def test_its_losses_are_those_of_a_plain_loop() -> None:
    told = trained(**REGRESSION)
    torch.manual_seed(1)
    network = Regressor().train()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    inputs, targets = map(torch.from_numpy, table())
    order = torch.from_numpy(np.random.default_rng(1).permutation(64))
    losses = []
    for step in range(4):
        rows = order[step * 8 : step * 8 + 8]
        loss = squares(network(inputs[rows]), targets[rows], 2)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert told.losses == losses
    assert told.said("accuracy") is None


def test_labels_are_counted_and_tested() -> None:
    told = trained(
        network=f"{FILE}:Classifier", data=f"{FILE}:images", batch=16, steps=2, evaluate=True
    )
    assert 0 <= told.said("accuracy") <= 1
    assert 0 <= told.said("test_accuracy") <= 1


def test_each_part_may_be_ones_own_alone() -> None:
    known = trained(network="basic_cnn", data=f"{FILE}:images", batch=4, steps=1)
    made_up = {"data": "synthetic", "shape": "3x32x32", "batch": 4, "steps": 1}
    own = trained(network=f"{FILE}:Classifier", **made_up)
    smooth = "torch.nn:CrossEntropyLoss?label_smoothing=0.1"
    smoothed = trained(network=f"{FILE}:Classifier", loss=smooth, **made_up)
    assert len(known.losses) == len(own.losses) == 1
    assert own.losses != smoothed.losses


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"loss": f"{FILE}:of_each"}, "returned float32 of 8 x 2, and a loss is a tensor of one"),
        ({"loss": f"{FILE}:a_number"}, "returned a float, and a loss is a tensor"),
        ({"loss": f"{FILE}:detached"}, "has no gradient"),
        ({"loss": f"{FILE}:failing"}, "KeyError in your own loss: 'y'"),
        ({"loss": f"{FILE}:of_one"}, "edgebench gives it outputs, targets"),
        ({"loss": f"{FILE}:square"}, "own_training has no 'square'"),
        ({"data": f"{FILE}:one_array"}, "returned a ndarray"),
        ({"data": f"{FILE}:uneven"}, "4 inputs with 3 targets"),
        ({"data": f"{FILE}:words"}, "its inputs are of type <U1"),
        ({"data": f"{FILE}:table?row=3"}, "unexpected keyword argument 'row'"),
        ({"data": f"{FILE}:images"}, "can't be trained on inputs of 8 x 3 x 32 x 32"),
        ({"loss": None}, "returned a dict; cross-entropy needs scores"),
        ({"network": "lenet", "loss": None}, "lenet learns classes of images"),
        ({"evaluate": True}, "the data have none"),
        (
            {"network": f"{FILE}:Classifier?classes=5", "data": f"{FILE}:images", "loss": None},
            "returned float32 of 8 x 5; cross-entropy needs scores",
        ),
    ],
)
def test_what_is_wrong_is_one_message(keys: dict[str, Any], says: str) -> None:
    given = {key: value for key, value in {**REGRESSION, **keys}.items() if value is not None}
    with pytest.raises(WorkloadError) as error:
        trained(**given)
    assert says in error.value.what
    assert error.value.remedy


def test_its_code_is_the_sweeps_identity(tmp_path: Path) -> None:
    file = tmp_path / "changing_training.py"
    file.write_text(FILE.read_text())
    named = {key: str(value).replace(str(FILE), str(file)) for key, value in REGRESSION.items()}
    made = settings(**{**named, "batch": 8, "steps": 1})
    before = describe_code({"workloads": [made]})
    assert str(file) in before["code"]
    file.write_text(file.read_text() + "# another line\n")
    assert describe_code({"workloads": [made]})["content"] != before["content"]
    from edgebench.workloads.recorder import Recorder
    from edgebench.workloads.training.loop import prepared

    with pytest.raises(WorkloadError, match="changed while it was measured"):
        prepared({**made, "code": before["code"]}, Recorder())


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"network": f"{FILE}:Regressors"}, "did you mean own_training.py:Regressor?"),
        ({"network": f"{FILE}:squares"}, "missing a required argument: 'outputs'"),
        ({"loss": f"{FILE}:squares?weights=2"}, "unexpected keyword argument 'weights'"),
    ],
)
def test_what_cant_be_found_is_said_before_any_trial(keys: dict[str, str], says: str) -> None:
    with pytest.raises(EdgebenchError) as error:
        describe_code({"workloads": [settings(**{**REGRESSION, **keys})]})
    assert says in f"{error.value.what} {error.value.remedy}"
