"""The page of scenarios against the models: every key with its default, every example valid."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import BaseModel
from scenario_making import COMMAND, CONVOLUTION, INFERENCE, TRAINING, load_text, with_key

from edgebench.scenario.command_keys import CommandWorkload
from edgebench.scenario.limit_axes import LimitAxes, SwapKeys
from edgebench.scenario.measurement_keys import BackgroundKeys, MemoryKeys, SamplerKeys
from edgebench.scenario.memory_range import MemoryRange
from edgebench.scenario.scenario import Scenario
from edgebench.scenario.search import Choices, Range, Search
from edgebench.scenario.training_keys import TrainingWorkload
from edgebench.scenario.workload_keys import ConvolutionWorkload, InferenceWorkload

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "scenarios.md").read_text()
TABLES: dict[str, type[BaseModel]] = {
    "": Scenario,
    "workload": InferenceWorkload,
    "limits": LimitAxes,
    "sampler": SamplerKeys,
    "memory": MemoryKeys,
    "around": BackgroundKeys,
}
#: Kinds of workload besides inference, each with a scenario that its keys fit into.
KINDS: list[tuple[type[BaseModel], str]] = [
    (CommandWorkload, COMMAND),
    (ConvolutionWorkload, CONVOLUTION),
    (TrainingWorkload, TRAINING),
]
OTHERS: list[type[BaseModel]] = [
    *(kind for kind, _ in KINDS),
    *(MemoryRange, SwapKeys, Search, Range, Choices),
]
#: What is no key of a table by itself; tests of its own hold its examples.
INNER = (
    "checkpoint",
    "shape",
    "from",
    "to",
    "steps",
    "spacing",
    "size",
    "kind",
    "target_error",
    "target",
    "starts",
    "accelerator_memory",
)
SEARCHED = ("search", "draws", "axes", "low", "high", "scale", "choices")
ROWS = re.findall(r"^\| `([a-z_]+)` \| (.+?) \| (.+?) \| `(.+?)` \|", PAGE, re.MULTILINE)


#: Options of engines: they go with a network in a file that the engine executes.
ENGINE_OPTIONS = {
    "arena": "model.onnx",
    "memory_pattern": "model.onnx",
    "optimization": "model.onnx",
    "prepacking": "model.onnx",
    "xnnpack": "model.tflite",
    "onednn": "model.keras",
    "xla": "model.keras",
}


def example_text(folder: Path, name: str) -> str:
    """A scenario in which an inference workload's key has a meaning, with the files it names."""
    for file in ("model.onnx", "model.tflite", "model.keras"):
        (folder / file).touch()
    if name == "pipeline":
        return INFERENCE.replace('network = ["alexnet", "lenet"]\n', "")
    if name == "prompt":
        return with_key(INFERENCE, "workload", "new_tokens = 4")
    if name == "page_advice":
        return with_key(INFERENCE, "workload", 'loader = "mmap"\nschedule = "bulk"')
    if name in ENGINE_OPTIONS:
        return INFERENCE.replace('["alexnet", "lenet"]', f'"{ENGINE_OPTIONS[name]}"')
    return INFERENCE


#: Key of another kind of workload → the key that it needs beside it.
NEEDED = {"unit": "throughput = true", "compiled": 'framework = "tensorflow"'}


def other_text(folder: Path, text: str, field: str) -> str:
    """The same for other kinds of workload."""
    (folder / "model.gguf").touch()
    if field == "compiled":
        text = text.replace('"lenet"', '"basic_cnn"')
    return with_key(text, "workload", NEEDED[field]) if field in NEEDED else text


def keys_of(table: type[BaseModel]) -> set[str]:
    """The keys as a file writes them."""
    return {info.alias or name for name, info in table.model_fields.items()}


@pytest.mark.parametrize("table", [*TABLES.values(), *OTHERS], ids=lambda t: t.__name__)
def test_every_key_is_on_the_page(table: type[BaseModel]) -> None:
    """A key that the page doesn't explain can't be found; one it explains must exist."""
    tables = {*TABLES, "", "search"}
    assert keys_of(table) - tables <= {row[0] for row in ROWS}
    known = set().union(*(keys_of(other) for other in (*TABLES.values(), *OTHERS)))
    assert {row[0] for row in ROWS} <= known


@pytest.mark.parametrize(
    ("key", "example"),
    [
        (f"{name}.{info.alias or field}", example)
        for name, table in TABLES.items()
        for field, info in table.model_fields.items()
        for example in info.examples or ()
        if field not in ("checkpoint", "kind", "target_error", "target", "starts", "search")
        if field != "accelerator_memory"
    ],
)
def test_every_example_is_valid(tmp_path: Path, key: str, example: str) -> None:
    """What an error message gives as an example passes."""
    table, _, name = key.rpartition(".")
    text = example_text(tmp_path, name)
    load_text(tmp_path, with_key(text, table, f"{name} = {example}"))


@pytest.mark.parametrize(("kind", "text"), KINDS, ids=lambda value: getattr(value, "__name__", ""))
def test_examples_of_other_kinds_are_valid(
    tmp_path: Path, kind: type[BaseModel], text: str
) -> None:
    """The same for the keys of each other kind of workload."""
    for field, info in kind.model_fields.items():
        # A shape goes with data = "synthetic" alone.
        for example in info.examples or () if field != "shape" else ():
            made = other_text(tmp_path, text, field)
            load_text(tmp_path, with_key(made, "workload", f"{info.alias or field} = {example}"))


@pytest.mark.parametrize("shown", re.findall(r"```toml\n(.+?)```", PAGE, re.DOTALL))
def test_shown_scenarios_are_valid(tmp_path: Path, shown: str) -> None:
    """Each whole scenario on the page can be copied and checked."""
    if "schema" in shown:
        assert load_text(tmp_path, shown).name


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row[0]))
def test_the_pages_examples_are_valid(tmp_path: Path, row: tuple[str, ...]) -> None:
    """Each example in the page's tables is accepted where its key belongs."""
    name, example = row[0], row[3]
    if name in (*INNER, *SEARCHED):
        return
    inference = name in keys_of(InferenceWorkload)
    others = (text for kind, text in KINDS if name in keys_of(kind) and not inference)
    # A table's name in the whole file is no key: `memory` of the limits is one.
    owners = (
        t for t, model in TABLES.items() if name in keys_of(model) - (set() if t else set(TABLES))
    )
    table = next(owners, "workload")
    text = other_text(tmp_path, next(others, example_text(tmp_path, name)), name)
    load_text(tmp_path, with_key(text, table, f"{name} = {example}"))
