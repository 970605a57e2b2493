"""Layers' peaks by strategy: which trials count, and how a table of them is made."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd
from layer_cost_results import Made, make

from edgebench.analysis.layer_costs.builder import layer_cost_tables
from edgebench.analysis.layer_costs.peaks import layer_peak_tables
from edgebench.results.results import Results, load


def seen(trial: str, own: bool, strategy: str, layer: int, phase: str, peak: float) -> Any:
    """One row of the frame of memory."""
    about = {"round": 0, "pass_number": 0, "network": "duo", "outcome": "ok"}
    method = {"method": f"{strategy}'s way", "error_bytes": 5.0, "error_source": "made up"}
    where = {"trial": trial, "own_trial": own, "strategy": strategy, "layer": layer}
    return {**about, **method, **where, "phase": phase, "peak_bytes": peak}


def test_timed_trials_tell_what_they_can_and_own_trials_the_rest(tmp_path: Any) -> None:
    """The larger of load and execution; medians of timed trials; own trials' marks aside."""
    results = load(make(tmp_path, [Made(), Made("100M")]))
    (table,) = layer_cost_tables(results).tables
    trials = results.trials
    point = trials.loc[trials["memory_bytes"].isna(), "point"].iloc[0]
    rows = [
        seen("0001", False, "kernel", 0, "load", 30),
        seen("0001", False, "kernel", 0, "first", 20),
        seen("0002", False, "kernel", 0, "first", 50),
        seen("0009", True, "kernel", 0, "first", 999),
        seen("0009", True, "process", 0, "first", 40),
        seen("0009", True, "process", 1, "first", float("nan")),
        {**seen("0009", True, "process", 0, "first", 777), "pass_number": 1},
    ]
    frame = pd.DataFrame(rows).assign(sweep=results.sweeps[0].name, point=point)
    elsewhere = frame.assign(point="another", peak_bytes=888.0)
    (sweep,) = results.sweeps
    told = Results([replace(sweep, strategy_records=sweep.records[:1])])
    # In the place of what is read from the files.
    told.memory = pd.concat([frame, elsewhere])
    (found,) = layer_peak_tables(told, [table])
    assert found is not None
    assert found.peaks == {("duo", 0): {"kernel": 40.0, "process": 40.0}}
    assert {m.strategy: m.error_bytes for m in found.methods} == {"kernel": 5.0, "process": 5.0}
    assert found.to_json()["layers"] == [
        {"network": "duo", "layer": 0, "peak_bytes": {"kernel": 40.0, "process": 40.0}}
    ]


def test_a_sweep_without_strategies_has_no_such_table(tmp_path: Any) -> None:
    """Nor is its frame of memory made, which takes long."""
    results = load(make(tmp_path, [Made()]))
    assert layer_peak_tables(results, layer_cost_tables(results).tables) == [None]
