"""The ``[workload]`` table of ``kind = "command"``: any program."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, model_validator

from edgebench.scenario.keys import Seconds, TomlTable, one_of, scenario_path
from edgebench.throughput import reads_throughput

if TYPE_CHECKING:
    from typing_extensions import Self

#: What may stand before ``/s``: a word or two.
_UNIT = re.compile(r"[^\W\d_][\w.-]{0,23}( [\w.-]{1,24})?")


def _existing_folder(text: object, info: ValidationInfo) -> str:
    path = scenario_path(text, info)
    if not path.is_dir():
        raise ValueError(f"no folder {path}; a relative path starts at the scenario's folder")
    return str(path)


def _existing_files(listed: object, info: ValidationInfo) -> tuple[str, ...]:
    if not isinstance(listed, list):
        raise ValueError(f'write the files as a list: ["{listed}"]')
    paths = [scenario_path(text, info) for text in listed]
    gone = next((path for path in paths if not path.is_file() and not path.is_dir()), None)
    if gone is not None:
        raise ValueError(
            f"no file or folder {gone}; a relative path starts at the scenario's folder"
        )
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
    """A regular expression whose one group is the number."""
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


def _path_in_json(path: str) -> str:
    """Names and places in lists, between dots."""
    if not path or any(not step.strip() for step in path.split(".")):
        raise ValueError(
            f"{path!r} is no path into JSON; write names and places in lists between dots: "
            '"results.0.tokens_per_s"'
        )
    return path


def _unit(text: str) -> str:
    """A word or two, as they are printed before ``/s``."""
    if not _UNIT.fullmatch(text):
        raise ValueError(f"{text!r} is no unit; write what is counted in a word, as tokens")
    return text


def _variables(env: dict[str, str]) -> dict[str, str]:
    bad = next((n for n, v in env.items() if not n or "=" in n or "\0" in n + v), None)
    if bad is not None:
        raise ValueError(f"{bad!r} can't be the name or value of an environment variable")
    return env


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


#: Keys of a command that came later: unset, they are neither in settings nor in fingerprints.
LATER_KEYS = (
    *("stop_after_s", "throughput", "throughput_pattern", "throughput_json", "unit", "reset"),
    "files",
)


class CommandWorkload(TomlTable):
    """Any program. No shell is involved."""

    kind: Annotated[str, one_of("workload kind", ("command",))] = Field(examples=['"command"'])
    command: Annotated[tuple[str, ...], BeforeValidator(_words)] = Field(
        examples=['["python3", "train.py"]']
    )
    cwd: Annotated[str, BeforeValidator(_existing_folder)] | None = Field(
        default=None, examples=['"."']
    )
    env: Annotated[dict[str, str], AfterValidator(_variables)] = Field(
        default={}, examples=['{OMP_NUM_THREADS = "2"}']
    )
    stop_after_s: Seconds | None = Field(default=None, alias="stop_after", examples=['"20s"'])
    throughput: bool = Field(default=False, examples=["true"])
    throughput_pattern: Annotated[str, AfterValidator(_one_number)] | None = Field(
        default=None, examples=["'([\\d.]+) tokens/s'"]
    )
    throughput_json: Annotated[str, AfterValidator(_path_in_json)] | None = Field(
        default=None, examples=['"results.0.tokens_per_s"']
    )
    unit: Annotated[str, AfterValidator(_unit)] | None = Field(default=None, examples=['"tokens"'])
    files: Annotated[tuple[str, ...], BeforeValidator(_existing_files)] = Field(
        default=(), examples=['["model.gguf"]']
    )
    reset: Annotated[tuple[str, ...], BeforeValidator(_words)] | None = Field(
        default=None, examples=['["rm", "-f", "out.bin"]']
    )

    @model_validator(mode="after")
    def _one_throughput(self) -> Self:
        if self.throughput_pattern and self.throughput_json:
            raise ValueError(
                "throughput_pattern and throughput_json can't both be given; leave one out"
            )
        if self.unit and not reads_throughput(self.model_dump()):
            raise ValueError(
                "unit is what a throughput counts, and none is read; "
                "add throughput_pattern, throughput_json or throughput = true"
            )
        return self

    def networks(self) -> tuple[str, ...]:
        """None: which network a program runs is unknown."""
        return ()

    def settings(self, seed: int) -> Iterator[dict[str, Any]]:
        """Its one setting; the seed is the plan's alone."""
        yield {
            "kind": "command",
            "command": list(self.command),
            "cwd": self.cwd,
            "env": dict(self.env),
            # Only what is asked for, so that settings of earlier sweeps stay the same.
            **{key: _plain(value) for key in LATER_KEYS if (value := getattr(self, key))},
        }
