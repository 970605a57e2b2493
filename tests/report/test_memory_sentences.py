"""What holds the memory that keeps a network from fitting, held against sizes and real kills."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sentence_making import FREE, KILLED, MIB, NETWORK, made, point

from edgebench.layers.known_networks import import_torchvision
from edgebench.records import EndedIn
from edgebench.results.facts import WorkloadFacts, sweep_facts
from edgebench.results.results import load
from edgebench.units import format_size
from edgebench.words.fits import holder_sentences
from tests.own_path import python_path

pytestmark = pytest.mark.torch

KEPT = Path(__file__).parents[2] / "results" / "vm-2core-24g"
WALKED = KEPT / "20261125T080603Z-quickstart-232ea1"


def killed(ended_in: EndedIn | None = None, **settings: Any) -> WorkloadFacts:
    """A network that needs a runtime of 60 MiB and is killed at 90 MiB."""
    own = {**NETWORK, "loader": "copy", **settings}
    lost = replace(point("90M", outcomes=KILLED), settings=own, ended_in=ended_in)
    return made(replace(FREE, settings=own, base_bytes=60.0 * MIB), lost)


def tables(**layers: tuple[int, int]) -> dict[str, Any]:
    """Layers in MiB, each with its weights and its tensors; ``__`` stands for a dot."""
    rows = [
        {"name": name, "part": name, "parameter_bytes": weights * MIB, "live_peak_bytes": own * MIB}
        for name, (weights, own) in ((n.replace("__", "."), sizes) for n, sizes in layers.items())
    ]
    return {"networks": {"alexnet": {"table": rows}}}


AT = "What keeps it from fitting at 90.0 MiB"
BESIDE = ", beside the runtime's 60.0 MiB"
SPREAD = {f"a__{n}": (4, 1) for n in range(6)} | {f"b__{n}": (9, 2) for n in range(5)}


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        ({"conv": (4, 3), "fc": (40, 1)}, "fc holds the most, 40.0 MiB of the 47.0 MiB that"),
        ({"conv": (4, 30), "fc": (10, 1)}, "the activations of conv hold the most, 30.0 MiB of"),
        (SPREAD, "b holds the most, 45.0 MiB of the 71.0 MiB that weights and activations take"),
    ],
)
def test_the_part_that_holds_most_is_named(layers: dict[str, tuple[int, int]], words: str):
    """One layer, one layer's activations, or the smallest part of the network with half of it."""
    (said,) = holder_sentences(killed(EndedIn("load", "n", "fc")), tables(**layers))
    assert said.startswith(f"{AT}: {words}")
    assert said.endswith(f"{BESIDE}; it was killed while loading fc.")


def test_layers_held_one_at_a_time_are_compared_one_by_one():
    """What is loaded, executed and freed has its weights and its activations at once."""
    (said,) = holder_sentences(killed(schedule="linear"), tables(conv=(4, 9), fc=(10, 1)))
    words = "of its layers conv holds the most, 13.0 MiB of weights and activations"
    assert said == f"{AT}: {words}{BESIDE}."


def test_weights_used_twice_are_held_once():
    """As they are loaded."""
    shared = tables(embed=(8, 1), middle=(10, 1), head=(8, 1))
    shared["networks"]["alexnet"]["table"][2]["part"] = "embed"
    (said,) = holder_sentences(killed(), shared)
    assert "middle holds the most, 10.0 MiB of the 19.0 MiB" in said


def test_a_runtime_that_does_not_fit_is_no_layer():
    """A kill in the import says so, whatever the layers' sizes."""
    (said,) = holder_sentences(killed(EndedIn("import")), tables(fc=(40, 1)))
    words = "no layer: it was killed while importing its runtime, which takes 60.0 MiB"
    assert said == f"{AT} is {words}."


@pytest.mark.parametrize(
    "settings",
    [{"loader": "mmap"}, {"kind": "training"}, {"networks": ["a", "b"]}, {"precision": "int8"}],
)
def test_where_sizes_do_not_tell_nothing_is_said(settings: dict[str, Any]):
    """Mapped weights are dropped, and others are of another size than the table has."""
    assert holder_sentences(killed(**settings), tables(fc=(40, 1))) == []


def test_without_a_kill_or_a_table_nothing_is_said():
    """A limit that is slow only, and results of before there were tables."""
    assert holder_sentences(made(FREE, point("90M", (8.0,) * 3)), tables(fc=(40, 1))) == []
    for damaged in ({}, {"networks": {"alexnet": {"table": [1, {"name": 2}]}}}, {"networks": 3}):
        assert holder_sentences(killed(), damaged) == []


@pytest.mark.torch
def test_real_kills_are_explained_by_real_sizes():
    """ResNet-18, walked until it was killed: its fourth stage, with torch's own count of bytes."""
    models = import_torchvision()
    sweep = load(WALKED).sweeps[0]
    (walked,) = [
        one
        for one in sweep_facts(sweep).workloads
        if one.settings["networks"] == ["resnet18"] and one.settings["loader"] == "copy"
    ]
    (said,) = holder_sentences(walked, sweep.networks)
    stage = models.resnet18().layer4
    size = sum(own.nbytes for own in (*stage.parameters(), *stage.buffers()))
    assert f": layer4 holds the most, {format_size(size)} of the " in said
    assert "it was killed while executing layer4." in said


@pytest.mark.long
@pytest.mark.torch
@pytest.mark.own_cgroup
def test_a_kill_measured_in_truth_names_its_layer(tmp_path: Path):
    """AlexNet at 60 % without swap: show says where it was killed, the report what doesn't fit."""

    def typed(*words: str) -> str:
        command = [sys.executable, "-m", "edgebench", *words]
        env = {**os.environ, "PYTHONPATH": python_path()}
        done = subprocess.run(
            command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return " ".join(done.stdout.split())

    measured = ("layers", "alexnet", "--memory", "60%", "--repeats", "1", "--rounds", "1")
    typed(*measured, "--no-figure")
    holds = "classifier.1 holds the most, 144.0 MiB of the "
    killed_in = "killed while loading classifier.1."
    assert " while loading classifier.1." in typed("show")
    assert holds in typed("show", "--verbose")
    report = typed("report")
    assert holds in report
    assert killed_in in report
    (page,) = tmp_path.glob("results/*/*/report.html")
    html = " ".join(page.read_text().split())
    assert html.count(holds) == 1
    assert "Which layers cause the slowdown?" in html
