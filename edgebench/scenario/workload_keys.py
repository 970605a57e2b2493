"""The ``[workload]`` table of a scenario: one model a kind, expanded into settings.

A new kind joins by a model here, its entry in :data:`Workload`, and one in the registry.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    model_validator,
)

from edgebench.layers.names import LOADERS, SCHEDULES, STREAM
from edgebench.scenario.accelerator_keys import accelerator_settings, check_inference
from edgebench.scenario.command_keys import CommandWorkload
from edgebench.scenario.keys import (
    Axis,
    BatchAxis,
    CollectorAxis,
    Count,
    Threads,
    TomlTable,
    checkpoint_path,
    one_of,
    tag_of,
)
from edgebench.scenario.network_keys import (
    KINDS,
    NetworkKeys,
    check_schedules,
    loaders_of,
    schedules_of,
)
from edgebench.scenario.training_keys import TrainingWorkload
from edgebench.text import did_you_mean
from edgebench.workloads.engines.engine import WHOLE, Engine
from edgebench.workloads.memory_settings import FROZEN

if TYPE_CHECKING:
    from typing_extensions import Self

PAGE_CACHES = ("cold", "warm")


Checkpoint = Annotated[str, BeforeValidator(checkpoint_path)]


class InferenceWorkload(NetworkKeys):
    """Networks loaded and executed layer by layer, or as a whole."""

    schedule: Axis[Annotated[str, one_of("schedule", (*SCHEDULES, WHOLE))]] | None = Field(
        default=None, examples=['"linear"']
    )
    loader: Axis[Annotated[str, one_of("loader", LOADERS)]] = Field(
        default=("copy",), examples=['"copy"']
    )
    batch: BatchAxis = Field(default=(1,), examples=["1"])
    image: Annotated[int, Field(ge=16, le=8192)] | None = Field(default=None, examples=["224"])
    rounds: Count = Field(default=1, examples=["2"])
    warm: Annotated[int, Field(ge=0)] = Field(default=2, examples=["2"])
    threads: Axis[Annotated[int, Field(ge=1, le=1024)]] | None = Field(default=None, examples=["2"])
    workers: Annotated[int, Field(ge=1, le=64)] = Field(default=2, examples=["2"])
    page_cache: Annotated[str, one_of("page-cache state", PAGE_CACHES)] = Field(
        default="cold", examples=['"cold"']
    )
    gc: CollectorAxis = Field(default=(FROZEN,), examples=['"frozen"'])
    checkpoint: dict[str, Checkpoint] = Field(
        default={}, examples=['{alexnet = "alexnet.safetensors"}']
    )

    @model_validator(mode="after")
    def _which_networks(self) -> Self:
        if self.network is None and self.pipeline is None:
            raise ValueError('which network? write network = "alexnet", or pipeline = [...]')
        if self.network is not None and self.pipeline is not None:
            raise ValueError("network and pipeline can't both be given; leave one out")
        if self.input is not None and self.image is not None:
            raise ValueError("input and image can't both be given; leave one out")
        self.check_names()
        self.check_generation(self.schedule)
        engines = self.check_engines()
        check_schedules(engines, self.schedule)
        check_inference(self, engines)
        if STREAM in (self.schedule or ()) and "copy" in self.loader:
            raise ValueError('the schedule "stream" reads mapped weights; write loader = "mmap"')
        if self.precision and (self.loader != ("copy",) or STREAM in (self.schedule or ())):
            raise ValueError(
                'weights of another precision are made in memory; write loader = "copy", '
                'and no schedule "stream"'
            )
        if self.page_advice and (self.loader != ("mmap",) or self.schedule != ("bulk",)):
            raise ValueError(
                'advice is for weights that stay mapped; write loader = "mmap", schedule = "bulk"'
            )
        known = self.networks()
        for name in self.checkpoint:
            if name not in known:
                guess = did_you_mean(name, known)
                hint = f"did you mean {guess!r}?" if guess else f"it runs {', '.join(known)}"
                raise ValueError(f"a checkpoint for {name!r}, which it does not run; {hint}")
        return self

    def settings(self, seed: int) -> Iterator[dict[str, Any]]:
        """Every combination of its axes, as plain data for the worker."""
        groups = [list(self.networks())] if self.pipeline else [[name] for name in self.networks()]
        for group in groups:
            for engine in self.engines_of(group[0]):
                yield from self._settings_in(engine, group, seed)

    def _settings_in(self, engine: Engine, group: list[str], seed: int) -> Iterator[dict[str, Any]]:
        axes = (loaders_of(engine, self.loader), self.batch, self.threads or (None,), self.gc)
        schedules = schedules_of(engine, self.schedule)
        options = [
            {**text, **option, **where}
            for text in self.generation_settings()
            for option in self.engine_settings(engine)
            for where in accelerator_settings(self.accelerator)
        ]
        for schedule, loader, batch, threads, gc, option in itertools.product(
            schedules, *axes, options
        ):
            yield {
                "kind": "inference",
                "networks": list(group),
                "schedule": schedule,
                "loader": loader,
                "batch": batch,
                **self.model_dump(include={"image", "rounds", "warm"}),
                "threads": threads,
                **self.model_dump(include={"workers", "page_cache"}),
                "gc": gc,
                "checkpoint": dict(self.checkpoint),
                "seed": seed,
                **self.own_networks(group),
                **self.torch_settings(engine),
                **option,
            }


class ConvolutionWorkload(TomlTable):
    """The same convolution again and again: what an image costs, by kernel and batch."""

    kind: Annotated[str, one_of("workload kind", KINDS)] = Field(examples=['"convolution"'])
    kernel: Axis[Annotated[int, Field(ge=1, le=255)]] = Field(examples=["[1, 3, 5]"])
    stack: Axis[Annotated[int, Field(ge=1, le=64)]] = Field(default=(1,), examples=["[1, 2]"])
    batch: BatchAxis = Field(default=(1,), examples=["4"])
    backward: Axis[bool] = Field(default=(False,), examples=["[false, true]"])
    channels: Axis[Annotated[int, Field(ge=1, le=65536)]] = Field(default=(32,), examples=["32"])
    image: Annotated[int, Field(ge=1, le=8192)] = Field(default=256, examples=["256"])
    warm: Annotated[int, Field(ge=0)] = Field(default=2, examples=["2"])
    passes: Count = Field(default=10, examples=["10"])
    threads: Threads = Field(default=None, examples=["2"])
    gc: CollectorAxis = Field(default=(FROZEN,), examples=['"frozen"'])

    @model_validator(mode="after")
    def _fits_the_image(self) -> Self:
        if max(self.kernel) > self.image:
            raise ValueError(
                f"a kernel of {max(self.kernel)} is larger than the image of {self.image}; "
                "make image larger or kernel smaller"
            )
        return self

    def networks(self) -> tuple[str, ...]:
        """None: it is no network."""
        return ()

    def settings(self, seed: int) -> Iterator[dict[str, Any]]:
        """Every combination of its axes, as plain data for the worker."""
        names = ("kernel", "stack", "batch", "backward", "channels", "gc")
        for values in itertools.product(*(getattr(self, name) for name in names)):
            yield {
                "kind": "convolution",
                **dict(zip(names, values, strict=True)),
                **self.model_dump(include={"image", "warm", "passes", "threads"}),
                "seed": seed,
            }


#: Kind → its table; a kind that none has is refused by the table of inference.
_TABLES: dict[str, type[TomlTable]] = {
    "inference": InferenceWorkload,
    "command": CommandWorkload,
    "convolution": ConvolutionWorkload,
    "training": TrainingWorkload,
}


def _by_kind(table: Any) -> str:
    kind = table.get("kind") if isinstance(table, dict) else getattr(table, "kind", None)
    return tag_of(_TABLES.get(str(kind), InferenceWorkload))


#: The table, read by the model of its kind.
Workload = Annotated[
    Annotated[InferenceWorkload, Tag(tag_of(InferenceWorkload))]
    | Annotated[CommandWorkload, Tag(tag_of(CommandWorkload))]
    | Annotated[ConvolutionWorkload, Tag(tag_of(ConvolutionWorkload))]
    | Annotated[TrainingWorkload, Tag(tag_of(TrainingWorkload))],
    Discriminator(_by_kind),
]
