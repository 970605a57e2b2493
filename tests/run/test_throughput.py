"""A program's throughput: read from its output, recorded, and shown beside its slowdown."""

from __future__ import annotations

from made_records import MIB, record, sweep

from edgebench.answers.limits import limits_table, workload_answer
from edgebench.report.figures import gallery
from edgebench.results.facts import point_facts, workload_facts
from edgebench.results.results import Results
from edgebench.slowdown.curves import curves


def swept() -> Results:
    """A program of 40 lines per second, and 10 at a limit; its time never changes."""
    settings = {"kind": "command", "command": ["llm"], "throughput": True, "stop_after_s": 2.0}
    rates = ((None, 40.0), (80, 10.0), (60, 5.0)) * 2
    records = [
        record(
            limit_mib,
            settings=settings,
            wall_s=2.0,
            demand_bytes=None if limit_mib else 100 * MIB,
            throughput_per_s=rate * (1 + number / 1000),
        )
        for number, (limit_mib, rate) in enumerate(rates, start=1)
    ]
    return Results([sweep(*records)], [])


def test_the_throughput_is_the_answer() -> None:
    """Where it is known, slowdown is its: the time of a program that is stopped tells nothing."""
    points = point_facts(swept().sweeps[0])
    assert [round(p.slowdown or 0) for p in points] == [1, 4, 8]
    (found,) = workload_facts(points)
    table = limits_table(workload_answer(found))
    assert table.columns == ("limit", "ok", "time", "lines/s", "slower")
    assert table.rows[1] == ["80 MiB", "2/2", "2.00 s", "10", "4.00x"]


def test_the_throughput_is_fitted_and_drawn() -> None:
    results = swept()
    curve = next(one for one in curves(results) if one.phase == "throughput")
    assert curve.unlimited_words == "40.1/s"
    assert [round(slowdown) for slowdown in curve.medians] == [8, 4]
    (figure,) = gallery.STUDIES["throughput"](results)
    assert figure.stem == "throughput-lines"
    assert figure.figure.axes[0].get_ylabel() == "lines per second"
