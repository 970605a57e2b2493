"""The page of scenarios against the models: every key with its default, every example valid."""

from __future__ import annotations

import re
from pathlib import Path

from pydantic import BaseModel
from scenario_making import COMMAND, CONVOLUTION, INFERENCE, TRAINING, load_text, with_key

from edgebench.scenario.limits import LimitAxes, MemoryRange, SwapKeys
from edgebench.scenario.scenario import (
    BackgroundKeys,
    Choices,
    MemoryKeys,
    Range,
    SamplerKeys,
    Scenario,
    Search,
)
from edgebench.scenario.training import TrainingWorkload
from edgebench.scenario.workloads import CommandWorkload, ConvolutionWorkload, InferenceWorkload

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
    "target",
    "starts",
    "accelerator_memory",
)
#: The example is left out where it is the default.
KEYS = re.findall(r"^\| `([a-z_]+)`(?: \*)? \| .+? \| .+? \| (?:`.+?`)? ?\|", PAGE, re.MULTILINE)


#: Options of engines: they go with a network in a file that the engine executes.
ENGINE_OPTIONS = {
    "arena": "model.onnx",
    "memory_pattern": "model.onnx",
    "optimization": "model.onnx",
    "prepacking": "model.onnx",
    "node_times": "model.onnx",
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
    if name in ENGINE_OPTIONS:
        return INFERENCE.replace('["alexnet", "lenet"]', f'"{ENGINE_OPTIONS[name]}"')
    return INFERENCE


#: Key of another kind of workload → the key that it needs beside it.
NEEDED = {"compiled": 'framework = "tensorflow"'}


def other_text(folder: Path, text: str, field: str) -> str:
    for name in ("model.gguf", "prompts.txt"):
        (folder / name).touch()
    if field == "compiled":
        text = text.replace('"lenet"', '"basic_cnn"')
    return with_key(text, "workload", NEEDED[field]) if field in NEEDED else text


def keys_of(table: type[BaseModel]) -> set[str]:
    return {info.alias or name for name, info in table.model_fields.items()}


def test_every_key_is_on_the_page() -> None:
    """A key that the page doesn't explain can't be found; one it explains must exist."""
    known = set().union(*(keys_of(table) for table in (*TABLES.values(), *OTHERS)))
    assert known - {*TABLES, "", "search"} <= {*KEYS} <= known


def test_every_example_is_valid(tmp_path: Path) -> None:
    for table, model in TABLES.items():
        for field, info in model.model_fields.items():
            # Those of other kinds of plan and workload; and what goes with an accelerator alone.
            if field in (*INNER, "search"):
                continue
            name = info.alias or field
            for example in info.examples or ():
                text = example_text(tmp_path, name)
                load_text(tmp_path, with_key(text, table, f"{name} = {example}"))


def test_examples_of_other_kinds_are_valid(tmp_path: Path) -> None:
    for kind, text in KINDS:
        for field, info in kind.model_fields.items():
            # A shape goes with data = "synthetic" alone.
            for example in info.examples or () if field != "shape" else ():
                made = with_key(
                    other_text(tmp_path, text, field),
                    "workload",
                    f"{info.alias or field} = {example}",
                )
                load_text(tmp_path, made)


def test_shown_scenarios_are_valid(tmp_path: Path) -> None:
    for shown in re.findall(r"```toml\n(.+?)```", PAGE, re.DOTALL):
        if "schema" in shown:
            assert load_text(tmp_path, shown).name
