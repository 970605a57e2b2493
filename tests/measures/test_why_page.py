"""The page on why the numbers differ, against what was measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "explanation" / "why-numbers-differ.md").read_text()
KEPT = ROOT / "benchmarks" / "results"
POINTS = [
    point
    for file in sorted(KEPT.glob("reconcile*_rests.json"))
    for point in json.loads(file.read_text())["data"]
]


TABLES = [*sorted(KEPT.glob("reconcile*.md")), *sorted(KEPT.glob("layer_peaks*.md"))]


@pytest.mark.parametrize("file", TABLES, ids=lambda file: file.stem)
def test_its_tables_are_those_that_were_measured(file: Path) -> None:
    """Line by line: the rests of every point, and the ledgers that are shown."""
    lines = [line for line in file.read_text().splitlines() if line.startswith("|")]
    assert lines
    assert not [line for line in lines if line not in PAGE]


@pytest.mark.parametrize("point", POINTS, ids=lambda point: "-".join(point["about"]))
def test_every_ledger_adds_up_and_closes(point: dict[str, object]) -> None:
    """From the first figure over terms and rest to the second; the rest is small."""
    ledgers = point["ledgers"]
    assert isinstance(ledgers, list)
    for ledger in ledgers:
        terms = sum(term["size_bytes"] for term in ledger["terms"])
        assert ledger["from_bytes"] + terms + ledger["unexplained_bytes"] == ledger["to_bytes"]
        assert abs(ledger["unexplained_bytes"]) <= ledger["small_bytes"], ledger
