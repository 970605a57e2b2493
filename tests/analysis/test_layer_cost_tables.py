"""The table of layer costs against sweeps whose every number is known."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from layer_cost_results import LIMITED, MIB, UNLIMITED, Made, make, slower, table_of, write_events

from edgebench.analysis.layer_costs import (
    LayerCostTable,
    LayerPhases,
    LayerRow,
    PhaseCost,
    UnfinishedLimit,
    costs_at_limits,
    layer_cost_tables,
    matching_tables,
    pass_cost,
    sorted_layers,
)
from edgebench.errors import ResultsError, UsageError
from edgebench.report.figures.layers import cost_figures
from edgebench.results.facts import point_facts
from edgebench.results.results import load
from edgebench.results.times import Ratio, Spread


def row_of(table: LayerCostTable, name: str) -> LayerRow:
    return next(row for row in table.layers if row.name == name)


#: A span: phase, layer, from and to (ms), MiB before and at its peak, major faults.
Seen = tuple[str, int | None, float, float, int, int, int]
NAMES = ("conv", "fc", "act")
#: What it takes longer in each of three trials: the load of conv and the first execution of fc, ms;
#: and by how many MiB the peak of conv's load is higher, and its rounds end so many ms later.
TRIALS = ((4, 0, 0), (0, 4, 20), (90, 20, 1))


def spans(more: tuple[int, int, int], limited: bool, glue_ms: float) -> list[Seen]:
    """One round: loads overlap; 10 ms between phases; some at its end; text is decoded."""
    load_ms, first_ms, peak = more
    slow = 30 if limited else 0
    loaded = 120 + max(0, load_ms + slow - 20)
    fc = 80 + (7 if limited else 0) + first_ms
    end_ms = glue_ms + peak + (9 if limited else 0)
    return [
        ("load", 0, 0, 100 + load_ms + slow, 50, 70 + peak, 0),
        ("load", 1, 20, 60, 40, 52, 1),
        ("load", 2, 80, 120, 51, 54, 2),
        ("first", 0, loaded + 10, loaded + 50, 50, 61, 5),
        ("execute", 0, loaded + 50, loaded + 60, 52, 60, 3),
        ("execute", 0, loaded + 60, loaded + 80, 40, 55, 4),
        ("first", 1, loaded + 90, loaded + 10 + fc + 80, 50, 59, 6),
        ("decode", None, loaded + fc + 90, loaded + fc + 130, 50, 59, 100),
        ("prefill", 2, loaded + fc + 130, loaded + fc + 140, 45, 58, 7),
        ("round", None, 0, loaded + fc + 140 + end_ms, 50, 99, 999),
    ]


def timed(more: tuple[int, int, int], limited: bool) -> list[dict[str, Any]]:
    """A trial's events: a slow start, then rounds that differ in the time at their ends."""
    found: list[dict[str, Any]] = []
    begin_ns = 10**12
    for number, glue_ms in enumerate((5000, 15, 75, 21)):
        for phase, layer, start, end, before, peak, faults in spans(more, limited, glue_ms):
            of_layer = {"layer": layer, "name": None if layer is None else NAMES[layer]}
            about = {"phase": phase, "round": number, "thread": 0, **of_layer}
            about |= {"network": None if phase == "round" else "duo", "id": len(found) // 2}
            told = {"event": "end", "id": about["id"], "peak_bytes": peak * MIB, "cpu_ns": 1}
            told |= {"major_faults": faults, "minor_faults": 50, "usage_bytes": 41 * MIB}
            times = (begin_ns + round(at_ms * 1e6) for at_ms in (start, end))
            first, last = (
                {"t_ns": t_ns, "swap_bytes": 0, **event}
                for t_ns, event in zip(times, ({"event": "start", **about}, told), strict=True)
            )
            found += [{**first, "usage_bytes": before * MIB}, last]
        begin_ns += 10**10
    return sorted(found, key=lambda event: event["t_ns"])


@pytest.fixture(scope="module")
def asymmetric(tmp_path_factory: pytest.TempPathFactory) -> LayerCostTable:
    made = [Made()] * 3 + [Made("100M")] * 3
    path = make(tmp_path_factory.mktemp("asymmetric"), made)
    for number, more in enumerate(TRIALS * 2, start=1):
        write_events(path, f"{number:04d}", timed(more, limited=number > 3))
    return table_of(path)


def test_a_layer_s_times_are_medians_of_its_trials(asymmetric: LayerCostTable) -> None:
    conv, fc, act = (row.unlimited for row in asymmetric.layers)
    assert [row.name for row in asymmetric.layers] == ["conv", "fc", "act"]
    load, executed, first = conv.load.seconds, conv.execute, fc.first.seconds
    assert (load.median, load.low, load.high, load.count) == near(0.104, 0.1, 0.19, 3)
    assert (executed.seconds.median, executed.times) == near(0.015, 2)
    assert (first.median, first.low, first.high) == near(0.084, 0.08, 0.1)
    assert (conv.load_s, conv.execute_s, conv.pass_s) == near(0.104, 0.04 + 0.03, 0.174)
    # 40 ms of loading; the prefill is its first execution.
    assert (act.load_s, act.execute_s) == near(0.04, 0.01)
    assert conv.interval_s == near(0.1 + 0.04 + 0.03, 0.19 + 0.04 + 0.03)
    assert (executed.major_faults, conv.major_faults) == (7, 12)


def test_a_layer_s_peak_is_the_highest_of_its_steps(asymmetric: LayerCostTable) -> None:
    """MiB: the most in a round, the median of trials, here of 70, 90 and 71."""
    conv, fc, _ = (row.unlimited for row in asymmetric.layers)
    assert (conv.load.peak_bytes, conv.execute.peak_bytes) == (71 * MIB, 60 * MIB)
    assert conv.peak_bytes == 71 * MIB
    assert fc.peak_bytes == 59 * MIB


def test_a_pass_is_the_clock_without_decoding(asymmetric: LayerCostTable) -> None:
    """ms, by trial: loads cover 120, 120, 190; then 10, conv 70, 10, fc 80, 84, 100, act 10.

    At the rounds' ends 15, 75 and, the median, 21; in the trials 0, 20 and 1 more.
    """
    whole = asymmetric.unlimited
    clocks = (120 + 201, 120 + 205 + 20, 190 + 221 + 1)
    clock = whole.clock_s
    assert (clock.low, clock.median, clock.high) == near(*(ms / 1e3 for ms in clocks))
    assert whole.glue_s == pytest.approx(0.042)
    # conv 174, fc 40 + 84, act 50.
    assert whole.layers_s == pytest.approx(0.348)
    assert whole.sum_s == pytest.approx(0.390)
    # 184 + 160 ms in 280, 180 + 164 in 284 and, the median, 270 + 180 in 370.
    assert whole.overlap == pytest.approx(450 / 370)
    assert [row.share * 390 for row in asymmetric.layers] == pytest.approx([174, 124, 50])
    assert asymmetric.demand_bytes == 200 * MIB


def test_extra_time_is_a_layer_s_share_of_what_a_limit_costs(asymmetric: LayerCostTable) -> None:
    """30 ms in conv's load and 7 in fc's execution, of which repeats leave doubt; 9 between."""
    (cost,) = asymmetric.costs
    assert (cost.extra_s, cost.glue_extra_s) == near(0.046, 0.009)
    assert cost.glue_extra_share == pytest.approx(9 / 46)
    # The loads cover 134, 130 and 220 now, the rest takes 16 ms more.
    assert cost.slowdown == pytest.approx(371 / 345)
    conv, fc, act = (row.at["100M"] for row in asymmetric.layers)
    assert (conv.load_extra_s, conv.execute_extra_s, conv.extra_share) == near(0.03, 0, 30 / 46)
    assert (fc.load_extra_s, fc.execute_extra_s, fc.extra_share) == near(0, 0.007, 7 / 46)
    assert act.extra_s == pytest.approx(0)
    assert [one.surely_slower for one in (conv, fc, act)] == [False, False, False]
    data = json.loads(json.dumps(asymmetric.to_json(), allow_nan=False))
    told = data["layers"][1]["at"]["100M"]
    assert told["extra_s"] == pytest.approx(0.007)
    assert told["major_faults"] == 7


def near(*values: float) -> Any:
    return pytest.approx(values)


def test_a_layer_is_surely_slower_where_its_repeats_do_not_overlap(tmp_path: Path) -> None:
    """Fc's are 0.6 s without a limit, and 2 s; conv's and act's overlap. By limit and slowdown."""
    others = slower("conv", (0.2, 0.2, 0.05, 0.01)), slower("conv", (0.1, 0.2, 0.05, 0.01))
    limited = [Made("100M", [slower("fc", (0.5, 0.5, 0.5, 0.01), one)]) for one in others]
    table = table_of(make(tmp_path, [Made(rounds=[one]) for one in others] + limited))
    sure = [row.name for row in table.layers if row.at["100M"].surely_slower]
    assert sure == ["fc"]
    (cost,) = table.costs
    assert cost.surely_slower
    walked = Ratio(7.0, 6.0, 8.0, 0.1)
    assert pass_cost(cost.at, table.unlimited, walked).slowdown == 7.0


def test_layers_are_to_blame_at_the_tightest_limit_that_surely_slows(tmp_path: Path) -> None:
    table = table_of(make(tmp_path, [Made(), *map(Made, ("80M", "70M", "60M", "50M"))]))
    sure = ((True, 2.0), (True, 1.0), (False, 3.0), (True, -1.0))
    costs = [
        replace(cost, surely_slower=slow, extra_s=extra)
        for cost, (slow, extra) in zip(table.costs, sure, strict=True)
    ]
    labels = [SimpleNamespace(limits=SimpleNamespace(label=cost.at.label)) for cost in costs]
    workload: Any = SimpleNamespace(slowed=labels)
    assert replace(table, costs=costs).slowed(workload) is costs[1]
    workload.slowed = [labels[0], labels[2]]
    assert replace(table, costs=costs).slowed(workload) is costs[0]
    workload.slowed = labels[2:]
    assert replace(table, costs=costs).slowed(workload) is None


@pytest.mark.promise("A layer is named as the cause only if its own repeats support it.")
def test_a_layer_that_is_slow_in_one_trial_alone_is_not_the_cause(tmp_path: Path) -> None:
    """Every pass is slower, but each time through another layer."""
    trials = [Made("100M", [slower(name, (1.0, 0.2, 0.1, 0.01))]) for name in ("conv", "fc")]
    table = table_of(make(tmp_path, [Made(), Made(), *trials]))
    assert not any(row.at["100M"].surely_slower for row in table.layers)


def test_an_unknown_peak_stays_unknown(tmp_path: Path):
    """Where the kernel can't reset its mark there is no peak, and no 0."""
    steps = row_of(table_of(make(tmp_path, [Made(peak=False)])), "fc").unlimited
    assert steps.peak_bytes is None
    taken = Spread(1.0, 1.0, 1.0, 1)
    part = LayerPhases(PhaseCost(taken, major_faults=3), PhaseCost(taken), None)
    assert part.major_faults is None
    assert replace(part, first=PhaseCost(taken, major_faults=5)).major_faults == 8


def test_layers_of_a_pipeline_are_told_apart(tmp_path: Path):
    table = table_of(make(tmp_path, [Made()], networks=("zeta", "alpha")))
    assert table.network == "zeta+alpha"
    layers = [(row.network, row.order) for row in table.layers]
    assert layers == [(name, order) for name in ("zeta", "alpha") for order in range(3)]


def test_the_same_network_twice_is_summed(tmp_path: Path):
    table = table_of(make(tmp_path, [Made()], networks=("duo", "duo")))
    fc = row_of(table, "fc").unlimited
    assert (fc.load.seconds.median, fc.load.times) == (pytest.approx(0.3), 2)
    assert table.unlimited.sum_s == pytest.approx(table.unlimited.clock_s.median)


def test_limits_come_from_wide_to_tight_and_those_where_nothing_finished_are_named(tmp_path: Path):
    killed = Made("40M", outcome="oom-killed", reason="killed by the kernel in load of duo")
    made = [Made(label) for label in ("80M", "max", "120M", "100M")]
    table = table_of(make(tmp_path, [*made, killed, killed]))
    assert [cost.at.label for cost in table.costs] == ["120M", "100M", "80M"]
    reason = "killed by the kernel in load of duo"
    assert table.unfinished == [UnfinishedLimit("40M", 40 * MIB, {"oom-killed": 2}, reason)]


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (
            [Made(outcome="failed", reason="no weights"), Made("100M")],
            "no unlimited trial of duo finished: no weights",
        ),
        ([Made(settings={"kind": "command", "command": ["true"]})], "it is no network"),
        ([Made()], "no layer of duo was timed: its trials left no events"),
    ],
)
def test_what_has_no_layers_says_why(made: list[Made], says: str, tmp_path: Path):
    path = make(tmp_path, made)
    (path / "events" / "0001.jsonl.gz").unlink()
    with pytest.raises(ResultsError, match=says) as error:
        layer_cost_tables(load(path))
    assert error.value.remedy == "layers come of networks: edgebench layers NETWORK"


