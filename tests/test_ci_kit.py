"""What continuous integration uses: the action and its shell, and the workflow that shows it."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HOW_TO = ROOT / "docs" / "how-to" / "memory-budget-in-ci.md"
NEEDS_64_MIB = f"'{sys.executable}' -I -S -c 'b = bytearray(64 << 20)'"


def check_yaml(schema: str, file: Path) -> None:
    if importlib.util.find_spec("check_jsonschema") is None:
        pytest.skip("check-jsonschema is not installed")
    words = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}"]
    done = subprocess.run([*words, str(file)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.process
def test_the_action_is_one():
    """GitHub would take action.yml for an action."""
    check_yaml("github-actions", ROOT / "action.yml")


@pytest.mark.process
def test_the_shown_workflow_is_one_of_eight_lines(tmp_path: Path):
    (shown,) = re.findall(r"```yaml\n(.+?)```", HOW_TO.read_text(), re.DOTALL)
    assert len(shown.splitlines()) <= 8
    (tmp_path / "workflow.yml").write_text(shown)
    check_yaml("github-workflows", tmp_path / "workflow.yml")
    (given,) = re.findall(r"with: \{(.+)\}", shown)
    inputs = re.findall(r"^  (\w+):$", (ROOT / "action.yml").read_text(), re.M)
    assert {word.split(":")[0].strip() for word in given.split(",")} <= set(inputs)


@pytest.mark.own_cgroup
@pytest.mark.parametrize(("memory", "code"), [("300M", 0), ("20M", 4)])
def test_the_actions_shell(memory: str, code: int, tmp_path: Path):
    """It ends with 4 above the budget alone; the summary is there both times."""
    program = tmp_path / "edgebench"
    program.write_text(f"#!/bin/sh\nexec '{sys.executable}' -m edgebench \"$@\"\n")
    program.chmod(0o755)
    summary, folder = tmp_path / "summary.md", tmp_path / "results"
    given = {
        "COMMAND": NEEDS_64_MIB,
        "MEMORY": memory,
        "OPTIONS": "--confirm 1",
        "EDGEBENCH": str(program),
        "GITHUB_STEP_SUMMARY": str(summary),
    }
    words = ["bash", str(ROOT / "scripts" / "budget"), str(folder)]
    done = subprocess.run(words, env={**os.environ, **given}, capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    assert ("::error" in done.stdout) == (code == 4)
    assert re.search(r"^\| limit +\|", summary.read_text(), re.M), summary.read_text()
