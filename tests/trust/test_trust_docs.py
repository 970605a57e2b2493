"""docs/explanation/trust.md speaks of tests that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
_NAME = re.compile(r"`(?:(tests/[\w/]+\.py)(?:::)?)?(test_\w+)?`")


def functions_of(path: str) -> set[str]:
    """The tests in a file."""
    tree = ast.parse((ROOT / path).read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_each_promise_names_tests_that_exist() -> None:
    """Every row of every table names at least one; a bare name is of the file named before it."""
    rows = [
        line
        for line in (ROOT / "docs/explanation/trust.md").read_text().splitlines()
        if "`tests/" in line
    ]
    assert len(rows) > 30
    for row in rows:
        file = ""
        for match in _NAME.finditer(row):
            file = match[1] or file
            if match[1] or match[2]:
                assert file
                assert not match[2] or match[2] in functions_of(file), row


def test_no_promise_is_without_a_test() -> None:
    """Between the head of a table of proofs and its end each row has a test."""
    proofs = False
    for line in (ROOT / "docs/explanation/trust.md").read_text().splitlines():
        if line.endswith("| proved by |"):
            proofs = True
        elif not line.startswith("|"):
            proofs = False
        elif proofs and not line.startswith("| ---"):
            assert "`tests/" in line, line