def test_layers_are_sorted_as_asked(tmp_path: Path):
    slow = slower("act", (0.0, 2.0, 0.5, 0.01), slower("conv", (0.2, 0.2, 0.05, 0.01)))
    table = table_of(make(tmp_path, [Made(), Made("100M", [slow])]))
    orders = {
        **dict.fromkeys((None, "cost"), "act conv fc"),
        **dict.fromkeys(("time", "parameters"), "fc conv act"),
        **dict.fromkeys(("order", "peak"), "conv fc act"),
    }
    for sort, names in orders.items():
        assert [row.name for row in sorted_layers(table, sort, "100M")] == names.split()
    assert [row.name for row in sorted_layers(table, None, None)] == ["fc", "conv", "act"]


def test_limits_are_chosen_by_any_name_they_have(tmp_path: Path):
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
    made = [Made(settings={"schedule": name}) for name in ("linear", "bulk", "partial")]
    tables = layer_cost_tables(load(make(tmp_path, made, networks=("a", "b")))).tables
    assert matching_tables(tables, None, {}) == tables
    assert matching_tables(tables, "b", {"schedule": "bulk"}) == tables[1:2]
    with pytest.raises(UsageError, match="no layers of c ") as error:
        matching_tables(tables, "c", {})
    assert "a+b --schedule linear --loader copy" in str(error.value)


