"""Large results: the same records, frames and warnings as of small ones, kept for the next time."""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner
from results_making import make_sweep, record

import edgebench
from edgebench.cli.show import show
from edgebench.records import TrialRecord
from edgebench.results.columns import large_file as large
from edgebench.results.folder import ResultsFolder
from edgebench.results.layout import COLUMNS, TRIALS
from edgebench.results.summary import summarise
from edgebench.results.sweep_reader import read_records, read_sweep

#: What is put in place of a piece of a sound line, or is a line itself.
ODD_LINES = {
    "empty": b"",
    "no JSON": b"{",
    "zeros": b"\0" * 9,
    "a list": b"[1]",
    "a newline in Windows' way": json.dumps(record("0900").to_json()).encode() + b"\r",
    "blanks around it": b"  " + json.dumps(record("0901").to_json()).encode() + b" \t",
    "two in one": json.dumps(record("0902").to_json()).encode() * 2,
    "made again": json.dumps(record("0001").to_json()).encode(),
    "a strategy's own": json.dumps(record("0903", strategy="memray").to_json()).encode(),
    "not there yet": json.dumps(record("0904", outcome="interrupted").to_json()).encode(),
}


def in_both_ways(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[tuple[list[TrialRecord], list[str]], tuple[list[TrialRecord], list[str]]]:
    """Records and warnings, as of a small file and as of a large one."""
    small: list[str] = []
    records = list(read_records(path, small))
    with monkeypatch.context() as patch:
        patch.setattr(large, "LARGE_BYTES", 1)
        found: list[str] = []
        return (records, small), (list(read_records(path, found)), found)


@pytest.fixture
def all_large(monkeypatch: pytest.MonkeyPatch):
    """Every file counts as a large one."""
    monkeypatch.setattr(large, "LARGE_BYTES", 1)


@pytest.mark.promise(
    "A large `trials.jsonl` is checked line by line like a small one: same records, same warnings."
)
def test_odd_lines_are_judged_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """In the middle: the same records and the same warnings."""
    lines = (make_sweep(tmp_path) / TRIALS).read_bytes().splitlines()
    path = tmp_path / TRIALS
    for kind, odd in ODD_LINES.items():
        path.write_bytes(b"\n".join([*lines[:4], odd, *lines[4:], b""]))
        small, other = in_both_ways(path, monkeypatch)
        assert other == small, kind
        (tmp_path / COLUMNS).unlink(missing_ok=True)


@pytest.mark.promise("Older results that recorded such a trial as `ok` are read as killed.")
def test_ok_with_a_killed_child_is_read_as_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Records of before, small and large file alike: no success, no time, no demand, and why."""
    path = make_sweep(tmp_path)
    data = [json.loads(line) for line in (path / TRIALS).read_bytes().splitlines()]
    old = next(one for one in data if one["limits"]["label"] == "max")
    old |= {"oom_kills": 2, "exit_code": 0}
    (path / TRIALS).write_text("".join(json.dumps(one) + "\n" for one in data))
    small, other = in_both_ways(path / TRIALS, monkeypatch)
    assert other == small
    (found,) = [one for one in small[0] if one.trial == old["trial"]]
    words = "the kernel killed 2 processes of it; the command itself ended with 0"
    assert (found.outcome, found.reason, found.exit_code) == ("oom-killed", words, 0)
    assert found.demand_bytes is None
    assert "demand_bytes" in found.missing
    for bytes_of_large in (large.LARGE_BYTES, 1):
        monkeypatch.setattr(large, "LARGE_BYTES", bytes_of_large)
        row = edgebench.load(path).trials.set_index("trial").loc[old["trial"]]
        assert row["outcome"] == "oom-killed"
        (point,) = [p for p in summarise(read_sweep(path)) if p.point == old["point"]]
        assert f"oom-killed: {words}" in point.reasons
        assert point.outcomes["oom-killed"] == 1


def test_kills_with_swap_free_are_in_every_view(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The frame has the mark and the figures, the summary the least swap, small file or large."""
    path = make_sweep(tmp_path)
    data = [json.loads(line) for line in (path / TRIALS).read_bytes().splitlines()]
    one, other, *_ = (line for line in data if line["outcome"] == "oom-killed")
    kill = {"swap_allowed_bytes": 64 << 20, "swap_free_bytes": 60 << 20, "unknown": 1}
    one |= {"killed_with_swap_free": True, "kill": kill}
    other |= {"killed_with_swap_free": False, "kill": {"swap_free_bytes": 0}}
    (path / TRIALS).write_text("".join(json.dumps(line) + "\n" for line in data))
    small, large_ones = in_both_ways(path / TRIALS, monkeypatch)
    assert large_ones == small
    for bytes_of_large in (large.LARGE_BYTES, 1):
        monkeypatch.setattr(large, "LARGE_BYTES", bytes_of_large)
        trials = edgebench.load(path).trials.set_index("trial")
        marks = trials["killed_with_swap_free"]
        assert marks.dtype == "boolean"
        assert marks[one["trial"]]
        assert marks.isna().sum() == len(data) - 2
        assert trials.loc[one["trial"], "kill_swap_free_bytes"] == 60 << 20
        (point,) = [p for p in summarise(read_sweep(path)) if p.swap_free_bytes]
        assert (point.point, point.swap_free_bytes.low) == (one["point"], 60 << 20)
        assert point.swap_free_bytes.count == 1


def frames_of(path: Path) -> list[pd.DataFrame]:
    """The frames made of records and of columns."""
    loaded = edgebench.load(path)
    return [loaded.trials, loaded.phases]


@pytest.mark.promise("Its frames and the output of `show` are the same.")
def test_frames_and_summaries_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """What is made of columns on the disk is what is made of records, and show tells the same."""
    path = make_sweep(tmp_path)
    before, shown = frames_of(path), CliRunner().invoke(show, [str(path), "--json"]).stdout
    points = summarise(read_sweep(path))
    monkeypatch.setattr(large, "LARGE_BYTES", 1)
    for _ in range(2):
        for one, other in zip(frames_of(path), before, strict=True):
            pd.testing.assert_frame_equal(one, other)
        assert CliRunner().invoke(show, [str(path), "--json"]).stdout == shown
        assert list(map(asdict, summarise(read_sweep(path)))) == list(map(asdict, points))
    assert (path / COLUMNS).exists()


def tampered(path: Path) -> None:
    """Change an old line, but neither the file's size nor its time."""
    before = path.stat()
    path.write_bytes(path.read_bytes().replace(b'"0001"', b'"8888"', 1))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.promise("The cache is extended when lines are added.")
def test_what_is_kept_is_used_and_grows(tmp_path: Path, all_large: None):
    """Old lines are not read again; new ones are, and are kept too."""
    path = make_sweep(tmp_path)
    os.utime(path / TRIALS, (1e9, 1e9))
    edgebench.load(path)
    tampered(path / TRIALS)
    assert edgebench.load(path).trials["trial"].iloc[0] == "0001"
    with ResultsFolder.open(path) as folder:
        folder.append(record("0100"))
        folder.append(record("0101", memory_bytes=1 << 20, label="1M"))
    (path / TRIALS).write_bytes((path / TRIALS).read_bytes().replace(b'"8888"', b'"0001"', 1))
    kept = (path / COLUMNS).stat().st_size
    trials = edgebench.load(path).trials
    assert list(trials["trial"])[-3:] == ["0009", "0100", "0101"]
    assert (path / COLUMNS).stat().st_size > kept
    (path / COLUMNS).unlink()
    pd.testing.assert_frame_equal(edgebench.load(path).trials, trials)


def replaced_in_the_middle(path: Path) -> None:
    """Another file of the same size."""
    path.write_bytes(path.read_bytes().replace(b'"0001"', b'"8888"', 1))


def cut(path: Path) -> None:
    """Shorter by its last two lines."""
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-2]))


