"""A sweep's points as Markdown tables and JUnit XML."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from edgebench.cli.export import export
from edgebench.errors import UsageError
from edgebench.report.markdown import junit_xml
from edgebench.results.point_facts import PointFacts, point_facts
from edgebench.results.results import load
from edgebench.results.sweep_reader import Sweep

KEPT = (
    Path(__file__).parents[2]
    / "results"
    / "vm-2core-24g"
    / "20261129T064840Z-quickstart-grid-2bf09a"
)
AT_40 = "alexnet · bulk · copy · batch 1 at 40%, file swap"


@pytest.fixture(scope="module")
def kept() -> tuple[Sweep, list[PointFacts]]:
    sweep = load(KEPT).sweeps[0]
    return sweep, list(point_facts(sweep))


def run_export(*words: str) -> Result:
    """The verb's result; a program's error would be in ``exception``."""
    return CliRunner().invoke(export, [str(KEPT), *words])


@pytest.mark.heavy
def test_markdown_has_a_table_for_each_workload(tmp_path: Path):
    file = tmp_path / "points.md"
    assert run_export("-o", str(file)).exit_code == 0
    text = file.read_text()
    assert text.count("| limit |") == 3
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(rows) == 3 * (2 + 5)
    for at in range(0, len(rows), 7):
        assert len({line.count("|") for line in rows[at : at + 7]}) == 1
    assert text.startswith("## alexnet\n")
    assert "## mobilenet\\_v2" in text


@pytest.mark.heavy
def test_junit_has_the_points_numbers(kept: tuple[Sweep, list[PointFacts]]):
    point = next(p for p in kept[1] if p.workload in AT_40 and p.limits.label == "40%")
    junit = ElementTree.fromstring(junit_xml(*kept))
    found = junit.findall(f".//testcase[@name='{AT_40}']/properties/property")
    properties = {one.get("name"): float(one.get("value", "nan")) for one in found}
    assert properties["demand_bytes"] == point.demand_bytes
    assert properties["steady_s"] == point.times_s["steady"].median
    assert junit[0].get("failures") == "0"


def test_a_point_that_never_finished_is_a_failure(kept: tuple[Sweep, list[PointFacts]]):
    sweep, points = kept
    free, limited = points[0], points[1]
    lost = [
        replace(free, outcomes={"oom-killed": 3}),
        replace(limited, outcomes={"oom-killed": 3}),
        replace(limited, outcomes={"failed": 1, "oom-killed": 1}),
        replace(limited, planned=None, outcomes={"timeout": 1}),
        replace(limited, planned=1, outcomes={"timeout": 1}),
    ]
    root = ElementTree.fromstring(junit_xml(sweep, [*lost, *points]))
    messages = [failure.get("message") for failure in root.findall(".//failure")]
    assert messages == ["3 oom-killed", "1 failed, 1 oom-killed", "1 timeout"]


def test_a_format_of_points_has_no_frame():
    raised = run_export("--format", "markdown", "--frame", "layers").exception
    assert isinstance(raised, UsageError)
    assert "markdown has no frames" in str(raised)
