"""The ``[workload]`` table of kind ``training``: networks trained for some steps on a data set."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from edgebench.layers.references import FILE_KINDS, KNOWN, parse_reference
from edgebench.scenario.keys import (
    KINDS,
    AcceleratorAxis,
    Axis,
    BatchAxis,
    CollectorAxis,
    Count,
    DataFolder,
    DataName,
    KeysError,
    LossName,
    Named,
    OneOf,
    PartLabel,
    ShapeLabel,
    StartName,
    Threads,
    TomlTable,
    accelerator_settings,
    asks_for_accelerator,
    combinations,
    key,
    network_name,
    network_reference,
    one_of,
    process_settings,
    refuse_both,
)
from edgebench.workloads.recorder import FROZEN
from edgebench.workloads.training.names import (
    ACTIVATIONS,
    DATA_SHAPES,
    FILTERS,
    FRAMEWORKS,
    FROM_FOLDER,
    IN_TENSORFLOW,
    MLP,
    OPTIMIZERS,
    PRECISIONS,
    PYTORCH,
    SCRATCH,
    SYNTHETIC,
    TENSORFLOW,
    TRAINED,
    WHOLE,
    parse_part,
)

if TYPE_CHECKING:
    from typing_extensions import Self

#: Keys with several values, in the order in which they change: the last one fastest.
_AXES = (
    *("compiled", "depth", "width", "activation", "optimizer", "learning_rate", "batch"),
    *("accumulation", "precision", "checkpointing", "trained", "start", "shape", "gc"),
)
#: Steps where neither steps nor epochs are given.
STEPS = 10
#: How many examples are made up where nothing is said; of a larger batch, as many as it has.
EXAMPLES = 256


def _rate(rate: float) -> float:
    if rate > 0:
        return rate
    raise ValueError(f"{rate:g} is not a learning rate; write a number above 0, as 0.01")


def _trainable(text: str) -> str:
    """Return the text itself, unless it is a file that is only executed."""
    kind = parse_reference(text, Path()).kind if text not in TRAINED else KNOWN
    if kind in FILE_KINDS.values():
        raise ValueError(
            f"{Path(text).name} is made for execution and can't be trained; name the code that "
            f'makes the network: network = "mymodel.py:Net"'
        )
    return text


#: A network that is trained: of those known by name, or the user's own.
TrainedName = Annotated[
    str, BeforeValidator(OneOf("network", TRAINED, network_reference)), AfterValidator(_trainable)
]


class TrainingWorkload(TomlTable):
    """Networks trained step by step: each step's data, forward, backward and update.

    Args:
        kind: ``training``.
        framework: ``tensorflow`` trains ``basic_cnn`` and ``alexnet`` alone.
        compiled: TensorFlow compiles a step into one graph; its phases can't be told apart.
        network: ``mlp``, ``basic_cnn``, a network known for inference, or your own
            (``"file.py:Net"``).
        depth: hidden layers of ``mlp``.
        width: nodes of each of them.
        activation: of ``mlp``.
        optimizer: ``momentum`` is 0.9.
        learning_rate: above 0.
        batch: images per step.
        accumulation: equal parts of a step's batch (gradient accumulation).
        precision: of parameters, gradients and activations.
        trained: ``all``, ``none``, ``last``, ``layers 40%`` or ``filters 40%``.
        start: ``scratch``, or a checkpoint's file.
        checkpointing: activations are recomputed in the backward pass (gradient checkpointing).
        loss: a function of your own, as ``"file.py:function"``. Default: cross-entropy.
        data: a data set, or a function of your own.
        shape: channels x height x width of ``data = "synthetic"``.
        steps: updates; ``steps`` or ``epochs``. Default: 10.
        epochs: passes through the data; ``epochs`` or ``steps``.
        image: side in pixels to which images are scaled up. Default: the data's own.
        classes: of synthetic data.
        examples: training images of synthetic data. Default: 256, or a larger batch.
        data_folder: where data sets' files are.
        threads: torch's threads. Default: torch's choice.
        gc: as of inference, between steps.
        malloc_trim: as of inference, after each step. Default: false.
        accelerator: as of inference; not with single filters. Default: ``"none"``.
        interop_threads: as of inference. Default: PyTorch's choice.
        huge_pages: as of inference. Default: as the kernel gives them.
        per_layer: times and peaks are measured for each layer.
        evaluate: accuracy on the test part is measured at the end.
    """

    kind: Annotated[str, one_of("workload kind", KINDS)] = key(..., '"training"')
    framework: Axis[Annotated[str, one_of("framework", FRAMEWORKS)]] = key(
        ("pytorch",), '"pytorch"'
    )
    compiled: Axis[bool] = key((False,), "[false, true]")
    network: Axis[TrainedName] = key(..., '["lenet", "resnet18"]')
    depth: Axis[Annotated[int, Field(ge=0, le=64)]] = key((2,), "[1, 2, 4]")
    width: Axis[Annotated[int, Field(ge=1, le=65536)]] = key((128,), "128")
    activation: Axis[Annotated[str, one_of("activation", ACTIVATIONS)]] = key(("relu",), '"relu"')
    optimizer: Axis[Annotated[str, one_of("optimizer", OPTIMIZERS)]] = key(
        ("sgd",), '["sgd", "adam"]'
    )
    learning_rate: Axis[Annotated[float, Field(le=1e6), AfterValidator(_rate)]] = key(
        (0.01,), "[0.01, 0.001]"
    )
    batch: BatchAxis = key((16,), "[1, 16]")
    accumulation: Axis[Annotated[int, Field(ge=1, le=65536)]] = key((1,), "4")
    precision: Axis[Annotated[str, one_of("precision", PRECISIONS)]] = key(
        ("float32",), '"bfloat16"'
    )
    trained: Axis[PartLabel] = key((WHOLE,), '["all", "last", "filters 40%"]')
    start: Axis[StartName] = key((SCRATCH,), '"scratch"')
    checkpointing: Axis[bool] = key((False,), "[false, true]")
    loss: LossName | None = key(None, '"torch.nn:MSELoss"')
    data: Axis[DataName] = key(("digits",), '"digits"')
    shape: Axis[ShapeLabel] | None = key(None, '"3x224x224"')
    steps: Count | None = key(None, "10")
    epochs: Count | None = key(None, "1")
    image: Annotated[int, Field(ge=1, le=8192)] | None = key(None, "28")
    classes: Annotated[int, Field(ge=2, le=100_000)] = key(10, "10")
    examples: Annotated[int, Field(ge=1, le=10_000_000)] | None = key(None, "1024")
    data_folder: DataFolder | None = key(None, '"data"')
    threads: Threads = key(None, "2")
    gc: CollectorAxis = key((FROZEN,), '"frozen"')
    malloc_trim: bool | None = key(None, "true")
    accelerator: AcceleratorAxis | None = key(None, '["none", "cuda"]')
    interop_threads: Threads = key(None, "1")
    huge_pages: bool | None = key(None, "false")
    per_layer: bool = key(False, "true")
    evaluate: bool = key(False, "true")

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.steps is not None and self.epochs is not None:
            raise refuse_both("steps", "epochs")
        for parts, batch in itertools.product(self.accumulation, self.batch):
            if batch % parts:
                raise ValueError(
                    f"a batch of {batch} can't be cut into {parts} equal parts; "
                    "choose an accumulation that divides it"
                )
        own = [one for one in (*self.network, *self.data, self.loss) if one and ":" in one]
        names = [network_name(one) for one in own]
        if twice := [one for one in names if names.count(one) > 1]:
            raise ValueError(f"two functions are called {twice[0]}; rename one or its file")
        self._check_frameworks()
        self._check_accelerator()
        self._check_data()
        return self

    def _check_frameworks(self) -> None:
        """Refuse what TensorFlow can't train; PyTorch trains everything."""
        compiled = True in self.compiled
        if TENSORFLOW in self.framework:
            if other := next((name for name in self.network if name not in IN_TENSORFLOW), None):
                raise ValueError(
                    f"framework {TENSORFLOW} trains only {' and '.join(IN_TENSORFLOW)}, not "
                    f"{other}; leave one out"
                )
            fields, own = type(self).model_fields, ("loss", "trained", "start", "precision")
            lacking = (*own, "checkpointing", "per_layer", "interop_threads")
            given = [Named(name) for name in lacking if getattr(self, name) != fields[name].default]
            if given:
                raise KeysError(
                    f"framework {TENSORFLOW} trains the whole network from scratch, in float32, by "
                    "its own loss, without checkpointing and per_layer; leave ",
                    given[0],
                    *(part for one in given[1:] for part in (" and ", one)),
                    " out",
                )
        elif compiled:
            raise ValueError(f"only framework {TENSORFLOW} has compiled steps; leave compiled out")
        if compiled and self.accumulation != (1,):
            raise ValueError(
                "a compiled step trains on its batch as a whole; leave accumulation or compiled out"
            )

    def _check_accelerator(self) -> None:
        if not asks_for_accelerator(self.accelerator):
            return
        if other := next((name for name in self.framework if name != PYTORCH), None):
            raise ValueError(
                f"only framework {PYTORCH} trains on an accelerator here, not {other}; leave one "
                "out"
            )
        if any(parse_part(label).kind == FILTERS for label in self.trained):
            raise ValueError(
                "single filters are trained on the processor alone; leave accelerator out, or "
                "train layers"
            )

    def _check_data(self) -> None:
        if SYNTHETIC in self.data and self.shape is None:
            raise KeysError(
                "the data set synthetic needs a shape; write ", Named("shape", "3x224x224")
            )
        if self.image is not None and any(":" in name for name in self.data):
            raise KeysError(Named("image"), " scales the images of data sets; leave it out")
        if self.shape is not None and SYNTHETIC not in self.data:
            raise KeysError(
                f"{', '.join(self.data)} have a fixed shape; leave ", Named("shape"), " out"
            )
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

    def networks(self) -> tuple[str, ...]:
        """Every network that it trains, as results name it."""
        return tuple(map(network_name, self.network))

    def settings(self, seed: int) -> Iterator[dict[str, Any]]:
        """Every combination of its axes, as plain data for the worker.

        What means nothing to a network or a data set is None there, and is no axis of it.
        """
        steps = STEPS if self.steps is None and self.epochs is None else self.steps
        keys = {"epochs", "image", "classes", "data_folder", "threads", "per_layer", "evaluate"}
        same = {**self.model_dump(include=keys), "steps": steps, **process_settings(self)}
        own_axes = self.framework, self.network, self.data
        for framework, network, data, where in itertools.product(
            *own_axes, list(accelerator_settings(self.accelerator))
        ):
            shapes: tuple[str | None, ...] = self.shape or ()
            if data != SYNTHETIC:
                shapes = ((None if ":" in data else "x".join(map(str, DATA_SHAPES[data]))),)
            # What a worker has to know of the user's own network, loss and data.
            named = [one for one in (network, data, self.loss) if one and ":" in one]
            found = [parse_reference(one, Path()) for one in named]
            own: dict[str, Any] = (
                {"references": {one.name: one.to_json() for one in found}} if found else {}
            )
            own |= {"loss": network_name(self.loss)} if self.loss else {}
            given = {name: getattr(self, name) for name in _AXES}
            axes = {
                **given,
                "compiled": self.compiled if framework == TENSORFLOW else (None,),
                **({} if network == MLP else {"depth": (None,), "width": (None,)}),
                "activation": self.activation if network == MLP else (None,),
                "shape": shapes,
            }
            for chosen in combinations(axes):
                yield {
                    "kind": "training",
                    "framework": framework,
                    "network": network_name(network),
                    "data": network_name(data),
                    **chosen,
                    **own,
                    **same,
                    **where,
                    "examples": self.examples or max(EXAMPLES, chosen["batch"]),
                    "seed": seed,
                }
