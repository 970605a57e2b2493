"""Viability: an edge that is known is found, and nothing dangerous is said."""

from __future__ import annotations

import math
import random

import pytest

from edgebench.slowdown.viability import CONFIDENT, Stand, learn, mapped_bytes
from edgebench.slowdown.viability_scores import judge, judge_groups, score

MIB = 1 << 20


def stands(
    edge: float = 1.02, spread: float = 0.01, networks: int = 8, swap: float = 64.0
) -> list[Stand]:
    """Networks killed where limit + swap is less than about ``edge`` times their need."""
    chance = random.Random(5)
    made = []
    for number in range(networks):
        need = (200 + 60 * number) * MIB
        own = edge * math.exp(chance.gauss(0, spread))
        for share in (1.05, 0.95, 0.85, 0.75, 0.65, 0.55):
            viable = share * need + swap * MIB >= own * need
            name = f"net{number}"
            made.append(Stand(name, (name,), share * need, swap * MIB, need, viable))
    return made


@pytest.mark.parametrize("edge", [0.95, 1.0, 1.08])
def test_the_edge_is_learnt(edge: float):
    """Certified trials: the limit that every second one survives is found within 3 %."""
    learnt = learn(stands(edge))
    assert math.exp(learnt.edge) == pytest.approx(edge, rel=0.03)
    assert learnt.least_bytes(64 * MIB, 400 * MIB) == pytest.approx(
        (edge * 400 - 64) * MIB, rel=0.05
    )
    assert learnt.killed > 0


def test_probability_rises_with_memory_and_swap():
    """More of either never makes a trial less likely to finish."""
    learnt = learn(stands())
    for swap in (0, 64, 128):
        told = [learnt.probability(m * MIB, swap * MIB, 400 * MIB) for m in range(200, 500, 10)]
        assert told == sorted(told)
    assert learnt.probability(300 * MIB, 200 * MIB, 400 * MIB) > 0.99
    assert learnt.least_bytes(0, 400 * MIB, CONFIDENT) > learnt.least_bytes(0, 400 * MIB)


def test_without_a_kill_the_need_is_the_edge():
    """Nothing learnt: limit and swap must hold what is needed, told with little confidence."""
    learnt = learn([s for s in stands() if s.viable])
    assert math.exp(learnt.edge) == pytest.approx(1.0, abs=0.1)
    assert learnt.killed == 0
    assert learn([]).least_bytes(0, 400 * MIB) == pytest.approx(400 * MIB)


def test_swap_may_take_all():
    """With more swap than need no limit follows from it."""
    assert learn(stands()).least_bytes(1000 * MIB, 400 * MIB) == 0


def test_networks_left_out_are_judged_right():
    """One network out: nearly all right, nothing called viable with confidence that was killed."""
    judged, edges = judge_groups(stands())
    told = score("network", judged["network"], edges["network"])
    assert told.right > 0.95
    assert told.dangerous == 0
    assert told.edges == 8
    assert told.within_10 == 1.0


def test_a_wrong_edge_shows():
    """What was learnt where the edge lies lower calls trials viable that are killed."""
    judged, edges = judge(stands(0.8), stands(1.1))
    told = score("network", judged, edges)
    assert told.dangerous > 0
    assert told.wrongly_viable >= told.dangerous
    assert told.within_10 is not None
    assert told.within_10 < 0.5


def test_held_out_families_are_judged_apart():
    """A family that is held out is asked with the others' knowledge, and taught none of it."""
    made = [
        *stands(networks=5),
        *(Stand("densenet121", ("d",), s.limit_bytes, s.swap_bytes, s.need_bytes, s.viable)
          for s in stands(networks=1)),
    ]  # fmt: skip
    judged, _ = judge_groups(made, ["densenet"])
    assert {one.stand.network for one in judged["held-out"]} == {"densenet121"}
    assert "densenet121" not in {one.stand.network for one in judged["network"]}


def test_mapped_weights_need_no_swap():
    """A whole network's at once, or one layer's where they come and go; shared parts once."""
    rows = [("a", 10), ("b", 30), ("b", 30), ("c", 5)]
    tables = {
        "one": [{"part": part, "file_bytes": size} for part, size in rows],
        "two": [{"part": "x", "file_bytes": 20}],
    }
    assert mapped_bytes(tables, "one", "bulk") == 45
    assert mapped_bytes(tables, "one", "linear") == 30
    assert mapped_bytes(tables, "one+two", "bulk") == 45
    assert mapped_bytes(tables, "unknown", "bulk") == 0
