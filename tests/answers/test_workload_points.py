"""A workload's points: their order, their names, where it is slow."""

from __future__ import annotations

import pytest
from point_making import FREE, MIB, NETWORK, STEADY, made, point

from edgebench.answers.limits import limits_table, workload_answer
from edgebench.results.facts import workload_facts
from edgebench.results.workload_key import short_names


def test_a_workloads_limits_come_widest_first():
    workload = made(point("50M", (9.0,)), FREE, point("150M", (2.0,)))
    assert [p.limits.label for p in workload.points] == ["max", "150M", "50M"]
    assert workload.name == "alexnet · batch 1 · swap file 64.0 MiB".replace(" · b", " · bulk · b")


def test_two_of_one_name_are_told_apart():
    small, large = ({**NETWORK, "image": size} for size in (64, 224))
    names = [w.name for w in workload_facts([point("max", settings=s) for s in (small, large)])]
    assert [name.rpartition(" · ")[2] for name in names] == ["image 64", "image 224"]


@pytest.mark.parametrize(
    ("times", "expected"),
    [((2.1, 2.15, 4.0), 120), ((2.1, 4.0, 2.1), 150), ((4.0, 2.0, 2.0), None)],
)
def test_a_limit_to_give_has_no_slow_limit_above_it(times: tuple[float, ...], expected: int | None):
    points = [point(f"{m}M", (t,) * 3) for m, t in zip((150, 120, 100), times, strict=True)]
    assert workload_answer(made(STEADY, *points)).give_bytes == (expected and expected * MIB)


def test_what_all_workloads_share_is_told_once():
    brief, shared = short_names(["alexnet · bulk · batch 1", "alexnet · linear · batch 1"])
    assert list(brief.values()) == ["bulk", "linear"]
    assert shared == "alexnet · batch 1"
    assert short_names(["alexnet · bulk"]) == ({"alexnet · bulk": "alexnet · bulk"}, "")


def test_a_limit_that_a_walk_visits_often_has_more_trials_than_were_planned():
    table = limits_table(workload_answer(made(point("max", (2.0,) * 4), point("100M", (3.0,)))))
    assert [row[1] for row in table.rows] == ["4/4", "1/3"]
