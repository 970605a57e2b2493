"""Results read back as frames: whole, torn, empty, damaged, newer, several."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from results_making import MIB, loading, make_sweep

import edgebench
from edgebench.errors import ResultsError
from edgebench.records import SCHEMA
from edgebench.results.layout import MOST_LINE_BYTES, TRIALS, parse_line, parse_objects
from edgebench.results.results import latest
from edgebench.text import safe_json


def test_trials_have_plain_columns(tmp_path: Path):
    trials = edgebench.load(make_sweep(tmp_path)).trials
    assert list(trials["trial"]) == [f"{n:04d}" for n in range(1, 10)]
    about = {"network": "lenet", "schedule": "linear", "loader": "copy", "batch": 1}
    about |= {"limit_label": "150M", "memory_bytes": 150 * MIB, "swap_kind": "file"}
    about |= {"sampler_achieved_s": 0.00101, "device": "board", "saturated": True}
    assert trials.set_index("trial").loc["0002", list(about)].to_dict() == about


def test_phases_are_joined_with_their_trial(tmp_path: Path):
    phases = edgebench.load(make_sweep(tmp_path)).phases
    load = phases[phases["phase"] == "load"].groupby("limit_label")["wall_s"].median()
    assert load["150M"] / load["max"] == pytest.approx(4, rel=0.03)
    assert set(phases[phases["outcome"] == "oom-killed"]["phase"]) == {"import"}
    assert set(phases["network"]) == {"lenet"}


def test_a_pipeline_keeps_each_networks_phases(tmp_path: Path):
    settings = {"kind": "inference", "networks": ["lenet", "other"]}
    phases = edgebench.load(
        make_sweep(tmp_path, make=lambda trial, *_: loading(trial, settings=settings))
    ).phases
    assert set(phases["pipeline"]) == {"lenet+other"}
    assert set(phases[phases["phase"] == "load"]["network"]) == {"lenet"}


def test_layers_know_their_table(tmp_path: Path):
    layers = edgebench.load(make_sweep(tmp_path)).layers
    row = layers.query("trial == '0001' and layer == 1 and phase == 'load' and round == 0").iloc[0]
    assert row["wall_s"] == pytest.approx(0.1)
    assert (row["type"], row["parameter_bytes"], row["file_bytes"]) == ("Linear", 200, 232)
    assert (row["usage_before_bytes"], row["usage_after_bytes"]) == (5 * MIB, 7 * MIB)
    killed = layers[layers["outcome"] == "oom-killed"]
    assert set(killed["name"]) == {"conv"}
    assert len(layers) == 6 * 8 + 3


def test_memory_by_layer_is_what_was_used_before_at_most_and_after(tmp_path: Path):
    """A row for each strategy that saw the layer: 5, 9 and 7 MiB by the kernel."""
    memory = edgebench.load(make_sweep(tmp_path)).memory
    seen = memory.query("trial == '0001' and layer == 1 and phase == 'load' and round == 0")
    sizes = ["before_bytes", "peak_bytes", "after_bytes", "parameter_bytes"]
    row = seen.set_index("strategy").loc["kernel", sizes]
    assert list(row) == [5 * MIB, 9 * MIB, 7 * MIB, 200]


def test_samples_keep_what_is_missing_missing(tmp_path: Path):
    """-1 on disk is NaN in the frame, never a number."""
    loaded = edgebench.load(make_sweep(tmp_path))
    assert loaded.samples("0001")["swap_bytes"].isna().tolist() == [False, True, False]
    assert loaded.samples("0001")["t_ns"].tolist() == [10, 20, 30]
    assert loaded.stat("0001")["kernel_bytes"].isna().all()
    assert loaded.events("0001")[0]["phase"] == "import"


def test_frames_of_nothing_have_the_same_columns_and_types(tmp_path: Path):
    full = edgebench.load(make_sweep(tmp_path / "full"))
    empty = edgebench.load(make_sweep(tmp_path / "empty", stop_after=0))
    for name in ("trials", "phases", "layers", "networks"):
        one, other = getattr(full, name), getattr(empty, name)
        assert one.dtypes.to_dict() == other.dtypes.to_dict(), name


def test_a_trial_made_again_counts_once_and_is_said(tmp_path: Path):
    path = make_sweep(tmp_path, finish=False)
    failed = loading("0001", outcome="harness-error").to_json()
    lines = (path / "trials.jsonl").read_text()
    (path / "trials.jsonl").write_text(json.dumps(failed) + "\n" + lines)
    loaded = edgebench.load(path)
    assert (loaded.trials["trial"] == "0001").sum() == 1
    assert loaded.warnings == ["trial 0001 was made again: it ended as harness-error"]


@pytest.mark.parametrize("name", ["resolved.json", "environment.json", "networks.json"])
def test_a_newer_schema_is_refused_by_name(tmp_path: Path, name: str):
    path = make_sweep(tmp_path)
    (path / name).write_text(json.dumps({"schema": SCHEMA + 1}))
    with pytest.raises(ResultsError, match=f"{name} has schema {SCHEMA + 1}") as caught:
        edgebench.load(path)
    assert "pip install -U edgebench" in str(caught.value)


@pytest.mark.parametrize("name", ["resolved.json", "environment.json", "scenario.toml"])
def test_a_missing_or_damaged_file_is_a_warning(tmp_path: Path, name: str):
    path = make_sweep(tmp_path)
    (path / name).unlink()
    loaded = edgebench.load(path)
    assert len(loaded.trials) == 9
    assert name in loaded.warnings[0]


def test_damaged_big_files_cost_their_trial_alone(tmp_path: Path):
    path = make_sweep(tmp_path)
    for file in (path / "events/0001.jsonl.gz", path / "samples/0001.npz"):
        file.write_bytes(file.read_bytes()[:40])
    (path / "samples/0002.npz").unlink()
    loaded = edgebench.load(path)
    assert "0001" not in set(loaded.layers["trial"])
    assert "0002" in set(loaded.layers["trial"])
    assert "events/0001.jsonl.gz" in loaded.warnings[-1]
    with pytest.raises(ResultsError, match="damaged samples"):
        loaded.samples("0001")
    with pytest.raises(ResultsError, match="trial 0002: no samples"):
        loaded.samples("0002")
    with pytest.raises(ResultsError, match="is no trial's id"):
        loaded.samples("../../secret")


def test_several_sweeps_are_read_together(tmp_path: Path):
    first, second = make_sweep(tmp_path), make_sweep(tmp_path, device="pi")
    broken = make_sweep(tmp_path)
    (broken / "resolved.json").write_text(json.dumps({"schema": SCHEMA + 1}))
    loaded = edgebench.load(tmp_path)
    devices = set(zip(loaded.trials["sweep"], loaded.trials["device"], strict=True))
    assert devices == {(first.name, "board"), (second.name, "pi")}
    assert broken.name in loaded.warnings[0]
    assert len(loaded.samples("0001", sweep=second.name)) == 3
    with pytest.raises(ResultsError, match="these are 2 sweeps"):
        loaded.samples("0001")


def test_latest_is_the_newest_by_name(tmp_path: Path):
    """The time in the folder's name decides, not the device's or the file system's."""
    path = make_sweep(tmp_path)
    old = tmp_path / "zzz" / "20200101T000000Z-quick-000000"
    old.parent.mkdir()
    path.rename(old)
    new = make_sweep(tmp_path)
    assert latest(tmp_path) == new
    assert latest(old) == old


