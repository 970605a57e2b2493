"""Large results: the same records, frames and warnings as of small ones, kept for the next time."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import subprocess
import zipfile
from collections.abc import Callable
from dataclasses import asdict, fields
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from results_making import make_sweep, record

import edgebench
from edgebench.cli.show import show
from edgebench.records import FINAL_OUTCOMES, TrialRecord
from edgebench.results.columns import large_file as large
from edgebench.results.columns.table import JSON_TEXTS, TEXTS
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
ODD_VALUES = {
    "wall_s": ["NaN", "1e400", "9223372036854775807", "9223372036854775808", "-1e19", "7", "true"],
    "exit_code": ["1.0", "1e3", "null", "9223372036854775808", '"1"'],
    "schema": ["0", "null", "1.0", "true", '"1"'],
    "settings": ["[]", "null", "{}", '{"kind":"\\u001b"}', '{"a":' * 70 + "1" + "}" * 70],
    "limits": ["[]", "{}", "null", '{"label":5}', '{"label":"x","further":1}', '{"cores":1.5}'],
    "outcome": ['"fine"', '"failed"', "null"],
    "sampler": ["null", "{}", "0", '""', '{"interval_s":1}', "[]"],
    "phases": ["null", "{}", "[{}]", "[1]", "[]"],
    "noise": ["[]", '{"a":1,"b":"c","d":true,"e":1e400}', '{"a":NaN}', "null"],
    "notes": ["[]", '{"a":[[[[1]]]]}', "1"],
    "missing": ['{"a":1}', "[]"],
    "warnings": ['["a\\tb","\\u202ec"]', "[1]", '""', "null"],
    "reason": ['"\\r\\b"', '"\x7f"', '"é"', '"\\ud800"', '"a\\nb"', "1"],
    "further": ["1"],
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


def every_field(read: tuple[list[TrialRecord], list[str]]) -> str:
    """All of the records and warnings as text: what is no number equals itself in it."""
    records, warnings = read
    return repr((list(map(vars, records)), warnings))


def with_value(line: bytes, key: str, value: str) -> bytes:
    """A line with another value for a key, or with the key added."""
    data = json.loads(line)
    data[key] = "@here@"
    return json.dumps(data, separators=(",", ":")).replace('"@here@"', value).encode()


@pytest.fixture
def all_large(monkeypatch: pytest.MonkeyPatch):
    """Every file counts as a large one."""
    monkeypatch.setattr(large, "LARGE_BYTES", 1)


@pytest.mark.promise(
    "A large `trials.jsonl` is checked line by line like a small one: same records, same warnings."
)
@pytest.mark.parametrize("kind", ODD_LINES)
def test_odd_lines_are_judged_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str):
    """In the middle, at the end, and twice over: the same records and the same warnings."""
    lines = (make_sweep(tmp_path) / TRIALS).read_bytes().splitlines()
    odd = ODD_LINES[kind]
    for content in ([*lines[:4], odd, *lines[4:]], [*lines, odd], [*lines, odd, odd, lines[0]]):
        path = tmp_path / TRIALS
        path.write_bytes(b"\n".join(content) + b"\n")
        small, other = in_both_ways(path, monkeypatch)
        assert other == small
        path.write_bytes(b"\n".join(content))
        (tmp_path / COLUMNS).unlink(missing_ok=True)
        small, other = in_both_ways(path, monkeypatch)
        assert other == small


@pytest.mark.promise(
    "A large `trials.jsonl` is checked line by line like a small one: same records, same warnings."
)
@pytest.mark.parametrize("key", ODD_VALUES)
def test_odd_values_are_judged_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str):
    """What makes a line damaged for one reader makes it so for the other."""
    lines = (make_sweep(tmp_path) / TRIALS).read_bytes().splitlines()
    path = tmp_path / TRIALS
    for value in ODD_VALUES[key]:
        path.write_bytes(
            b"\n".join([*lines[:3], with_value(lines[3], key, value), *lines[4:], b""])
        )
        (tmp_path / COLUMNS).unlink(missing_ok=True)
        small, other = in_both_ways(path, monkeypatch)
        assert every_field(other) == every_field(small), value


@pytest.mark.promise(
    "A large `trials.jsonl` is checked line by line like a small one: same records, same warnings."
)
@settings(
    max_examples=150,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_any_damage_is_judged_alike(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, data: st.DataObject
):
    """Bytes overwritten anywhere."""
    folder = tmp_path_factory.mktemp("damage")
    lines = [json.dumps(record(f"{n:04d}").to_json()).encode() for n in range(4)]
    content = bytearray(b"\n".join([*lines, b""]))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        piece = data.draw(st.binary(min_size=1, max_size=8))
        content[at : at + len(piece)] = piece
    path = folder / TRIALS
    path.write_bytes(bytes(content))
    small, other = in_both_ways(path, monkeypatch)
    assert every_field(other) == every_field(small)


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


def test_columns_without_a_value_do_not_change_together(tmp_path: Path):
    """They may share their bytes; whoever writes into one writes into that one."""
    trials = edgebench.load(make_sweep(tmp_path)).trials
    assert trials["io_read_bytes"].isna().all()
    trials.loc[0, "io_read_bytes"] = 5.0
    trials.loc[0, "framework"] = "x"
    assert trials["io_write_bytes"].isna().all()
    assert trials["optimizer"].isna().all()


def test_records_are_read_when_asked_for(tmp_path: Path, all_large: None):
    """By number, in slices, in order; a file that is another one meanwhile is said to be."""
    path = make_sweep(tmp_path)
    records = read_sweep(path).records
    assert isinstance(records, large.RecordsOnDisk)
    assert [one.trial for one in records[2:4]] == ["0003", "0004"]
    assert records[-1].trial == "0009"
    (path / TRIALS).write_bytes(b"x" * 100)
    with pytest.raises(edgebench.errors.ResultsError, match="changed"):
        records[0]


def test_only_large_results_are_kept(tmp_path: Path):
    """Nothing is left beside a small file."""
    path = make_sweep(tmp_path)
    edgebench.load(path)
    assert not (path / COLUMNS).exists()


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
@pytest.mark.parametrize("change", [replaced_in_the_middle, cut, rewritten_and_grown])
def test_what_is_stale_is_not_used(tmp_path: Path, all_large: None, change: Callable[[Path], None]):
    """Whatever happened to the file, what is read is what it says now."""
    path = make_sweep(tmp_path)
    edgebench.load(path)
    change(path / TRIALS)
    trials = edgebench.load(path).trials
    (path / COLUMNS).unlink()
    pd.testing.assert_frame_equal(edgebench.load(path).trials, trials)


@pytest.mark.promise("The cache is extended when lines are added.")
def test_a_torn_tail_is_not_kept(tmp_path: Path, all_large: None):
    """A line that is half there is read again once it is whole."""
    path = make_sweep(tmp_path)
    line = json.dumps(record("0100").to_json()).encode() + b"\n"
    before = (path / TRIALS).read_bytes()
    for cut_at in (1, 100, len(line) - 1):
        (path / TRIALS).write_bytes(before + line[:cut_at])
        loaded = edgebench.load(path)
        assert (len(loaded.trials), len(loaded.warnings)) == (9, 1)
    (path / TRIALS).write_bytes(before + line)
    loaded = edgebench.load(path)
    assert (len(loaded.trials), loaded.warnings) == (10, [])


@pytest.mark.promise("Its cache is not used if it is out of date or damaged, and is optional.")
def test_what_is_kept_and_damaged_is_not_used(tmp_path: Path, all_large: None):
    """Any of its bytes changed, or any of them missing: the results are what the lines say."""
    path = make_sweep(tmp_path)
    whole, shown = edgebench.load(path).trials, CliRunner().invoke(show, [str(path)]).stdout
    sound = (path / COLUMNS).read_bytes()
    chance = random.Random(6)
    for _ in range(60):
        damaged = bytearray(sound)
        damaged[chance.randrange(len(sound))] ^= 1 << chance.randrange(8)
        if chance.random() < 0.3:
            del damaged[chance.randrange(len(sound)) :]
        (path / COLUMNS).write_bytes(bytes(damaged))
        done = CliRunner().invoke(show, [str(path)])
        assert (done.exit_code, done.stdout) == (0, shown)
    pd.testing.assert_frame_equal(edgebench.load(path).trials, whole)


def test_a_cache_with_control_characters_or_twice_the_same_text_is_not_used(
    tmp_path: Path, all_large: None
):
    """It may have come with somebody's folder: no escape code reaches the terminal."""
    path = make_sweep(tmp_path)
    shown = CliRunner().invoke(show, [str(path), "--json"]).stdout
    with zipfile.ZipFile(path / COLUMNS) as kept:
        members = {name: kept.read(name) for name in kept.namelist()}
    trials = json.loads(members["words/trial"])
    for name, words in {
        "words/warnings": [json.dumps(["\x1b[2Jgone"])],
        "words/trial": [trials[0], *trials[:-1]],
    }.items():
        codes = bytes(len(members["codes/warnings"])) if name == "words/warnings" else b""
        changed = {name: json.dumps(words).encode()} | ({"codes/warnings": codes} if codes else {})
        with zipfile.ZipFile(path / COLUMNS, "w") as kept:
            for member, data in (members | changed).items():
                kept.writestr(member, data)
        done = CliRunner().invoke(show, [str(path), "--json"])
        assert (done.exit_code, done.stdout) == (0, shown)


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


