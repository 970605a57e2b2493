"""A training scenario checked: faults are one sentence, axes cross where they mean something."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edgebench.errors import ScenarioError
from edgebench.scenario.points import has_own_trial, points
from edgebench.scenario.scenario import load_scenario


def scenario(folder: Path, *lines: str) -> Any:
    file = folder / "given.toml"
    keys = "\n".join(('kind = "training"', *lines))
    file.write_text(f'schema = 1\nname = "given"\n[workload]\n{keys}\n')
    return load_scenario(file)


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (['network = "lennet"'], "did you mean 'lenet'?"),
        (['network = "lenet"', 'optimizer = "adm"'], "no optimizer 'adm'; did you mean 'adam'?"),
        (['network = "lenet"', "learning_rate = 0"], "0 is not a learning rate"),
        (['network = "lenet"', "steps = 2", "epochs = 2"], "steps and epochs can't both be given"),
        (['network = "lenet"', "batch = 10", "accumulation = 4"], "can't be cut into 4 equal"),
        (['network = "lenet"', 'data = "synthetic"'], 'write shape = "3x224x224"'),
        (['network = "lenet"', 'data = "synthetic"', 'shape = "3x9"'], "'3x9' is not a shape"),
        (['network = "lenet"', 'shape = "3x9x9"'], "digits have a fixed shape"),
        (['network = "lenet"', 'data = "cifar10"'], "edgebench data cifar10 --download"),
        (
            ['network = "lenet"', 'data = "synthetic-mnist"', "examples = 8", "batch = 9"],
            "a batch of 9 is larger than synthetic-mnist, which has 8 examples",
        ),
        (
            ['network = "alexnet"', 'framework = "tensorflow"', 'precision = "bfloat16"'],
            "in float32, by its own loss, without checkpointing and per_layer; leave precision out",
        ),
        (['network = "mlp"', 'framework = "tensorflow"'], "only basic_cnn and alexnet, not mlp"),
        (
            ['network = "alexnet"', 'framework = "tensorflow"', 'trained = "last"'],
            "leave trained out",
        ),
        (
            [
                *('network = "alexnet"', 'framework = ["pytorch", "tensorflow"]'),
                *("checkpointing = true", "per_layer = true"),
            ],
            "leave checkpointing and per_layer out",
        ),
        (
            [
                *('network = "alexnet"', 'framework = "tensorflow"', "compiled = true"),
                "accumulation = 2",
            ],
            "leave accumulation or compiled out",
        ),
        (['network = "alexnet"', "compiled = true"], "only framework tensorflow has compiled"),
        (['network = "there.onnx"'], "there.onnx is made for execution and can't be trained"),
        (['network = "lenet"', 'loss = "mean"'], "'mean' names no function"),
        (['network = "lenet"', 'data = "digit"'], "no data set 'digit'; did you mean 'digits'?"),
        (['network = "lenet"', 'data = "no.py:data"'], "no file"),
        (['network = "lenet"', 'data = "torch.nn:data"', "image = 9"], "image scales the images"),
        (
            ['network = "alexnet"', 'framework = "tensorflow"', 'loss = "torch.nn:MSELoss"'],
            "leave loss out",
        ),
        (['network = "json:x"', 'data = "json:x"'], "two functions are called json:x"),
    ],
)
def test_faults_are_told(tmp_path: Path, lines: list[str], says: str):
    """What is wrong and what to write instead."""
    (tmp_path / "there.onnx").touch()
    with pytest.raises(ScenarioError) as error:
        scenario(tmp_path, *lines)
    assert says in str(error.value)


def test_axes_cross_only_where_they_mean_something(tmp_path: Path):
    """Depths are an axis of the perceptron alone, so LeNet's points are not made twice."""
    made = scenario(tmp_path, 'network = ["lenet", "mlp"]', "depth = [1, 2]", "batch = [1, 4]")
    settings = [
        (p.settings["network"], p.settings["depth"], p.settings["batch"]) for p in points(made)
    ]
    assert settings == [
        *(("lenet", None, 1), ("lenet", None, 4)),
        *(("mlp", 1, 1), ("mlp", 1, 4), ("mlp", 2, 1), ("mlp", 2, 4)),
    ]


def test_only_tensorflow_has_compiled_steps(tmp_path: Path):
    both = 'framework = ["pytorch", "tensorflow"]'
    made = scenario(tmp_path, 'network = "basic_cnn"', both, "compiled = [false, true]")
    settings = [(p.settings["framework"], p.settings["compiled"]) for p in points(made)]
    assert settings == [("pytorch", None), ("tensorflow", False), ("tensorflow", True)]


def test_a_library_s_strategy_needs_that_library(tmp_path: Path):
    both = 'framework = ["pytorch", "tensorflow"]'
    asked = '[memory]\nstrategies = ["torch", "tensorflow"]'
    made = scenario(tmp_path, 'network = "basic_cnn"', both, asked)
    pairs = [(p.settings["framework"], s) for p in points(made) for s in made.strategies
             if has_own_trial(s, p)]  # fmt: skip
    assert pairs == [("pytorch", "torch"), ("tensorflow", "tensorflow")]
    with pytest.raises(ScenarioError) as error:
        scenario(tmp_path, 'network = "basic_cnn"', asked)
    assert "strategy 'tensorflow' reads what tensorflow keeps" in str(error.value)


def test_made_up_data_is_as_large_as_a_batch(tmp_path: Path):
    """Unless it is said how many examples there are."""
    made = scenario(tmp_path, 'network = "mlp"', 'data = "synthetic-mnist"', "batch = [4, 512]")
    assert [point.settings["examples"] for point in points(made)] == [256, 512]


def test_a_kernel_larger_than_the_image_is_told(tmp_path: Path):
    file = tmp_path / "given.toml"
    file.write_text(
        'schema = 1\nname = "given"\n[workload]\nkind = "convolution"\nkernel = [3, 9]\nimage = 8\n'
    )
    with pytest.raises(ScenarioError) as error:
        load_scenario(file)
    assert "a kernel of 9 is larger than the image of 8; make image larger" in str(error.value)
