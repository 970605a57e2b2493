"""What the repository keeps: sweeps, calibrations, and the benchmarks' figures. Read once."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgebench.results.results import Results

ROOT = Path(__file__).parents[2]
DEVICE = ROOT / "results" / "vm-2core-24g"
FIGURES = ROOT / "benchmarks" / "results"
MIB = 1 << 20
#: Fresh trials, which the pages' examples show; the quick start is walked.
FRESH_QUICKSTART = "quickstart-grid"


def folder(scenario: str) -> Path:
    """The newest sweep of a scenario of this name; or the sweep that is called so."""
    if (DEVICE / scenario).is_dir():
        return DEVICE / scenario
    return sorted(DEVICE.glob(f"*Z-{scenario}-" + "[0-9a-f]" * 6))[-1]


@cache
def sweep(scenario: str) -> Results:
    """That sweep, loaded."""
    from edgebench.results.results import load

    return load(folder(scenario))


@cache
def calibration(swap: str) -> dict[str, Any]:
    """The device's constants with this kind of swap."""
    made: dict[str, Any] = json.loads((DEVICE / f"calibration-{swap}.json").read_text())
    return made


@cache
def figures(benchmark: str) -> Any:
    """What a benchmark measured."""
    return json.loads((FIGURES / f"{benchmark}.json").read_text())["data"]


@cache
def rows(benchmark: str) -> list[list[str]]:
    """The cells of a benchmark's first table, without its head."""
    lines = (FIGURES / f"{benchmark}.md").read_text().splitlines()
    start = next(n for n, line in enumerate(lines) if re.match(r"\| *-", line)) + 1
    end = next((n for n in range(start, len(lines)) if not lines[n].startswith("|")), len(lines))
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in lines[start:end]]


@cache
def study(scenario: str) -> dict[str, list[dict[str, Any]]]:
    """The rows of each of its study's tables, by the table's title."""
    from edgebench.cli.show import study_tables

    tables = (made.to_json() for made in study_tables(sweep(scenario)))
    return {str(made["title"]): made["rows"] for made in tables}
