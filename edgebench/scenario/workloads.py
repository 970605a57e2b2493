"""The ``[workload]`` table of a scenario: one model a kind, expanded into settings.

Kinds that run no network are here: any program, and a convolution. A new kind joins by a model, its
entry in :data:`Workload`, and one in the workers' registry.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
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

from edgebench.scenario.inference import InferenceWorkload
from edgebench.scenario.keys import (
    KINDS,
    Axis,
    BatchAxis,
    CollectorAxis,
    Count,
    Seconds,
    Threads,
    TomlTable,
    combinations,
    key,
    one_of,
    scenario_path,
    tag_of,
)
from edgebench.scenario.training import TrainingWorkload
from edgebench.workloads.memory_settings import FROZEN

if TYPE_CHECKING:
    from typing_extensions import Self

#: Keys of a command that are among its settings only where they are given.
_OPTIONAL = ("stop_after_s", "throughput", "throughput_pattern", "reset", "files", "stdin")


def _existing(is_there: Callable[[Path], bool], noun: str) -> BeforeValidator:
    """Return the check of a path's text that such a thing is there."""

    def check(text: object, info: ValidationInfo) -> str:
        path = scenario_path(text, info)
        if not is_there(path):
            raise ValueError(f"there is no {noun} {path}")
        return str(path)

    return BeforeValidator(check)


def _existing_files(listed: object, info: ValidationInfo) -> tuple[str, ...]:
    if not isinstance(listed, list):
        raise ValueError(f'write the files as a list: ["{listed}"]')
    paths = [scenario_path(text, info) for text in listed]
    gone = next((path for path in paths if not path.is_file() and not path.is_dir()), None)
    if gone is not None:
        raise ValueError(f"there is no file or folder {gone}")
    return tuple(map(str, paths))


def _words(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        listed = ", ".join(f'"{word}"' for word in value.split())
        raise ValueError(f"write the command as a list, no shell reads it: [{listed}]")
    if not isinstance(value, list) or not value:
        raise ValueError('write the program and its arguments as a list: ["python3", "train.py"]')
    bad = next((word for word in value if not isinstance(word, str) or "\0" in word), None)
    if bad is not None:
        raise ValueError(f"{bad!r} is not text; put it in quotes")
    if not value[0].strip():
        raise ValueError("the program's name is empty")
    return tuple(value)


def _one_number(pattern: str) -> str:
    """Return a regular expression whose one group is the number."""
    try:
        groups = re.compile(pattern).groups
    except re.error as error:
        raise ValueError(f"{pattern!r} is not a regular expression: {error}") from None
    if groups != 1:
        raise ValueError(
            f"{pattern!r} has {groups} groups; put the number, and nothing else, in parentheses: "
            r"'([\d.]+) tokens/s'"
        )
    return pattern


def _variables(env: dict[str, str]) -> dict[str, str]:
    bad = next((n for n, v in env.items() if not n or "=" in n or "\0" in n + v), None)
    if bad is not None:
        raise ValueError(f"{bad!r} can't be the name or value of an environment variable")
    return env


class CommandWorkload(TomlTable):
    """Any program. No shell is involved.

    Args:
        kind: ``command``.
        command: program and arguments; no shell interprets them.
        cwd: its working folder. Default: where edgebench was called.
        env: environment variables, added to yours.
        stop_after: a program that never ends is stopped then, and counts as finished. Default: it
            ends by itself.
        throughput: its lines of output per second are recorded.
        throughput_pattern: regular expression with one group: a rate that it prints, in the first
            1000 characters of a line. The median is recorded.
        files: files and folders that are evicted from the page cache before each trial, besides
            those it names or was seen to use.
        reset: a command run before each trial, outside the limit.
        stdin: file that is its standard input, opened anew for each trial. Default: none.
    """

    kind: Annotated[str, one_of("workload kind", KINDS)] = key(..., '"command"')
    command: Annotated[tuple[str, ...], BeforeValidator(_words)] = key(
        ..., '["python3", "train.py"]'
    )
    cwd: Annotated[str, _existing(Path.is_dir, "folder")] | None = key(None, '"."')
    env: Annotated[dict[str, str], AfterValidator(_variables)] = key({}, '{OMP_NUM_THREADS = "2"}')
    stop_after_s: Seconds | None = key(None, '"20s"', alias="stop_after")
    throughput: bool = key(False, "true")
    throughput_pattern: Annotated[str, AfterValidator(_one_number)] | None = key(
        None, "'([\\d.]+) tokens/s'"
    )
    files: Annotated[tuple[str, ...], BeforeValidator(_existing_files)] = key((), '["model.gguf"]')
    reset: Annotated[tuple[str, ...], BeforeValidator(_words)] | None = key(
        None, '["rm", "-f", "out.bin"]'
    )
    stdin: Annotated[str, _existing(Path.is_file, "file")] | None = key(None, '"prompts.txt"')

    def networks(self) -> tuple[str, ...]:
        """None: which network a program runs is unknown."""
        return ()

    def settings(self, seed: int) -> Iterator[dict[str, Any]]:
        """Its one setting; the seed is the plan's alone."""
        dumped = self.model_dump(mode="json")
        always = ("kind", "command", "cwd", "env")
        yield {name: dumped[name] for name in always} | {
            name: dumped[name] for name in _OPTIONAL if dumped[name]
        }


class ConvolutionWorkload(TomlTable):
    """The same convolution again and again: what an image costs, by kernel and batch.

    Args:
        kind: ``convolution``.
        kernel: side of the kernel in pixels, at most ``image``.
        stack: convolutions in a row.
        batch: images per pass.
        backward: whether gradients are computed too.
        channels: input channels, and as many output channels.
        image: side of the input in pixels.
        warm: first passes, left out of all tables.
        passes: passes that are measured.
        threads: torch's threads. Default: torch's choice.
        gc: as of inference.
    """

    kind: Annotated[str, one_of("workload kind", KINDS)] = key(..., '"convolution"')
    kernel: Axis[Annotated[int, Field(ge=1, le=255)]] = key(..., "[1, 3, 5]")
    stack: Axis[Annotated[int, Field(ge=1, le=64)]] = key((1,), "[1, 2]")
    batch: BatchAxis = key((1,), "4")
    backward: Axis[bool] = key((False,), "[false, true]")
    channels: Axis[Annotated[int, Field(ge=1, le=65536)]] = key((32,), "32")
    image: Annotated[int, Field(ge=1, le=8192)] = key(256, "256")
    warm: Annotated[int, Field(ge=0)] = key(2, "2")
    passes: Count = key(10, "10")
    threads: Threads = key(None, "2")
    gc: CollectorAxis = key((FROZEN,), '"frozen"')

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
        for chosen in combinations({name: getattr(self, name) for name in names}):
            yield {
                "kind": "convolution",
                **chosen,
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