def test_nothing_there_says_what_to_do(tmp_path: Path):
    for path, words in ((tmp_path, "no results here"), (tmp_path / "x", "no such folder")):
        with pytest.raises(ResultsError, match=words) as caught:
            edgebench.load(path)
        assert "edgebench run" in str(caught.value)


@pytest.mark.parametrize(
    "line",
    [
        b'{"a": 1, "a": 2, "b": [1.0, -0, 1e22, 18446744073709551616, null, true]}',
        b'{"a": NaN, "b": 1e400}',
        b'{"a": "\\u001b[31m", "b": "\\ud800"}',
        '{"a": "µs\u202e"}'.encode(),
        b'{"a": ' + b"[" * 70 + b"]" * 70 + b"}",
        b'{"a": 1} x',
        b"[1]",
        b"\xff",
    ],
)
def test_a_line_is_the_same_however_fast_it_is_read(line: bytes):
    try:
        slow = safe_json(line)
    except ValueError:
        slow = None
    assert repr(parse_line(line)) == repr(slow if isinstance(slow, dict) else None)


@pytest.mark.parametrize(
    "data",
    [
        b'{"a": 1}\n{"b": [2]}\n',
        b'{"a": 1}\n\n{"b": 2}',
        b'{"a": 1}\n{"torn": ',
        b'{"a": 1} {"b": 2}\n{"c": 3}\n',
        b'{"a": 1}\n[1]\n2\n',
        b'{"a": Infinity}\n{"b": 123456789012345678901234567890}\n',
        b'{"a": "\\u001b[31m"}\n{"b": "\xc3\xa9"}\n',
        b'{"a": 1}\n' + b'{"b": ' * 65 + b"1" + b"}" * 65 + b"\n",
        b"",
    ],
)
def test_lines_read_together_are_those_read_one_by_one(data: bytes):
    assert parse_objects(data) == [
        one for one in map(parse_line, filter(None, data.split(b"\n"))) if one is not None
    ]


def test_a_line_without_an_end_is_not_read_for_ever(tmp_path: Path):
    path = make_sweep(tmp_path)
    whole = (path / TRIALS).stat().st_size
    with (path / TRIALS).open("r+b") as file:
        file.truncate(whole + MOST_LINE_BYTES + (8 << 20))
    loaded = edgebench.load(path)
    assert len(loaded.trials) == 9
    assert loaded.warnings == [f"{TRIALS} is damaged from byte {whole} on"]
