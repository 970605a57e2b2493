"""Scenarios for the tests, made of small edits to valid ones."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from edgebench.errors import ScenarioError
from edgebench.scenario.scenario import Scenario, load_scenario

INFERENCE = """\
schema = 1
name = "tiny"
seed = 3
repeats = 2
[workload]
kind = "inference"
network = ["alexnet", "lenet"]
[limits]
memory = ["75%", "64M"]
"""
COMMAND = """\
schema = 1
name = "tiny"
[workload]
kind = "command"
command = ["true"]
[limits]
memory = ["64M"]
"""
CONVOLUTION = """\
schema = 1
name = "tiny"
[workload]
kind = "convolution"
kernel = 3
"""

TRAINING = """\
schema = 1
name = "tiny"
[workload]
kind = "training"
network = "lenet"
"""


def load_text(folder: Path, text: str) -> Scenario:
    file = folder / "given.toml"
    file.write_text(text, encoding="utf-8")
    return load_scenario(file)


def with_key(text: str, table: str, line: str) -> str:
    """The text with the line in that table (``""``: above all), instead of the same key there."""
    key = line.split("=")[0].strip()
    tables = re.split(r"(?m)^(?=\[)", text)
    header = f"[{table}]\n" if table else ""
    if not any(part.startswith(header) for part in tables[1:]) and table:
        tables.append(header)
    for number, part in enumerate(tables):
        if part.startswith(header) and (number > 0) == bool(table):
            body = re.sub(rf"(?m)^{re.escape(key)} *=.*\n", "", part.removeprefix(header))
            tables[number] = f"{header}{line}\n{body}"
    return "".join(tables)


def refusal(folder: Path, text: str) -> str:
    with pytest.raises(ScenarioError) as caught:
        load_text(folder, text)
    return str(caught.value)
