"""[search] and [around]: draws are seeded, checked as written values are, and points as any."""

from __future__ import annotations

from pathlib import Path

import pytest
from scenario_making import COMMAND, load_text, refusal

from edgebench.scenario.points import points
from edgebench.scenario.scenario import Scenario

SEARCH = """\
schema = 1
name = "tiny"
seed = 3
[workload]
kind = "convolution"
kernel = 3
batch = [1, 2]
[search]
draws = 6
[search.axes]
kernel = {low = 1, high = 11}
channels = {low = 4, high = 64, scale = "log"}
image = {choices = [32, 64]}
"""


def settings_of(scenario: Scenario) -> list[tuple[int, int, int]]:
    """What was drawn for each point of batch 1."""
    made = [point.settings for point in points(scenario) if point.settings["batch"] == 1]
    return [(s["kernel"], s["channels"], s["image"]) for s in made]


def test_draws_are_points_like_any_other(tmp_path: Path):
    scenario = load_text(tmp_path, SEARCH)
    made = [point.settings for point in points(scenario)]
    assert [(s["draw"], s["batch"]) for s in made] == [(d, b) for d in range(6) for b in (1, 2)]
    drawn = settings_of(scenario)
    assert all(1 <= k <= 11 and 4 <= c <= 64 and i in (32, 64) for k, c, i in drawn)
    assert len(set(drawn)) > 3


def test_the_seed_decides_the_draws(tmp_path: Path):
    first, again = load_text(tmp_path, SEARCH), load_text(tmp_path, SEARCH)
    other = load_text(tmp_path, SEARCH.replace("seed = 3", "seed = 4"))
    assert settings_of(first) == settings_of(again) != settings_of(other)
    assert first.fingerprint() == again.fingerprint() != other.fingerprint()


@pytest.mark.parametrize(
    ("given", "wrong", "says"),
    [
        ("kernel = {low = 1", "kernle = {low = 1", "did you mean 'kernel'"),
        ("low = 1, high = 11", "low = 11, high = 1", "low 11 is not below high 1"),
        ("low = 4, high = 64", "low = 0, high = 64", "no logarithm"),
        ("[32, 64]", "[]", "empty list"),
        ("high = 11", "high = 500", "kernel"),
        ("draws = 6", "draws = 0", "greater than or equal to 1"),
        ('scale = "log"', 'scale = "lag"', "did you mean 'log'"),
    ],
)
def test_what_can_not_be_drawn_is_refused(tmp_path: Path, given: str, wrong: str, says: str):
    assert says in refusal(tmp_path, SEARCH.replace(given, wrong))


def test_a_background_is_an_axis(tmp_path: Path):
    text = COMMAND + '[around]\nbackground = ["none", "64M"]\nsystem_memory = ["5s", "100ms"]\n'
    made = [point.settings for point in points(load_text(tmp_path, text))]
    assert list(dict.fromkeys(s["background_bytes"] for s in made)) == [0, 64 << 20]
    assert all(s["system_intervals_s"] == [5.0, 0.1] for s in made)


@pytest.mark.parametrize("value", ['"much"', "[]", '"max"', "true"])
def test_a_background_that_is_no_size_is_refused(tmp_path: Path, value: str):
    assert "around.background" in refusal(tmp_path, COMMAND + f"[around]\nbackground = {value}\n")