def test_rounds_of_one_walk_are_its_repeats(tmp_path: Path):
    walk = [Made(rounds=[UNLIMITED] * 5, step=0), Made("100M", [LIMITED] * 5, step=1)]
    assert row_of(table_of(make(tmp_path / "one", walk)), "fc").at["100M"].surely_slower
    slow = slower("fc", (2.00, 0.10, 0.10, 0.01))
    other = [walk[0], Made("100M", [slow] * 5, step=1)]
    table = table_of(make(tmp_path / "two", [*walk, *other]))
    assert table.costs[0].at.clock_s.count == 2
    fresh = table_of(make(tmp_path / "fresh", [Made(rounds=[UNLIMITED] * 5), *walk]))
    assert (fresh.unlimited.clock_s.count, fresh.costs[0].at.clock_s.count) == (2, 4)


def test_a_walked_pass_is_compared_with_its_own_process(tmp_path: Path):
    """The second process is twice as slow, fresh ones are not: the factor is that of the points."""
    slow, slow_limited = (
        {name: tuple(2 * seconds for seconds in own) for name, own in times.items()}
        for times in (UNLIMITED, LIMITED)
    )
    visits = [
        Made(label, [times] * 5, step=step, around_s=around_s)
        for around_s, walk in ((1.15, (UNLIMITED, LIMITED)), (2.3, (slow, slow_limited)))
        for step, (label, times) in enumerate(zip(("max", "100M"), walk, strict=True))
    ]
    path = make(tmp_path, [*visits, *[Made()] * 3])
    (cost,) = table_of(path).costs
    (point,) = (p for p in point_facts(load(path).sweeps[0]) if p.limits.label == "100M")
    assert cost.ratio == point.ratios["total"]
    assert cost.slowdown == pytest.approx(2.69 / 1.15)
    assert cost.at.clock_s.median == pytest.approx(1.5 * 2.69)


# The figure


def test_bars_are_the_tables_numbers(tmp_path: Path):
    (drawn,) = cost_figures(load(make(tmp_path, [Made(), Made("100M", [LIMITED])] * 2)))
    figure = drawn.figure
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == [
        *("fc (Linear, 100 MiB)", "conv (Conv2d, 4 MiB)"),
        *("act (ReLU)", "between layers"),
    ]
    widths = [[bar.get_width() for bars in axes.containers for bar in bars] for axes in figure.axes]
    assert widths[0] == pytest.approx([0.3, 0.1, 0, 0, 0.5, 0.2, 0, 0], abs=1e-6)
    assert widths[1] == pytest.approx([0.3, 0.3, 0.03, 0.12, 1.5, 0.3, 0.03, 0.16], abs=1e-6)
    assert widths[2] == pytest.approx([1.4 / 1.54, 0.1 / 1.54, 0, 0.04 / 1.54], abs=1e-6)
    assert figure.axes[0].get_xlim() == figure.axes[1].get_xlim()
    # Without a limit there is no extra time.
    (drawn,) = cost_figures(load(make(tmp_path / "free", [Made()])))
    assert len(drawn.figure.axes) == 2
