"""A sweep's points in the formats of programs that follow numbers over time."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from edgebench.report.machine_formats import MACHINE_FORMATS
from edgebench.results.point_facts import PointFacts, point_facts
from edgebench.results.results import load
from edgebench.results.sweep_reader import Sweep

KEPT = Path(__file__).parents[2] / "results" / "vm-2core-24g" / "20261121T103950Z-quickstart-0491e2"
AT_40 = "alexnet · bulk · copy · batch 1 at 40%, file swap"


@pytest.fixture(scope="module")
def kept() -> tuple[Sweep, list[PointFacts]]:
    """The kept quick start and its points."""
    sweep = load(KEPT).sweeps[0]
    return sweep, list(point_facts(sweep))


@pytest.mark.heavy
def test_each_has_the_points_numbers(kept: tuple[Sweep, list[PointFacts]]):
    """Bencher, Google Benchmark and JUnit have the same demand and time of a point."""
    point = next(p for p in kept[1] if p.workload in AT_40 and p.limits.label == "40%")
    wanted = point.demand_bytes, point.times_s["steady"].median
    bencher = json.loads(MACHINE_FORMATS["bencher"](*kept))[AT_40]
    assert (bencher["demand-bytes"]["value"], bencher["steady-s"]["value"]) == wanted
    google = json.loads(MACHINE_FORMATS["google-benchmark"](*kept))["benchmarks"]
    (own,) = [one for one in google if one["name"] == AT_40]
    assert (own["demand_bytes"], own["real_time"] / 1e3) == pytest.approx(wanted)
    junit = ElementTree.fromstring(MACHINE_FORMATS["junit"](*kept))
    found = junit.findall(f".//testcase[@name='{AT_40}']/properties/property")
    properties = {one.get("name"): float(one.get("value", "nan")) for one in found}
    assert (properties["demand_bytes"], properties["steady_s"]) == wanted
    assert junit[0].get("failures") == "0"


@pytest.mark.heavy
def test_openmetrics_has_one_family_a_measure(kept: tuple[Sweep, list[PointFacts]]):
    """Each line is a sample of a family that was declared, escaped, and the last one ends it."""
    sweep, points = kept
    points = [replace(points[0], workload='a "quoted"\nname'), *points[1:]]
    *lines, last = MACHINE_FORMATS["openmetrics"](sweep, points).splitlines()
    assert last == "# EOF"
    families = re.findall(r"^# TYPE (\w+) gauge$", "\n".join(lines), re.M)
    assert len(set(families)) == len(families) == 6
    sample = re.compile(r'(\w+)\{(?:\w+="(?:[^"\\\n]|\\.)*",?)+\} [\d.e+-]+')
    samples = [sample.fullmatch(line) for line in lines if not line.startswith("#")]
    assert {one[1] for one in samples if one} == set(families)
    assert all(samples)


def test_a_point_that_never_finished_is_a_failure(kept: tuple[Sweep, list[PointFacts]]):
    """JUnit says what became of its trials."""
    sweep, points = kept
    killed = replace(points[1], outcomes={"oom-killed": 3})
    root = ElementTree.fromstring(MACHINE_FORMATS["junit"](sweep, [killed, *points]))
    (failure,) = root.findall(".//failure")
    assert failure.get("message") == "3 oom-killed"