@pytest.mark.process
@pytest.mark.promise("Its cache is not used if it is out of date or damaged, and is optional.")
@pytest.mark.root
def test_a_full_disk_costs_what_would_be_kept(tmp_path: Path, all_large: None):
    """The results are read, and nothing half made stays."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], check=False
    )
    if mounted.returncode:
        pytest.skip("no small disk can be mounted here")
    try:
        path = make_sweep(disk)
        filler = os.open(disk / "filler", os.O_CREAT | os.O_WRONLY)
        with contextlib.suppress(OSError):
            while os.write(filler, b"x" * 4096):
                pass
        os.close(filler)
        assert len(edgebench.load(path).trials) == 9
        assert [file.name for file in path.iterdir() if "columns" in file.name] == []
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_large_sweep_is_taken_up_again(tmp_path: Path, all_large: None):
    """Which trials are finished is told by the columns; a torn tail is cut."""
    path = make_sweep(tmp_path)
    with (path / TRIALS).open("ab") as file:
        file.write(json.dumps(record("0100", outcome="interrupted").to_json()).encode() + b"\n{")
    with ResultsFolder.open(path) as folder:
        assert folder.finished_trials() == {f"{n:04d}" for n in range(1, 10)}
        assert {one.outcome for one in folder.records()} - set(FINAL_OUTCOMES) == {"interrupted"}
    assert (path / TRIALS).read_bytes().endswith(b"}\n")


def test_every_text_of_a_record_has_its_column():
    """A text that a record gets later can't be taken for a number."""
    kinds = {field.name: str(field.type).partition(" | ")[0] for field in fields(TrialRecord)}
    texts = {name for name, kind in kinds.items() if kind in ("str", "Outcome", "Direction")}
    assert texts == set(TEXTS) - set(JSON_TEXTS)