def rewritten_and_grown(path: Path) -> None:
    """Another beginning and further lines."""
    replaced_in_the_middle(path)
    with path.open("ab") as file:
        file.write(json.dumps(record("0100").to_json()).encode() + b"\n")


@pytest.mark.promise("Its cache is not used if it is out of date or damaged, and is optional.")
def test_what_is_stale_is_not_used(tmp_path: Path, all_large: None):
    """Whatever happened to the file, what is read is what it says now."""
    for change in (replaced_in_the_middle, cut, rewritten_and_grown):
        path = make_sweep(tmp_path)
        edgebench.load(path)
        change(path / TRIALS)
        trials = edgebench.load(path).trials
        (path / COLUMNS).unlink()
        pd.testing.assert_frame_equal(edgebench.load(path).trials, trials)


@pytest.mark.promise("Its cache is not used if it is out of date or damaged, and is optional.")
def test_a_folder_that_takes_nothing_is_read(tmp_path: Path, all_large: None):
    """Somebody else's, or one where the file can't be put: it is read and nothing is left."""
    path = make_sweep(tmp_path)
    os.chown(path, 65534, 65534)
    assert len(edgebench.load(path).trials) == 9
    assert not (path / COLUMNS).exists()
    os.chown(path, os.geteuid(), os.getegid())
    (path / COLUMNS).mkdir()
    assert len(edgebench.load(path).trials) == 9
    assert [file.name for file in path.iterdir() if re.search("columns.", file.name)] == []
