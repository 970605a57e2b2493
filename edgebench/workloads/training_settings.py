"""The ``[workload]`` table of kind ``training``: networks trained for some steps on a data set."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, model_validator

from edgebench.scenario.keys import Axis, Count, Table, one_of
from edgebench.training.data.names import DATA_SETS, FROM_FOLDER, SHAPES, SYNTHETIC
from edgebench.training.names import (
    ACTIVATIONS,
    FRAMEWORKS,
    LSTM,
    MLP,
    NUMPY,
    OPTIMIZERS,
    PRECISIONS,
    SCRATCH,
    SIZED,
    TRAINED,
)
from edgebench.training.partial import WHOLE, checked_part

if TYPE_CHECKING:
    from typing_extensions import Self

KIND = "training"
#: What holds parameters to start from.
CHECKPOINTS = (".safetensors", ".pt", ".pth")
#: Steps where neither steps nor epochs are given.
STEPS = 10
#: How many examples are made up where nothing is said; of a larger batch, as many as it has.
EXAMPLES = 256
_SHAPE = re.compile(r"[1-9][0-9]{0,3}(x[1-9][0-9]{0,3}){2}")


def _channels_height_width(text: object) -> str:
    if isinstance(text, str) and _SHAPE.fullmatch(text):
        return text
    raise ValueError(f'{text!r} is no shape; write channels, height and width: "3x224x224"')


def _rate(rate: float) -> float:
    if rate > 0:
        return rate
    raise ValueError(f"{rate:g} is no learning rate; it must be above 0, as 0.01")


def _from_scenario(text: object, info: ValidationInfo) -> str:
    """A folder as written is relative to the scenario's file; its files are looked for later."""
    if not isinstance(text, str) or not text or "\0" in text:
        raise ValueError(f"{text!r} is no path; write it in quotes")
    folder = (info.context or {}).get("folder", Path())
    return str(Path(folder, Path(text).expanduser()).resolve())


def _scratch_or_checkpoint(text: object, info: ValidationInfo) -> str:
    if text == SCRATCH:
        return SCRATCH
    path = Path(_from_scenario(text, info))
    if not path.is_file() or path.suffix not in CHECKPOINTS:
        raise ValueError(
            f'{path} is no checkpoint; write "{SCRATCH}", or name a .safetensors or .pt file'
        )
    return str(path)


#: One image, as text: channels, height and width.
ShapeLabel = Annotated[str, BeforeValidator(_channels_height_width)]
#: Which part is trained, as text.
PartLabel = Annotated[str, AfterValidator(checked_part)]


