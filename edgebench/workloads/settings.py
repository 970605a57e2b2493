"""The ``[workload]`` table of a scenario: one model a kind, expanded into settings.

A new kind joins by a model here, its entry in :data:`Workload`, and one in the registry.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    ValidationInfo,
    model_validator,
)

from edgebench.choices import LOADERS, SCHEDULES
from edgebench.scenario.keys import Axis, Count, Table, one_of, tag_of
from edgebench.suggest import did_you_mean
from edgebench.workloads.convolution_settings import ConvolutionWorkload
from edgebench.workloads.training_settings import TrainingWorkload

if TYPE_CHECKING:
    from typing_extensions import Self

KINDS = ("inference", "command", "convolution", "training")
PAGE_CACHES = ("cold", "warm")
CHECKPOINT_SUFFIXES = (".safetensors", ".pt", ".pth")


def _known_networks() -> Sequence[str]:
    from edgebench.layers.names import NETWORKS

    return NETWORKS


def _from_scenario(text: object, info: ValidationInfo) -> Path:
    """A path as written is relative to the scenario's file."""
    if not isinstance(text, str) or not text or "\0" in text:
        raise ValueError(f"{text!r} is no path; write it in quotes")
    folder = (info.context or {}).get("folder", Path())
    return Path(folder, Path(text).expanduser()).resolve()


def _existing_checkpoint(text: object, info: ValidationInfo) -> str:
    path = _from_scenario(text, info)
    if not path.is_file():
        raise ValueError(f"no file {path}; a relative path starts at the scenario's folder")
    if path.suffix not in CHECKPOINT_SUFFIXES:
        raise ValueError(f"{path.name} is no checkpoint; it must end in .safetensors or .pt")
    return str(path)


def _existing_folder(text: object, info: ValidationInfo) -> str:
    path = _from_scenario(text, info)
    if not path.is_dir():
        raise ValueError(f"no folder {path}; a relative path starts at the scenario's folder")
    return str(path)


def _words(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        listed = ", ".join(f'"{word}"' for word in value.split())
        raise ValueError(f"write the command as a list, no shell reads it: [{listed}]")
    if not isinstance(value, list) or not value:
        raise ValueError('write the program and its arguments as a list: ["python3", "train.py"]')
    bad = next((word for word in value if not isinstance(word, str) or "\0" in word), None)
    if bad is not None:
        raise ValueError(f"{bad!r} is no word of a command; put it in quotes")
    if not value[0].strip():
        raise ValueError("the program's name is empty")
    return tuple(value)


def _variables(env: dict[str, str]) -> dict[str, str]:
    bad = next((n for n, v in env.items() if not n or "=" in n or "\0" in n + v), None)
    if bad is not None:
        raise ValueError(f"{bad!r} can't be the name or value of an environment variable")
    return env


NetworkName = Annotated[str, one_of("network", _known_networks)]
Checkpoint = Annotated[str, BeforeValidator(_existing_checkpoint)]


class InferenceWorkload(Table):
    """Networks loaded and executed layer by layer."""

    kind: Annotated[str, one_of("workload kind", KINDS)] = Field(examples=['"inference"'])
    network: Axis[NetworkName] | None = Field(default=None, examples=['["alexnet", "resnet18"]'])
    pipeline: Axis[NetworkName] | None = Field(default=None, examples=['["alexnet", "resnet18"]'])
    schedule: Axis[Annotated[str, one_of("schedule", SCHEDULES)]] = Field(
        default=("linear",), examples=['"linear"']
    )
    loader: Axis[Annotated[str, one_of("loader", LOADERS)]] = Field(
        default=("copy",), examples=['"copy"']
    )
    batch: Axis[Annotated[int, Field(ge=1, le=65536)]] = Field(default=(1,), examples=["1"])
    image: Annotated[int, Field(ge=16, le=8192)] | None = Field(default=None, examples=["224"])
    rounds: Count = Field(default=1, examples=["2"])
    warm: Annotated[int, Field(ge=0)] = Field(default=2, examples=["2"])
    threads: Annotated[int, Field(ge=1, le=1024)] | None = Field(default=None, examples=["2"])
    workers: Annotated[int, Field(ge=1, le=64)] = Field(default=2, examples=["2"])
    page_cache: Annotated[str, one_of("page-cache state", PAGE_CACHES)] = Field(
        default="cold", examples=['"cold"']
    )
    checkpoint: dict[str, Checkpoint] = Field(
        default={}, examples=['{alexnet = "alexnet.safetensors"}']
    )

    @model_validator(mode="after")
    def _which_networks(self) -> Self:
        if self.network is None and self.pipeline is None:
            raise ValueError('which network? write network = "alexnet", or pipeline = [...]')
        if self.network is not None and self.pipeline is not None:
            raise ValueError("network and pipeline can't both be given; leave one out")
        known = self.networks()
        for name in self.checkpoint:
            if name not in known:
                guess = did_you_mean(name, known)
                hint = f"did you mean {guess!r}?" if guess else f"it runs {', '.join(known)}"
                raise ValueError(f"a checkpoint for {name!r}, which it does not run; {hint}")
        return self

    def networks(self) -> tuple[str, ...]:
        """Every network that it runs."""
        return self.pipeline or self.network or ()

    def settings(self, seed: int) -> Iterator[dict[str, Any]]:
        """Every combination of its axes, as plain data for the worker."""
        groups = [list(self.pipeline)] if self.pipeline else [[name] for name in self.networks()]
        for group, schedule, loader, batch in itertools.product(
            groups, self.schedule, self.loader, self.batch
        ):
            yield {
                "kind": "inference",
                "networks": list(group),
                "schedule": schedule,
                "loader": loader,
                "batch": batch,
                **self.model_dump(
                    include={"image", "rounds", "warm", "threads", "workers", "page_cache"}
                ),
                "checkpoint": dict(self.checkpoint),
                "seed": seed,
            }


class CommandWorkload(Table):
    """Any program. No shell is involved."""

    kind: Annotated[str, one_of("workload kind", KINDS)] = Field(examples=['"command"'])
    command: Annotated[tuple[str, ...], BeforeValidator(_words)] = Field(
        examples=['["python3", "train.py"]']
    )
    cwd: Annotated[str, BeforeValidator(_existing_folder)] | None = Field(
        default=None, examples=['"."']
    )
    env: Annotated[dict[str, str], AfterValidator(_variables)] = Field(
        default={}, examples=['{OMP_NUM_THREADS = "2"}']
    )

    def networks(self) -> tuple[str, ...]:
        """None: what the program runs is its own affair."""
        return ()

    def settings(self, seed: int) -> Iterator[dict[str, Any]]:
        """Its one setting; the seed is the plan's alone."""
        yield {
            "kind": "command",
            "command": list(self.command),
            "cwd": self.cwd,
            "env": dict(self.env),
        }


#: Kind → its table; a kind that none has is refused by the table of inference.
_TABLES: dict[str, type[Table]] = {
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
