"""The JSON Schema of scenarios, as an editor gets it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from edgebench.cli.init import init

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

jsonschema = pytest.importorskip("jsonschema")
SCENARIOS = Path(__file__).parents[2] / "scenarios"
START = 'schema = 1\nname = "x"\n[workload]\nkind = "command"\ncommand = ["true"]\n'


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    done = CliRunner().invoke(init, ["--schema"])
    made: dict[str, Any] = json.loads(done.output)
    jsonschema.Draft202012Validator.check_schema(made)
    return made


def faults(schema: dict[str, Any], text: str) -> list[str]:
    """What an editor would underline."""
    found = jsonschema.Draft202012Validator(schema).iter_errors(tomllib.loads(text))
    return [one.message for one in found]


def test_all_shipped_scenarios_are_valid(schema: dict[str, Any]):
    files = sorted(SCENARIOS.rglob("*.toml"))
    found = {file.name: faults(schema, file.read_text()) for file in files}
    assert len(files) > 20
    assert {name: one for name, one in found.items() if one} == {}


@pytest.mark.parametrize(
    "line",
    [
        "memory = 200_000_000",
        'memory = {from = "90%", to = "30%", steps = 4}',
        'swap = "off"',
        "swap = 0",
        'swap = {kind = ["none", "file"], size = "1G"}',
        'storage = {read = "90MB/s"}',
        'accelerator_memory = ["max", "4G"]',
        "cores = [1, 2]",
    ],
)
def test_every_way_to_write_a_limit_is_valid(schema: dict[str, Any], line: str):
    assert faults(schema, f"{START}[limits]\n{line}\n") == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('name = "x"', 'nam = "x"'),
        ('kind = "command"', 'kind = "comand"'),
        ('command = ["true"]', 'command = "true"'),
        ('command = ["true"]', 'command = ["true"]\nnetwork = "lenet"'),
        ('command = ["true"]', 'command = ["true"]\n[limits]\nplan = "wlak"'),
        ('command = ["true"]', 'command = ["true"]\n[limits]\ncores = 0'),
    ],
)
def test_a_fault_is_found(schema: dict[str, Any], old: str, new: str):
    assert faults(schema, START) == []
    assert faults(schema, START.replace(old, new))
