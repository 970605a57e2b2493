"""Curves from results, and the verb `fit` on them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from made_sweep import Shape, make, slowdown

from edgebench.cli.predict import fit
from edgebench.errors import ResultsError
from edgebench.results.results import load
from edgebench.slowdown.curves import curves

MIB = 1 << 20


def test_slowdowns_are_those_of_the_sweep(tmp_path: Path):
    shape = Shape(warm=2, noise=0.001, with_files=False)
    made = {curve.phase: curve for curve in curves(load(make(tmp_path, shape)))}
    assert set(made) == {"load", "first", "execute", "start", "total"}
    for phase in ("load", "first", "execute"):
        truth = [slowdown(shape, m, phase) for m in (50, 75, 100, 150)]
        assert made[phase].medians == pytest.approx(truth, rel=0.01)
        assert made[phase].limits / MIB == pytest.approx([50, 75, 100, 150])
    assert made["load"].demand_bytes == 200 * MIB
    assert len(made["load"].seconds) == 4 * shape.repeats


def test_a_pipelines_networks_and_its_total(tmp_path: Path):
    shape = Shape(networks={"alexnet": 6, "resnet18": 9}, pipeline=True, with_files=False)
    labels = {curve.label for curve in curves(load(make(tmp_path, shape)))}
    assert "alexnet+resnet18 · linear · copy · start" in labels
    assert "alexnet+resnet18 · linear · copy · steady" in labels
    assert "resnet18 · linear · copy · load" in labels
    assert len(labels) == 6


def test_a_command_has_a_total_only(tmp_path: Path):
    shape = Shape(command="python3 train.py --fast", killed_below=60)
    (curve,) = curves(load(make(tmp_path, shape)))
    assert curve.label == "python3 train.py --fast · total"
    assert curve.limits / MIB == pytest.approx([75, 100, 150])
    assert curve.lost_bytes == {"oom-killed": (50 * MIB,)}


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        (Shape(limits=(None,), with_files=False), "only unlimited trials"),
        (Shape(killed_below=1e9, with_files=False), "no trial finished below a limit"),
        (Shape(limits=(150, 100), with_files=False), "no unlimited trial finished"),
    ],
)
def test_no_curve_is_a_clear_error(tmp_path: Path, shape: Shape, words: str):
    with pytest.raises(ResultsError, match=words) as caught:
        curves(load(make(tmp_path, shape)))
    assert caught.value.remedy


def test_fit_has_a_row_for_each_curve(tmp_path: Path):
    path = make(tmp_path, Shape(with_files=False))
    brief = CliRunner().invoke(fit, [str(path)])
    assert brief.stdout.splitlines()[0].split()[:3] == ["curve", "points", "unlimited"]
    assert len(brief.stdout.splitlines()) == 1 + 4
    assert f"next: edgebench predict --results {path}" in brief.stderr
    done = CliRunner().invoke(fit, [str(path), "--json"])
    printed = json.loads(done.stdout)
    assert len(printed["fits"]) == 4
    first = printed["fits"][0]
    assert len(first["fit"]["slowdowns"]) == len(first["fit"]["limits_bytes"]) == 5
    assert (first["fit"]["limits_bytes"][-1], first["fit"]["slowdowns"][-1]) == (200 * MIB, 1.0)
    assert len(first["held_out"]) == 4
    assert first["mean_error"] > 0
