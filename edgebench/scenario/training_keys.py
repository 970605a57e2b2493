"""The ``[workload]`` table of kind ``training``: networks trained for some steps on a data set."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, model_validator

from edgebench.layers.references import parse_reference
from edgebench.scenario.accelerator_keys import (
    AcceleratorAxis,
    accelerator_settings,
    check_training,
)
from edgebench.scenario.keys import (
    Axis,
    BatchAxis,
    CollectorAxis,
    Count,
    Threads,
    TomlTable,
    network_name,
    one_of,
)
from edgebench.scenario.process_keys import InteropThreads, process_settings
from edgebench.scenario.training_frameworks import check_frameworks
from edgebench.scenario.training_values import (
    DataFolder,
    DataName,
    LearningRate,
    LossName,
    PartLabel,
    ShapeLabel,
    StartName,
    TrainedName,
)
from edgebench.workloads.memory_settings import FROZEN
from edgebench.workloads.training.names import (
    ACTIVATIONS,
    DATA_SHAPES,
    FRAMEWORKS,
    FROM_FOLDER,
    LSTM,
    MLP,
    OPTIMIZERS,
    PRECISIONS,
    SCRATCH,
    SIZED,
    SYNTHETIC,
    TENSORFLOW,
)
from edgebench.workloads.training.partial import WHOLE

if TYPE_CHECKING:
    from typing_extensions import Self

KIND = "training"
#: Steps where neither steps nor epochs are given.
STEPS = 10
#: How many examples are made up where nothing is said; of a larger batch, as many as it has.
EXAMPLES = 256


class TrainingWorkload(TomlTable):
    """Networks trained step by step: each step's data, forward, backward and update."""

    kind: Annotated[str, one_of("workload kind", (KIND,))] = Field(examples=['"training"'])
    framework: Axis[Annotated[str, one_of("framework", FRAMEWORKS)]] = Field(
        default=("pytorch",), examples=['"pytorch"']
    )
    compiled: Axis[bool] = Field(default=(False,), examples=["[false, true]"])
    network: Axis[TrainedName] = Field(examples=['["lenet", "resnet18"]'])
    depth: Axis[Annotated[int, Field(ge=0, le=64)]] = Field(default=(2,), examples=["[1, 2, 4]"])
    width: Axis[Annotated[int, Field(ge=1, le=65536)]] = Field(default=(128,), examples=["128"])
    activation: Axis[Annotated[str, one_of("activation", ACTIVATIONS)]] = Field(
        default=("relu",), examples=['"relu"']
    )
    optimizer: Axis[Annotated[str, one_of("optimizer", OPTIMIZERS)]] = Field(
        default=("sgd",), examples=['["sgd", "adam"]']
    )
    learning_rate: Axis[LearningRate] = Field(default=(0.01,), examples=["[0.01, 0.001]"])
    batch: BatchAxis = Field(default=(16,), examples=["[1, 16]"])
    accumulation: Axis[Annotated[int, Field(ge=1, le=65536)]] = Field(default=(1,), examples=["4"])
    precision: Axis[Annotated[str, one_of("precision", PRECISIONS)]] = Field(
        default=("float32",), examples=['"bfloat16"']
    )
    trained: Axis[PartLabel] = Field(default=(WHOLE,), examples=['["all", "last", "filters 40%"]'])
    start: Axis[StartName] = Field(default=(SCRATCH,), examples=['"scratch"'])
    checkpointing: Axis[bool] = Field(default=(False,), examples=["[false, true]"])
    loss: LossName | None = Field(default=None, examples=['"torch.nn:MSELoss"'])
    data: Axis[DataName] = Field(default=("digits",), examples=['"digits"'])
    shape: Axis[ShapeLabel] | None = Field(default=None, examples=['"3x224x224"'])
    steps: Count | None = Field(default=None, examples=["10"])
    epochs: Count | None = Field(default=None, examples=["1"])
    image: Annotated[int, Field(ge=1, le=8192)] | None = Field(default=None, examples=["28"])
    classes: Annotated[int, Field(ge=2, le=100_000)] = Field(default=10, examples=["10"])
    examples: Annotated[int, Field(ge=1, le=10_000_000)] | None = Field(
        default=None, examples=["1024"]
    )
    data_folder: DataFolder | None = Field(default=None, examples=['"data"'])
    threads: Threads = Field(default=None, examples=["2"])
    gc: CollectorAxis = Field(default=(FROZEN,), examples=['"frozen"'])
    malloc_trim: bool | None = Field(default=None, examples=["true"])
    accelerator: AcceleratorAxis | None = Field(default=None, examples=['["none", "cuda"]'])
    interop_threads: InteropThreads = Field(default=None, examples=["1"])
    huge_pages: bool | None = Field(default=None, examples=["false"])
    per_layer: bool = Field(default=False, examples=["true"])
    evaluate: bool = Field(default=False, examples=["true"])

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.steps is not None and self.epochs is not None:
            raise ValueError("steps and epochs can't both be given; leave one out")
        for parts, batch in itertools.product(self.accumulation, self.batch):
            if batch % parts:
                raise ValueError(
                    f"a batch of {batch} can't be cut into {parts} equal parts; "
                    "choose an accumulation that divides it"
                )
        if LSTM in self.network and 0 in self.depth:
            raise ValueError("an lstm needs at least one layer; write depth = 1 or more")
        if LSTM in self.network and True in self.checkpointing:
            raise ValueError("an lstm has no blocks to checkpoint; leave it or checkpointing out")
        return self

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        own = [one for one in (*self.network, *self.data, self.loss) if one and ":" in one]
        names = [network_name(one) for one in own]
        if twice := [one for one in names if names.count(one) > 1]:
            raise ValueError(f"two functions are called {twice[0]}; rename one or its file")
        return self

    @model_validator(mode="after")
    def _frameworks_can(self) -> Self:
        check_frameworks(self)
        check_training(self)
        return self

    @model_validator(mode="after")
    def _data_can_be_had(self) -> Self:
        if SYNTHETIC in self.data and self.shape is None:
            raise ValueError('the data set synthetic needs a shape; write shape = "3x224x224"')
        if self.image is not None and any(":" in name for name in self.data):
            raise ValueError("image scales the images of data sets; leave it out for your own data")
        if self.shape is not None and SYNTHETIC not in self.data:
            raise ValueError(f"{', '.join(self.data)} have a fixed shape; leave shape out")
        name = next((name for name in self.data if name in FROM_FOLDER), None)
        if name and self.data_folder is None:
            raise ValueError(
                f'the data set {name} is read from files; write data_folder = "data", and to '
                f"download it: edgebench data {name} --download --folder data"
            )
        made = [name for name in self.data if name.startswith(SYNTHETIC)]
        if made and self.examples is not None and max(self.batch) > self.examples:
            raise ValueError(
                f"a batch of {max(self.batch)} is larger than {made[0]}, which has "
                f"{self.examples} examples; write examples = {max(self.batch)} or a smaller batch"
            )
        return self

    def networks(self) -> tuple[str, ...]:
        """Every network that it trains, as results name it."""
        return tuple(map(network_name, self.network))

    def settings(self, seed: int) -> Iterator[dict[str, Any]]:
        """Every combination of its axes, as plain data for the worker.

        What means nothing to a network or a data set is None there, and is no axis of it.
        """
        own_axes = self.framework, self.network, self.data
        for framework, network, data, where in itertools.product(
            *own_axes, list(accelerator_settings(self.accelerator))
        ):
            sized = network in SIZED
            axes: dict[str, tuple[Any, ...]] = {
                "compiled": self.compiled if framework == TENSORFLOW else (None,),
                "depth": self.depth if sized else (None,),
                "width": self.width if sized else (None,),
                "activation": self.activation if network == MLP else (None,),
                "optimizer": self.optimizer,
                "learning_rate": self.learning_rate,
                "batch": self.batch,
                "accumulation": self.accumulation,
                "precision": self.precision,
                "checkpointing": self.checkpointing,
                "trained": self.trained,
                "start": self.start,
                "shape": self._shapes(data),
                "gc": self.gc,
            }
            for values in itertools.product(*axes.values()):
                chosen = dict(zip(axes, values, strict=True))
                yield {
                    "kind": KIND,
                    "framework": framework,
                    "network": network_name(network),
                    "data": network_name(data),
                    **chosen,
                    **self._references(network, data),
                    **self._same_for_all(),
                    **where,
                    "examples": self.examples or max(EXAMPLES, chosen["batch"]),
                    "seed": seed,
                }

    def _references(self, network: str, data: str) -> dict[str, Any]:
        """What a worker has to know of the user's own network, loss and data."""
        named = [one for one in (network, data, self.loss) if one and ":" in one]
        found = [parse_reference(one, Path()) for one in named]
        own: dict[str, Any] = {"references": {one.name: one.to_json() for one in found}}
        loss = {"loss": network_name(self.loss)} if self.loss else {}
        return (own if found else {}) | loss

    def _shapes(self, data: str) -> tuple[str | None, ...]:
        if ":" in data:
            return (None,)
        if data == SYNTHETIC:
            return self.shape or ()
        return ("x".join(map(str, DATA_SHAPES[data])),)

    def _same_for_all(self) -> dict[str, Any]:
        steps = STEPS if self.steps is None and self.epochs is None else self.steps
        keys = {"epochs", "image", "classes", "data_folder", "threads"}
        process = process_settings(self)
        return {
            **self.model_dump(include={*keys, "per_layer", "evaluate"}),
            "steps": steps,
            **process,
        }
