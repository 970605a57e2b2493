"""What layer tables tell: sizes, what is refused, needs and times of networks that never ran."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from made_workloads import MIB, WEIGHTS, curve, device, rows

from edgebench.errors import ResultsError
from edgebench.slowdown.computed import (
    layers_of,
    mapped_bytes,
    needs_of_others,
    seconds_of_others,
    workload_of,
)
from edgebench.slowdown.context import table_key
from edgebench.slowdown.curves import CannotPredictError
from edgebench.slowdown.prediction import WorkloadQuery, find_workloads

TABLES = {"net": rows(*WEIGHTS)}


def test_a_workload_is_its_table_s_sizes() -> None:
    """Three passes over 300 MiB; a layer at a time holds the largest."""
    bulk = workload_of(curve({}).settings, TABLES)
    assert (bulk.weight_bytes, bulk.held_bytes, bulk.passes) == (300 * MIB, 300 * MIB, 3)
    assert bulk.table_bytes == 304 * MIB
    linear = workload_of(curve({}, schedule="linear").settings, TABLES)
    assert (linear.held_bytes, linear.passes, linear.table_bytes) == (220 * MIB, 1, 224 * MIB)


def test_a_batch_makes_tensors_larger_and_weights_not() -> None:
    """Four pictures: 8 MiB out of each layer; a shared part's weights count once."""
    table = [{**row, "part": "shared"} for row in rows(30, 30)]
    one, two = layers_of(table, 4)
    assert (one.weight_bytes, two.weight_bytes) == (30 * MIB, 0)
    assert (one.output_bytes, one.working_bytes) == (8 * MIB, 16 * MIB)
    live = {"live_after_bytes": 1, "live_peak_bytes": 5 * MIB, "workspace_bytes": 33 * MIB}
    (told,) = layers_of([{**rows(30)[0], **live}], 4)
    # 20 MiB of tensors, a copy of the weights, and 3 MiB for each picture.
    assert told.working_bytes == (20 + 30 + 12) * MIB


@pytest.mark.parametrize(
    ("about", "words"),
    [
        ({"kind": "training"}, "a training"),
        ({"engine": "onnxruntime"}, "the engine onnxruntime"),
        ({"accelerator": "cuda"}, "an accelerator"),
        ({"new_tokens": 8}, "text generation"),
        ({"precision": "int8"}, "another precision"),
        ({"pipeline": "net+other"}, "several networks"),
        ({"schedule": "deepeye"}, "the schedule deepeye"),
        ({"pipeline": "unknown"}, "no layer table of unknown"),
        ({"image": 448}, "no layer table of net at 448 pixels"),
    ],
)
def test_what_the_formulas_do_not_hold_for_is_refused(about: dict[str, Any], words: str) -> None:
    with pytest.raises(CannotPredictError, match=words):
        workload_of(curve({}, **about).settings, TABLES)


def test_damaged_tables() -> None:
    row = rows(30)[0]
    with pytest.raises(CannotPredictError, match="no flops"):
        layers_of([{k: v for k, v in row.items() if k != "flops"}])
    with pytest.raises(ResultsError, match="damaged layer table"):
        layers_of([{**row, "flops": "many"}])


def test_inputs_of_another_size_have_a_table_of_their_own() -> None:
    """The wrong answer that was seen: 448 pixels were answered by the table of 224."""
    tables = {"net": rows(*WEIGHTS), table_key("net", 448): rows(*WEIGHTS, batch_bytes=9 * MIB)}
    small, large = (workload_of(curve({}, image=n).settings, tables) for n in (None, 448))
    assert (small.table_bytes, large.table_bytes) == (304 * MIB, 318 * MIB)


def test_needs_of_a_network_that_never_ran() -> None:
    ran = replace(curve({}, network="other"), demand_bytes=(80 + 124 + 14) * float(MIB))
    asked = workload_of(curve({}).settings, TABLES)
    # The other one has 7 MiB a layer.
    assert needs_of_others(asked, device(ran)) == (80 + 304 + 21) * MIB
    # Its own curve tells nothing of it.
    own = replace(curve({}), demand_bytes=1.0)
    assert needs_of_others(asked, device(own, ran)) == (80 + 304 + 21) * MIB


def test_time_of_a_network_that_never_ran() -> None:
    ran = replace(curve({}, network="other"), unlimited_seconds=np.array([1.0]))
    mapped = replace(curve({}, network="other", loader="mmap"), unlimited_seconds=np.array([9.0]))
    asked = workload_of(curve({}).settings, TABLES)
    other = workload_of(ran.settings, device().tables)
    rates = [a / b for a, b in zip(asked.amounts, other.amounts, strict=True)]
    said = seconds_of_others(asked, "total", device(ran, mapped))
    assert min(rates) <= said <= max(rates)
    with pytest.raises(CannotPredictError, match="no unlimited trial"):
        seconds_of_others(asked, "start", device(ran))


def test_mapped_weights_need_no_swap() -> None:
    tables = {"net": rows(30, 50, 220), "other": rows(100, 20)}
    assert mapped_bytes(tables, "net+other", {"schedule": "bulk"}) == 300 * MIB
    assert mapped_bytes(tables, "net", {"schedule": "linear"}) == 220 * MIB


@pytest.mark.parametrize(("rounds", "phases"), [(1, ["total"]), (4, ["start", "total"])])
def test_what_a_query_leaves_open_is_as_most_workloads_have_it(
    rounds: int, phases: list[str]
) -> None:
    shared = {"schedule": "linear", "loader": "mmap", "warm": 5, "image": 64, "rounds": rounds}
    first, other = (curve({}, network=n, sweep=n, command=n, **shared) for n in ("a", "b"))
    turned = replace(other, settings=dict(reversed(other.settings.items())))
    rest = [curve({}, network="c", rounds=2)]
    rest += [curve({}, network=n, kind="training", pipeline="t") for n in "def"]
    rest += [curve({}, network=n, engine="onnxruntime", pipeline="o") for n in "ghi"]
    data = replace(device(*rest, first, turned), device="nano", swap_kind="zram")
    (found,) = find_workloads(data, WorkloadQuery("net", threads=7))
    assert found.settings == {
        "kind": "inference",
        "batch": 1,
        "workers": 2,
        "page_cache": "cold",
        "gc": "frozen",
        **shared,
        "image": None,
        "threads": 7,
        "swap_bytes": 1024.0 * MIB,
        "device": "nano",
        "swap_kind": "zram",
        "pipeline": "net",
    }
    assert [(one.network, one.phase, one.limit_bytes.size) for one in found.curves] == [
        ("net", phase, 0) for phase in phases
    ]
    assert find_workloads(data, WorkloadQuery("c"))[0].curves == (rest[0],)
    with pytest.raises(ResultsError, match="no trial here is of such a workload"):
        find_workloads(data, WorkloadQuery(loader="file"))
    usual = find_workloads(device(), WorkloadQuery("net", batch=3))[0].settings
    assert (usual["batch"], usual["schedule"], usual["rounds"], usual["warm"]) == (3, "bulk", 3, 2)
