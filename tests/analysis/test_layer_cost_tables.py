"""The table of layer costs against sweeps whose every number is known."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from layer_cost_results import (
    LIMITED,
    MIB,
    UNLIMITED,
    Made,
    make,
    overlapping,
    slower,
    table_of,
    write_events,
)

from edgebench.analysis.layer_costs.builder import layer_cost_tables
from edgebench.analysis.layer_costs.selection import costs_at_limits, matching_tables, sorted_layers
from edgebench.analysis.layer_costs.table import LayerCostTable, LayerRow
from edgebench.errors import ResultsError, UsageError
from edgebench.results.results import load


def row_of(table: LayerCostTable, name: str) -> LayerRow:
    """One layer's row."""
    return next(row for row in table.layers if row.name == name)


def test_times_are_those_that_were_written(tmp_path: Path):
    """Loading, cold and warm executions, glue, the pass and its shares, to the nanosecond."""
    table = table_of(make(tmp_path, [Made()] * 3))
    assert [row.name for row in table.layers] == ["conv", "fc", "act"]
    fc = row_of(table, "fc").unlimited
    assert fc.load is not None
    assert fc.first is not None
    assert fc.execute is not None
    assert fc.load.seconds.median == pytest.approx(0.30)
    assert fc.first.seconds.median == pytest.approx(0.10)
    assert (fc.execute.seconds.median, fc.execute.times) == (pytest.approx(0.10), 2.0)
    assert fc.pass_s == pytest.approx(0.30 + 0.10 + 2 * 0.10)
    assert table.unlimited.glue_s == pytest.approx(4 * 0.03)
    assert table.unlimited.clock_s.median == pytest.approx(0.4 + 0.6 + 0.03 + 0.12)
    assert sum(row.share for row in table.layers) == pytest.approx(1 - 0.12 / 1.15)
    assert table.costs == []
    assert table.tightest() is None


def test_blame_is_the_share_of_the_extra_time(tmp_path: Path):
    """Each layer's and the glue's part of what the limit costs; together they are the whole."""
    made = [Made(), Made("100M", [LIMITED])] * 2
    table = table_of(make(tmp_path, made))
    (cost,) = table.costs
    # fc: 0.2 + 0.4 + 2 × 0.4; conv: 0.1; glue: 4 × 0.01.
    assert cost.extra_s == pytest.approx(1.4 + 0.1 + 0.04)
    assert cost.glue_extra_s == pytest.approx(0.04)
    fc = row_of(table, "fc").at["100M"]
    assert (fc.load_extra_s, fc.execute_extra_s) == (pytest.approx(0.2), pytest.approx(1.2))
    assert fc.extra_share == pytest.approx(1.4 / 1.54)
    assert (fc.load_slowdown, fc.execute_slowdown) == (pytest.approx(5 / 3), pytest.approx(5))
    assert fc.main_phase == "execute"
    assert row_of(table, "conv").at["100M"].main_phase == "load"
    act = row_of(table, "act").at["100M"]
    assert (act.extra_share, act.main_phase) == (pytest.approx(0), None)
    assert act.load_slowdown is None
    shares = [row.at["100M"].extra_share or 0.0 for row in table.layers]
    assert sum(shares) + (cost.glue_extra_share or 0.0) == pytest.approx(1)
    assert cost.surely_slower


def test_rounds_are_told_before_trials(tmp_path: Path):
    """The spread is between trials; of a trial's rounds after the start the median counts."""
    quick, slow = (slower("fc", (seconds, 0.1, 0.1, 0.01)) for seconds in (0.2, 0.6))
    start = slower("fc", (9.0, 9.0, 9.0, 0.01))
    pairs = [(quick, slow), (slow, slow), (quick, quick)]
    trials = [Made(rounds=[start, *pair]) for pair in pairs]
    step = row_of(table_of(make(tmp_path, trials)), "fc").unlimited.load
    assert step is not None
    assert step.seconds.median == pytest.approx(0.4)
    assert (step.seconds.low, step.seconds.high) == (pytest.approx(0.2), pytest.approx(0.6))
    assert step.seconds.count == 3


