"""An accelerator and a limit of its memory as axes of a scenario; what can't be is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from scenario_making import COMMAND, CONVOLUTION, INFERENCE, TRAINING, load_text, with_key

from edgebench.errors import MachineError, ScenarioError
from edgebench.run.sweep.sweep import need_accelerators
from edgebench.scenario.points import points, points_digest
from edgebench.scenario.preview import preview, this_machine

BOTH = 'accelerator = ["none", "cuda"]'
LIMITS = 'accelerator_memory = ["max", "4G"]'


@pytest.mark.parametrize("text", [INFERENCE, TRAINING])
def test_each_accelerator_is_a_point(text: str, tmp_path: Path):
    before = points(load_text(tmp_path, text))
    made = points(load_text(tmp_path, with_key(text, "workload", BOTH)))
    assert len(made) == 2 * len(before)
    assert points_digest(before) == points_digest([*before]) != points_digest(made)
    named = [point.settings.get("accelerator") for point in made]
    assert set(named) == {None, "cuda"}
    own = [point.settings for point in made if "accelerator" not in point.settings]
    assert own == [point.settings for point in before]


@pytest.mark.parametrize("text", [INFERENCE, TRAINING])
def test_a_limit_of_it_is_no_axis_of_the_processor(text: str, tmp_path: Path):
    text = with_key(with_key(text, "workload", BOTH), "limits", LIMITS)
    made = points(load_text(tmp_path, text))
    sizes = [(p.settings.get("accelerator"), p.limits.accelerator_bytes) for p in made]
    assert set(sizes) == {(None, None), ("cuda", None), ("cuda", 4 << 30)}
    assert sizes.count((None, None)) == sizes.count(("cuda", 4 << 30))


@pytest.mark.parametrize(
    ("text", "table", "lines", "says"),
    [
        (INFERENCE, "workload", ['accelerator = "gpu"'], "no accelerator 'gpu'"),
        (INFERENCE, "limits", [LIMITS], "nothing here computes on one"),
        (COMMAND, "limits", [LIMITS], "nothing here computes on one"),
        (CONVOLUTION, "workload", [BOTH], "accelerator"),
        (INFERENCE, "workload", [BOTH, 'schedule = "stream"', 'loader = "mmap"'], "host's memory"),
        (INFERENCE, "workload", [BOTH, 'schedule = "admission"'], "host's memory"),
        (TRAINING, "workload", [BOTH, 'framework = "tensorflow"', 'network = "alexnet"'], "pytor"),
        (TRAINING, "workload", [BOTH, 'trained = "filters 40%"'], "filters"),
    ],
)
def test_what_an_accelerator_can_t_do_is_refused(
    text: str, table: str, lines: list[str], says: str, tmp_path: Path
):
    for line in lines:
        text = with_key(text, table, line)
    with pytest.raises(ScenarioError, match=says):
        load_text(tmp_path, text)


@pytest.mark.parametrize(
    ("size", "says"),
    [
        ('"50%"', "shares are of the host's demand"),
        ('"4"', "less than CUDA takes at once"),
        ("true", "is no size"),
        ('"4 GX"', "GX"),
        ('["4G", "4096M"]', "listed twice"),
    ],
)
def test_limits_that_are_none(size: str, says: str, tmp_path: Path):
    text = with_key(with_key(INFERENCE, "workload", BOTH), "limits", f"accelerator_memory = {size}")
    with pytest.raises(ScenarioError, match=re.escape(says)):
        load_text(tmp_path, text)


def test_a_machine_without_cuda_is_told_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """`check` warns, since it may be another machine's scenario; `run` refuses."""
    reason = "this torch has no CUDA: torch 0.0 is built without it", "install another"
    for place in ("scenario.preview", "run.sweep.sweep"):
        monkeypatch.setattr(f"edgebench.{place}.why_no_cuda", lambda: reason)
    scenario = load_text(tmp_path, with_key(INFERENCE, "workload", BOTH))
    assert ": ".join(reason) in preview(scenario, this_machine()).warnings
    with pytest.raises(MachineError, match="this torch has no CUDA"):
        need_accelerators(points(scenario))
    need_accelerators(points(load_text(tmp_path, INFERENCE)))
