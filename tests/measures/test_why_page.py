"""The kept ledgers of docs/explanation/why-numbers-differ.md, against what was measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "benchmarks" / "results"
POINTS = [
    point
    for file in sorted(KEPT.glob("reconcile*_rests.json"))
    for point in json.loads(file.read_text())["data"]
]


@pytest.mark.parametrize("point", POINTS, ids=lambda point: "-".join(point["about"]))
def test_every_ledger_adds_up_and_closes(point: dict[str, object]) -> None:
    """From the first figure over terms and rest to the second; the rest is small."""
    ledgers = point["ledgers"]
    assert isinstance(ledgers, list)
    for ledger in ledgers:
        terms = sum(term["size_bytes"] for term in ledger["terms"])
        assert ledger["from_bytes"] + terms + ledger["unexplained_bytes"] == ledger["to_bytes"]
        assert abs(ledger["unexplained_bytes"]) <= ledger["small_bytes"], ledger