def test_peaks_and_faults_are_the_layers_own(tmp_path: Path):
    """The kernel's peak within a layer, how far above its start, and the faults of a pass."""
    steps = row_of(table_of(make(tmp_path, [Made()])), "fc").unlimited
    assert steps.peak_bytes == 57 * MIB
    assert steps.growth_bytes == 7 * MIB
    assert steps.major_faults == 3 * 4


def test_an_unknown_peak_stays_unknown(tmp_path: Path):
    """Where the kernel can't reset its mark there is no peak, and no 0."""
    steps = row_of(table_of(make(tmp_path, [Made(peak=False)])), "fc").unlimited
    assert steps.peak_bytes is None
    assert steps.growth_bytes is None


def test_overlapping_layers_leave_only_true_glue(tmp_path: Path):
    """Two layers of 2 s in a pass of 3 s: glue is the half second without."""
    path = make(tmp_path, [Made()])
    write_events(path, "0001", overlapping(Made()))
    table = table_of(path)
    assert table.unlimited.clock_s.median == pytest.approx(3.0)
    assert table.unlimited.layers_s == pytest.approx(4.0)
    assert table.unlimited.glue_s == pytest.approx(0.5)
    assert table.unlimited.overlap == pytest.approx(4.0 / 2.5)


def test_layers_of_a_pipeline_are_told_apart(tmp_path: Path):
    """Two networks with equal names of layers have a row each, in the order of the pipeline."""
    table = table_of(make(tmp_path, [Made()], networks=("zeta", "alpha")))
    assert table.network == "zeta+alpha"
    assert [(row.network, row.order) for row in table.layers] == [
        *(("zeta", n) for n in range(3)),
        *(("alpha", n) for n in range(3)),
    ]


def test_the_same_network_twice_is_summed(tmp_path: Path):
    """A pipeline that runs a network twice has its layers' times twice in a pass."""
    table = table_of(make(tmp_path, [Made()], networks=("duo", "duo")))
    fc = row_of(table, "fc").unlimited
    assert fc.load is not None
    assert (fc.load.seconds.median, fc.load.times) == (pytest.approx(0.3), 2)
    assert table.unlimited.sum_s == pytest.approx(table.unlimited.clock_s.median)


def test_limits_at_which_nothing_finished_are_named(tmp_path: Path):
    """A limit where all were killed has no times but its outcomes and its reason."""
    killed = Made("40M", outcome="oom-killed", reason="killed by the kernel in load of duo")
    (limit,) = table_of(make(tmp_path, [Made(), killed, killed])).unfinished
    assert (limit.label, limit.limit_bytes) == ("40M", 40 * MIB)
    assert limit.outcomes == {"oom-killed": 2}
    assert limit.reason == "killed by the kernel in load of duo"


def test_limits_come_from_wide_to_tight(tmp_path: Path):
    """In any order of trials, the last is the tightest limit at which one finished."""
    made = [Made(label) for label in ("80M", "max", "120M", "100M")]
    table = table_of(make(tmp_path, made))
    assert [cost.at.label for cost in table.costs] == ["120M", "100M", "80M"]
    tightest = table.tightest()
    assert tightest is not None
    assert tightest.at.label == "80M"


def test_without_an_unlimited_trial_there_is_nothing_to_compare(tmp_path: Path):
    """Its failure is told, with its reason."""
    failed = Made(outcome="failed", reason="no weights")
    with pytest.raises(ResultsError, match="no unlimited trial of duo finished: no weights"):
        layer_cost_tables(load(make(tmp_path, [failed, Made("100M")])))


def test_a_program_has_no_layers(tmp_path: Path):
    """A sweep of commands is refused, with what to type for layers."""
    command = {"kind": "command", "command": ["true"]}
    path = make(tmp_path, [Made(settings=command)])
    with pytest.raises(ResultsError, match="it is no network") as error:
        layer_cost_tables(load(path))
    assert error.value.remedy == "layers come of networks: edgebench layers NETWORK"


