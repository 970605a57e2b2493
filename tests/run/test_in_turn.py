"""Two versions run in turn, in real cgroups: the order, one limit for both, resuming, bad input."""

from __future__ import annotations

import json
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from shared_sweeps import SharedSweep
from test_sweep import edgebench, stopped_anywhere

from edgebench.analysis.compare import compare_sweeps
from edgebench.cli import cli
from edgebench.errors import RegressionError, UsageError
from edgebench.results.in_turn import versions_in_turn
from edgebench.results.results import load

pytestmark = pytest.mark.own_cgroup

SCENARIO = """
schema = 1
name = "{name}"
repeats = 3
timeout = "20s"
[workload]
kind = "command"
command = ["{python}", "-IS", "-c", "b = bytearray({mib} << 20); b[::4096] = bytes({mib} << 8)"]
[limits]
memory = {memory}
swap = "none"
"""


def scenario(folder: Path, name: str, mib: int, memory: str = '["max", "75%", "90M"]') -> Path:
    """A version that touches so much memory."""
    path = folder / f"{name}.toml"
    path.write_text(SCENARIO.format(name=name, python=sys.executable, mib=mib, memory=memory))
    return path


def sweeps(root: Path) -> dict[str, tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Version → what its folder says of it, and its lines."""
    found = {}
    for file in root.glob("results/*/*/resolved.json"):
        lines = (file.parent / "trials.jsonl").read_text().splitlines()
        resolved = json.loads(file.read_text())
        assert resolved["in_turn"]["version"] not in found
        found[resolved["in_turn"]["version"]] = resolved, [json.loads(line) for line in lines]
    return found


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a version and one that needs more memory were run in turn; tests only read it."""
    folder = tmp_path_factory.mktemp("both")
    old, new = scenario(folder, "before", 50), scenario(folder, "after", 80)
    done = edgebench("run", new.name, "--in-turn-with", old.name, "--json", cwd=folder)
    told = json.loads(done.stdout)
    assert [told[version]["trials"] for version in ("old", "new")] == [9, 9]
    return folder


def answer(
    monkeypatch: pytest.MonkeyPatch, folder: Path, *words: str
) -> tuple[BaseException | None, str]:
    """What a verb ends with in that folder, and prints."""
    monkeypatch.chdir(folder)
    done = CliRunner().invoke(cli, words)
    return done.exception, done.stdout


@pytest.mark.promise(
    "Two versions run in turn have each trial once after kills at random moments, the two of "
    "a pair in a row and at one limit."
)
def test_trials_of_a_pair_follow_each_other_at_one_limit(both: Path) -> None:
    """Pairs are of one block and point, either first; shares are of the old version's demand."""
    made = sweeps(both)
    assert made["old"][0]["in_turn"]["pair"] == made["new"][0]["in_turn"]["pair"]
    rows = sorted(
        (line["started_utc"], version, line["block"], line["limits"]["label"])
        for version, (_, lines) in made.items()
        for line in lines
    )
    pairs = [(rows[i], rows[i + 1]) for i in range(0, len(rows), 2)]
    assert all(one[2:] == other[2:] for one, other in pairs)
    assert {(one[1], other[1]) for one, other in pairs} == {("old", "new"), ("new", "old")}
    limits = {
        line["limit_bytes"]
        for _, lines in made.values()
        for line in lines
        if line["limits"]["label"] == "75%"
    }
    assert len(limits) == 1
    assert all(
        list(both.glob(f"results/*/*-{name}-*/complete.json")) for name in ("before", "after")
    )


def test_compare_pairs_versions_whose_settings_differ(
    both: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One path is enough: the other version is found, and points pair though commands differ."""
    error, printed = answer(monkeypatch, both, "compare", "results", "--json")
    told = json.loads(printed)
    assert isinstance(error, RegressionError)
    assert told["in_turn"] is True
    assert "before" in told["a"]
    assert told["only_a"] == told["only_b"] == []
    assert ("demand", "max", "more") in {
        (row["quantity"], row["limits"]["label"], row["verdict"]) for row in told["rows"]
    }
    assert "Made in turn: " in answer(monkeypatch, both, "compare", "results")[1]


@pytest.mark.promise(
    "Two versions run in turn have each trial once after kills at random moments, the two of "
    "a pair in a row and at one limit."
)
def test_stopped_anywhere_the_next_start_completes_both(tmp_path: Path) -> None:
    """Killed at random moments and started again: two sweeps, each trial once in each."""
    old, new = scenario(tmp_path, "before", 50), scenario(tmp_path, "after", 50)
    words = ["run", str(new), "--in-turn-with", str(old)]
    stopped_anywhere(words, tmp_path, signal.SIGKILL, 2, sweeps=2)
    for resolved, lines in sweeps(tmp_path).values():
        planned = sorted(one["trial"] for one in resolved["plan"])
        assert sorted(line["trial"] for line in lines) == planned


def test_if_one_is_complete_and_the_other_is_not_both_are_found(both: Path, tmp_path: Path) -> None:
    """Killed between the two marks: the next start makes no third sweep."""
    shutil.copytree(both, tmp_path, dirs_exist_ok=True)
    (mark,) = tmp_path.glob("results/*/*-after-*/complete.json")
    lines = mark.with_name("trials.jsonl")
    mark.unlink()
    lines.write_text("".join(lines.read_text().splitlines(keepends=True)[:-1]))
    edgebench("run", "after.toml", "--in-turn-with", "before.toml", cwd=tmp_path)
    assert mark.exists()
    assert [len(made) for _, made in sweeps(tmp_path).values()] == [9, 9]


def test_points_of_one_version_alone_are_run_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old version's share has no partner: it waits for its own demand all the same."""
    old, new = scenario(tmp_path, "before", 50), scenario(tmp_path, "after", 50, '["max", "80M"]')
    for path in (old, new):
        path.write_text(path.read_text().replace("repeats = 3", "repeats = 1"))
    done = edgebench("run", str(new), "--in-turn-with", str(old), "--json", cwd=tmp_path)
    told = json.loads(done.stdout)
    assert [told[version]["trials"] for version in ("old", "new")] == [3, 2]
    compared = json.loads(answer(monkeypatch, tmp_path, "compare", "results", "--json")[1])
    assert [len(compared[f"only_{one}"]) for one in "ab"] == [2, 1]
    assert {row["limits"]["label"] for row in compared["rows"]} == {"max"}


def test_an_ordinary_sweep_is_not_taken_for_one_in_turn(shared_sweep: SharedSweep) -> None:
    """A sweep made alone has no partner, and two made alone are compared as ever."""
    a, b = shared_sweep("command"), shared_sweep("kills")
    assert versions_in_turn(b) is None
    assert not compare_sweeps(load(a).sweeps[0], load(b).sweeps[0]).in_turn
    with pytest.raises(UsageError, match="takes two sweeps, or one that was made in turn"):
        CliRunner().invoke(cli, ["compare", str(a)], catch_exceptions=False)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("repeats = 3", "repeats = 4"), "differ in repeats"),
        (('swap = "none"', 'swap = "none"\ncores = [1, 2]'), "no points to compare"),
    ],
)
def test_what_makes_no_pairs_is_refused(
    tmp_path: Path, change: tuple[str, str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before any trial, and with what to do."""
    old, new = scenario(tmp_path, "before", 50), scenario(tmp_path, "after", 50)
    new.write_text(new.read_text().replace(*change))
    error, _ = answer(monkeypatch, tmp_path, "run", new.name, "--in-turn-with", old.name)
    assert isinstance(error, UsageError)
    assert words in f"{error.what} {error.remedy}"
    assert not list(tmp_path.glob("results/*/*"))


def test_the_same_file_twice_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also under another path to it."""
    old = scenario(tmp_path, "before", 50)
    error, _ = answer(monkeypatch, tmp_path, "run", str(old), "--in-turn-with", "./before.toml")
    assert isinstance(error, UsageError)
    assert "both versions are the same file" in error.what
