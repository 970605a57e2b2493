"""A program's throughput: read from its output, recorded, and shown beside its slowdown."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgebench.answers.limits import limits_table, workload_answer
from edgebench.records import LimitSetting, TrialRecord
from edgebench.report.figures import gallery
from edgebench.results.facts import point_facts, workload_facts
from edgebench.results.folder import ResultsFolder
from edgebench.results.results import load
from edgebench.slowdown.curves import curves

MIB = 1 << 20


@pytest.fixture
def swept(tmp_path: Path) -> Path:
    """A program of 40 lines per second, and 10 at a limit; its time never changes."""
    settings = {
        "kind": "command",
        "command": ["llm"],
        "throughput": True,
        "stop_after_s": 2.0,
    }
    with ResultsFolder.create(tmp_path, "board", "llm", "", {}, {}, {}) as folder:
        limits = (("max", None, 40.0), ("80M", 80 * MIB, 10.0), ("60M", 60 * MIB, 5.0))
        for number, (label, size, rate) in enumerate([*limits, *limits], start=1):
            record = TrialRecord(
                *(f"{number:04d}", f"p{(number - 1) % 3}", 0, 0, settings),
                LimitSetting(label, size),
                "ok",
                "2026-01-01T00:00:00.000+00:00",
                wall_s=2.0,
                limit_bytes=size,
                demand_bytes=None if size else 100 * MIB,
                throughput_per_s=rate * (1 + number / 1000),
            )
            folder.append(record)
        return folder.path


def test_the_throughput_is_the_answer(swept: Path) -> None:
    """Where it is known, slowdown is its: the time of a program that is stopped tells nothing."""
    sweep = load(swept).sweeps[0]
    points = point_facts(sweep)
    assert [round(p.slowdown or 0) for p in points] == [1, 4, 8]
    (found,) = workload_facts(points)
    table = limits_table(workload_answer(found))
    assert table.columns == ("limit", "ok", "time", "lines/s", "slower")
    assert table.rows[1] == ["80 MiB", "2/2", "2.00 s", "10", "4.00x"]


def test_the_throughput_is_fitted_and_drawn(swept: Path) -> None:
    results = load(swept)
    curve = next(one for one in curves(results) if one.phase == "throughput")
    assert curve.unlimited_words == "40.1/s"
    assert [round(slowdown) for slowdown in curve.medians] == [8, 4]
    (figure,) = gallery.STUDIES["throughput"](results)
    assert figure.stem == "throughput-lines"
    assert figure.figure.axes[0].get_ylabel() == "lines per second"
