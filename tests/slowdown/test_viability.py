"""Viability: an edge that is known is found, and nothing dangerous is said."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from pathlib import Path

import pytest
from made_sweep import Shape, make

from edgebench.results.results import load
from edgebench.slowdown.viability import CONFIDENT, ViabilityTrial, fit_viability, mapped_bytes
from edgebench.slowdown.viability import viability_trials as trials_of

MIB = 1 << 20


def viability_trials(
    edge: float = 1.02, spread: float = 0.01, networks: int = 8, swap: float = 64.0
) -> list[ViabilityTrial]:
    """Networks killed where limit + swap is less than about ``edge`` times their need."""
    chance = random.Random(5)
    made = []
    for number in range(networks):
        need = (200 + 60 * number) * MIB
        own = edge * math.exp(chance.gauss(0, spread))
        for share in (1.05, 0.95, 0.85, 0.75, 0.65, 0.55):
            viable = share * need + swap * MIB >= own * need
            name = f"net{number}"
            made.append(ViabilityTrial(name, (name,), share * need, swap * MIB, need, viable))
    return made


@pytest.mark.parametrize("edge", [0.95, 1.0, 1.08])
def test_the_edge_is_learnt(edge: float):
    """Certified trials: the limit that every second one survives is found within 3 %."""
    learnt = fit_viability(viability_trials(edge))
    assert math.exp(learnt.edge) == pytest.approx(edge, rel=0.03)
    assert learnt.least_bytes(64 * MIB, 400 * MIB) == pytest.approx(
        (edge * 400 - 64) * MIB, rel=0.05
    )
    assert learnt.killed > 0


def test_probability_rises_with_memory_and_swap():
    """More of either never makes a trial less likely to finish."""
    learnt = fit_viability(viability_trials())
    for swap in (0, 64, 128):
        told = [learnt.probability(m * MIB, swap * MIB, 400 * MIB) for m in range(200, 500, 10)]
        assert told == sorted(told)
    assert learnt.probability(300 * MIB, 200 * MIB, 400 * MIB) > 0.99
    assert learnt.least_bytes(0, 400 * MIB, CONFIDENT) > learnt.least_bytes(0, 400 * MIB)


def test_without_a_kill_the_need_is_the_edge():
    """Nothing learnt: limit and swap must hold what is needed, told with little confidence."""
    learnt = fit_viability([s for s in viability_trials() if s.viable])
    assert math.exp(learnt.edge) == pytest.approx(1.0, abs=0.1)
    assert learnt.killed == 0
    assert fit_viability([]).least_bytes(0, 400 * MIB) == pytest.approx(400 * MIB)


def test_swap_may_take_all():
    """With more swap than need no limit follows from it."""
    assert fit_viability(viability_trials()).least_bytes(1000 * MIB, 400 * MIB) == 0


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


@pytest.mark.promise("Models, planning and searches don't silently use such kills.")
def test_kills_with_swap_free_teach_nothing_and_are_counted():
    """Trials killed at wide limits while swap was free: the same edge as without them, and said."""
    known = viability_trials()
    wide = [s for s in known if s.viable][:5]
    odd = [replace(trial, viable=False, swap_was_free=True) for trial in wide]
    plain, learnt = fit_viability(known), fit_viability([*known, *odd])
    assert (learnt.edge, learnt.sharpness, learnt.killed) == (
        plain.edge,
        plain.sharpness,
        plain.killed,
    )
    assert learnt.left_out == 5
    assert "5 trials were killed while swap was free" in learnt.left_out_words[0]
    assert plain.left_out_words == []


def test_marked_kills_of_a_sweep_are_left_out(tmp_path: Path):
    """From the file on the disk to the words on stderr: the record's mark is what counts."""
    folder = make(tmp_path, Shape(repeats=2, with_files=False))
    lines = [json.loads(line) for line in (folder / "trials.jsonl").read_text().splitlines()]
    tight = [line for line in lines if line["limits"]["label"] == "50M"]
    for line, marked in zip(tight, (True, False), strict=True):
        line.update(outcome="oom-killed", killed_with_swap_free=marked)
    (folder / "trials.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    learnt = fit_viability(trials_of(load(folder)))
    assert (learnt.killed, learnt.left_out) == (1, 1)
    assert "1 trial was killed while swap was free" in learnt.left_out_words[0]


def test_a_trial_had_the_limit_that_the_kernel_took(tmp_path: Path):
    """It rounds to pages; where that was not read back, the limit that was asked for counts."""
    folder = make(tmp_path, Shape(repeats=1, limits=(None, 100, 50), with_files=False))
    lines = [json.loads(line) for line in (folder / "trials.jsonl").read_text().splitlines()]
    for line, taken in zip(lines, (None, 100 * MIB - 4096, None), strict=True):
        line["limit_bytes"] = taken
    (folder / "trials.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert [one.limit_bytes for one in trials_of(load(folder))] == [100 * MIB - 4096, 50 * MIB]