def test_lost_events_are_no_layers(tmp_path: Path):
    """A folder whose events are gone says so instead of an empty table."""
    path = make(tmp_path, [Made()])
    (path / "events" / "0001.jsonl.gz").unlink()
    with pytest.raises(ResultsError, match="no layer of duo was timed: its trials left no events"):
        layer_cost_tables(load(path))


def test_what_is_derived_is_in_the_json(tmp_path: Path):
    """Extra seconds, faults and where the growth lies, as strict JSON."""
    table = table_of(make(tmp_path, [Made(), Made("100M", [LIMITED])]))
    data = json.loads(json.dumps(table.to_json(), allow_nan=False))
    fc = data["layers"][1]["at"]["100M"]
    assert fc["extra_s"] == pytest.approx(1.4)
    assert (fc["main_phase"], fc["major_faults"]) == ("execute", 12)


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("sort", "names"),
    [
        (None, ["fc", "conv", "act"]),
        ("cost", ["fc", "conv", "act"]),
        ("time", ["fc", "conv", "act"]),
        ("parameters", ["fc", "conv", "act"]),
        ("order", ["conv", "fc", "act"]),
        ("peak", ["conv", "fc", "act"]),
    ],
)
def test_layers_are_sorted_as_asked(tmp_path: Path, sort: str | None, names: list[str]):
    """Worst first; equal ones, as these peaks, in the order of their calls."""
    table = table_of(make(tmp_path, [Made(), Made("100M", [LIMITED])]))
    assert [row.name for row in sorted_layers(table, sort, "100M")] == names


def test_without_a_limit_the_longest_comes_first(tmp_path: Path):
    """Without a limit there is no extra time: the longest layer comes first."""
    times = slower("act", (0.0, 5.0, 0.01, 0.01))
    table = table_of(make(tmp_path, [Made(rounds=[times])]))
    assert sorted_layers(table, None, None)[0].name == "act"


def test_limits_are_chosen_by_any_name_they_have(tmp_path: Path):
    """As the scenario wrote it or by size; none means the tightest; an unknown one is refused."""
    tables = [table_of(make(tmp_path, [Made(), Made("120M"), Made("100M")]))]
    labels = [
        [cost.at.label for cost in costs_at_limits(tables, memory)[0]]
        for memory in ([], ["120M"], ["102400K", "120M"], ["max"])
    ]
    assert labels == [["100M"], ["120M"], ["120M", "100M"], []]
    with pytest.raises(UsageError, match="no limit '75%'") as error:
        costs_at_limits(tables, ["75%"])
    assert error.value.remedy == "they have: 120M, 100M"
    (cost,) = tables[0].costs[-1:]
    shared = replace(tables[0], costs=[replace(cost, at=replace(cost.at, label="23.0%"))])
    assert len(costs_at_limits([shared], ["23%"])[0]) == 1
    with pytest.raises(UsageError, match="no limit '24%'"):
        costs_at_limits([shared], ["24%"])


def test_workloads_are_chosen_by_network_and_settings(tmp_path: Path):
    """By name, also within a pipeline; what isn't there is refused with what is."""
    path = make(tmp_path, [Made(), Made(settings={"schedule": "linear"})], networks=("a", "b"))
    tables = layer_cost_tables(load(path)).tables
    assert len(matching_tables(tables, None, {})) == 2
    assert [
        t.settings["schedule"] for t in matching_tables(tables, "b", {"schedule": "linear"})
    ] == ["linear"]
    with pytest.raises(UsageError, match="no layers of c ") as error:
        matching_tables(tables, "c", {})
    assert "a+b --schedule linear --loader copy" in str(error.value)


def test_unlimited_times_are_the_default(tmp_path: Path):
    """The maker's own pass, so that the certified numbers above stand on something."""
    table = table_of(make(tmp_path, [Made(rounds=[UNLIMITED])]))
    assert table.unlimited.sum_s == pytest.approx(table.unlimited.clock_s.median)