class TrainingWorkload(Table):
    """Networks trained step by step: each step's data, forward, backward and update."""

    kind: Annotated[str, one_of("workload kind", (KIND,))] = Field(examples=['"training"'])
    framework: Axis[Annotated[str, one_of("framework", FRAMEWORKS)]] = Field(
        default=("pytorch",), examples=['"pytorch"']
    )
    network: Axis[Annotated[str, one_of("network", TRAINED)]] = Field(
        examples=['["lenet", "resnet18"]']
    )
    depth: Axis[Annotated[int, Field(ge=0, le=64)]] = Field(default=(2,), examples=["[1, 2, 4]"])
    width: Axis[Annotated[int, Field(ge=1, le=65536)]] = Field(default=(128,), examples=["128"])
    activation: Axis[Annotated[str, one_of("activation", ACTIVATIONS)]] = Field(
        default=("relu",), examples=['"relu"']
    )
    optimizer: Axis[Annotated[str, one_of("optimizer", OPTIMIZERS)]] = Field(
        default=("sgd",), examples=['["sgd", "adam"]']
    )
    learning_rate: Axis[Annotated[float, Field(le=1e6), AfterValidator(_rate)]] = Field(
        default=(0.01,), examples=["[0.01, 0.001]"]
    )
    batch: Axis[Annotated[int, Field(ge=1, le=65536)]] = Field(default=(16,), examples=["[1, 16]"])
    accumulation: Axis[Annotated[int, Field(ge=1, le=65536)]] = Field(default=(1,), examples=["4"])
    precision: Axis[Annotated[str, one_of("precision", PRECISIONS)]] = Field(
        default=("float32",), examples=['"bfloat16"']
    )
    trained: Axis[PartLabel] = Field(default=(WHOLE,), examples=['["all", "last", "filters 40%"]'])
    start: Axis[Annotated[str, BeforeValidator(_scratch_or_checkpoint)]] = Field(
        default=(SCRATCH,), examples=['"scratch"']
    )
    checkpointing: Axis[bool] = Field(default=(False,), examples=["[false, true]"])
    data: Axis[Annotated[str, one_of("data set", DATA_SETS)]] = Field(
        default=("digits",), examples=['"digits"']
    )
    shape: Axis[ShapeLabel] | None = Field(default=None, examples=['"3x224x224"'])
    steps: Count | None = Field(default=None, examples=["10"])
    epochs: Count | None = Field(default=None, examples=["1"])
    image: Annotated[int, Field(ge=1, le=8192)] | None = Field(default=None, examples=["28"])
    classes: Annotated[int, Field(ge=2, le=100_000)] = Field(default=10, examples=["10"])
    examples: Annotated[int, Field(ge=1, le=10_000_000)] | None = Field(
        default=None, examples=["1024"]
    )
    data_folder: Annotated[str, BeforeValidator(_from_scenario)] | None = Field(
        default=None, examples=['"data"']
    )
    threads: Annotated[int, Field(ge=1, le=1024)] | None = Field(default=None, examples=["2"])
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
    def _numpy_can(self) -> Self:
        if NUMPY not in self.framework:
            return self
        if other := next((name for name in self.network if name != MLP), None):
            raise ValueError(f"framework numpy trains {MLP} alone, not {other}; leave one out")
        if self.trained != (WHOLE,) or self.start != (SCRATCH,):
            raise ValueError(
                "framework numpy trains all, from scratch; leave trained and start out"
            )
        if self.precision != ("float32",) or True in self.checkpointing or self.per_layer:
            raise ValueError(
                "framework numpy knows float32 alone, no checkpointing and no per_layer; "
                "leave them out"
            )
        return self

    @model_validator(mode="after")
    def _data_can_be_had(self) -> Self:
        if SYNTHETIC in self.data and self.shape is None:
            raise ValueError('the data set synthetic needs a shape; write shape = "3x224x224"')
        if self.shape is not None and SYNTHETIC not in self.data:
            raise ValueError(f"{', '.join(self.data)} have their own shape; leave shape out")
        name = next((name for name in self.data if name in FROM_FOLDER), None)
        if name and self.data_folder is None:
            raise ValueError(
                f'the data set {name} lies in files; write data_folder = "data", and to have '
                f"them: edgebench data {name} --download --folder data"
            )
        made = [name for name in self.data if name.startswith(SYNTHETIC)]
        if made and self.examples is not None and max(self.batch) > self.examples:
            raise ValueError(
                f"a batch of {max(self.batch)} is larger than {made[0]}, which has "
                f"{self.examples} examples; write examples = {max(self.batch)} or a smaller batch"
            )
        return self

    def networks(self) -> tuple[str, ...]:
        """Every network that it trains."""
        return self.network

    def settings(self, seed: int) -> Iterator[dict[str, Any]]:
        """Every combination of its axes, as plain data for the worker.

        What means nothing to a network or a data set is None there, and is no axis of it.
        """
        for framework, network, data in itertools.product(self.framework, self.network, self.data):
            sized = network in SIZED
            axes: dict[str, tuple[Any, ...]] = {
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
            }
            for values in itertools.product(*axes.values()):
                chosen = dict(zip(axes, values, strict=True))
                yield {
                    "kind": KIND,
                    "framework": framework,
                    "network": network,
                    "data": data,
                    **chosen,
                    **self._same_for_all(),
                    "examples": self.examples or max(EXAMPLES, chosen["batch"]),
                    "seed": seed,
                }

    def _shapes(self, data: str) -> tuple[str, ...]:
        if data == SYNTHETIC:
            return self.shape or ()
        return ("x".join(map(str, SHAPES[data])),)

    def _same_for_all(self) -> dict[str, Any]:
        steps = STEPS if self.steps is None and self.epochs is None else self.steps
        keys = {"epochs", "image", "classes", "data_folder", "threads"}
        return {**self.model_dump(include={*keys, "per_layer", "evaluate"}), "steps": steps}
