"""A growing sweep read from outside: samples, events, records, half-written and hostile files."""

from __future__ import annotations

import json
import os
import random
from array import array
from pathlib import Path

import pytest
from made_sweep import Shape, make
from msgspec import to_builtins
from msgspec.structs import replace

from edgebench.measures.strategies.recorded import STATISTICS_REMEDY
from edgebench.records import LimitSetting
from edgebench.results.layout import open_locked
from edgebench.results.live_file import EventTail, LiveTrial, boot_id, read_live_trial
from edgebench.results.live_sweep import (
    MOST_BUCKETS,
    RawTable,
    Series,
    SweepTail,
    ThinnedSeries,
    TrialTail,
    newest_running,
    sweeps_below,
)
from edgebench.serve.live import trial_data

COLUMNS = ("t_ns", "usage_bytes", "swap_bytes", "cpu_ns")


def post_to(folder: Path) -> LiveTrial:
    return LiveTrial(
        *("0001", "p001", 0, 0, {"kind": "inference"}, LimitSetting("150M", 150 << 20)),
        *(None, 60.0, "2026-01-02T03:04:05.678+00:00", 0, boot_id(), str(folder), 0.001),
        fast_columns=COLUMNS,
        stat_columns=("t_ns", "anon_bytes"),
    )


def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "edgebench-0123456789ab"
    folder.mkdir()
    return folder


def test_rows_are_read_as_they_grow(tmp_path: Path):
    file = tmp_path / "fast.i64"
    table = RawTable(file, COLUMNS)
    assert not table.fresh()
    rows = array("q", [1, 10, -1, 5, 2, 20, -1, 6])
    file.write_bytes(rows.tobytes()[:40])
    assert list(table.fresh()) == [1, 10, -1, 5]
    file.write_bytes(rows.tobytes())
    assert table.newest(table.fresh()) == {"usage_bytes": 20, "cpu_ns": 6}
    # Who could put a link there makes nobody read another file.
    (tmp_path / "link.i64").symlink_to(file)
    assert not RawTable(tmp_path / "link.i64", COLUMNS).fresh()


def test_what_changed_is_told_so_that_a_copy_keeps_up():
    chance = random.Random(3)
    usages = [chance.randrange(10**6, 10**8) for _ in range(3000)]
    curve, copy, series, rows = ThinnedSeries(), [], Series(), []
    for n, usage in enumerate(usages):
        first = curve.add([(n * 0.06, usage, n, n)])
        copy[first:] = curve.points[first:]
        since = series.add([(n * 0.06, (n, None))])
        rows[since:] = series.rows[since:]
    assert copy == curve.points
    assert rows == series.rows
    assert max(len(curve.points), len(series.rows)) <= MOST_BUCKETS
    # No peak is lost.
    assert max(point.high_bytes for point in curve.points) == max(usages)
    assert min(point.low_bytes for point in curve.points) == min(usages)
    times = [point.t_s for point in curve.points]
    assert times == sorted(times)


def event(kind: str, number: int, t_ns: int, **data: object) -> str:
    return json.dumps({"event": kind, "id": number, "t_ns": t_ns, **data}) + "\n"


def test_spans_and_metrics_come_as_they_pass(tmp_path: Path):
    file = tmp_path / "events.jsonl"
    tail = EventTail(file, started_ns=1_000_000_000)
    text = event("start", 1, 2 * 10**9, phase="load", network="alexnet")
    text += event("start", 2, 3 * 10**9, phase="load", network="alexnet", layer=0, name="conv")
    torn = event("end", 2, 4 * 10**9, peak_bytes=77)
    file.write_text(text + torn[:20])
    assert tail.poll() == ([], [])
    assert [span.name for span in tail.open] == [None, "conv"]
    note = event("note", 9, 5 * 10**9, data={"step": 3, "train_loss": 0.5, "held_bytes": {}})
    file.write_text(text + torn + note)
    ended, metrics = tail.poll()
    assert [(span.span.name, span.wall_s, span.peak_bytes) for span in ended] == [("conv", 1.0, 77)]
    assert [(m.t_s, m.step, m.values) for m in metrics] == [(4.0, 3, {"train_loss": 0.5})]


def test_garbage_among_events_is_left_out(tmp_path: Path):
    file = tmp_path / "events.jsonl"
    lines = ["\0\0", "[]", "[" * 5000, '{"event": "start", "id": "x", "t_ns": null}']
    lines += ['{"event": "end", "id": 7}', '{"event": "note", "data": {"loss": NaN}, "t_ns": 1}']
    file.write_text("\n".join(lines) + "\n" + event("start", 1, 5, phase="import"))
    tail = EventTail(file, 0)
    assert tail.poll() == ([], [])
    assert [span.phase for span in tail.open] == ["import"]


def test_a_trial_under_way(tmp_path: Path):
    folder = scratch(tmp_path)
    tail = TrialTail(post_to(folder))
    rows = [value for n in range(2000) for value in (n * 10**6, n * 1000, -1, n * 10**6)]
    (folder / "fast.i64").write_bytes(array("q", rows).tobytes())
    stat = [value for n in range(200) for value in (n * 10**7, n)]
    (folder / "stat.i64").write_bytes(array("q", stat).tobytes())
    tail.poll()
    assert tail.is_there()
    assert tail.peak_bytes == tail.now["usage_bytes"] == 1999 * 1000
    assert "swap_bytes" not in tail.now
    assert tail.now["anon_bytes"] == 199
    assert tail.cpu_cores == pytest.approx(1.0, rel=0.01)
    assert tail.kinds.rows[-1][1] is not None
    assert not tail.quiet
    (folder / "fast.i64").unlink()
    assert not tail.is_there()


def test_a_trial_that_is_not_looked_into_says_why_kinds_are_missing(tmp_path: Path):
    post = replace(post_to(scratch(tmp_path)), stat_columns=("t_ns", "kernel_bytes"))
    timed, own = TrialTail(post), TrialTail(replace(post, strategy="statistics"))
    free = TrialTail(replace(post, limits=LimitSetting()))
    assert [tail.quiet for tail in (timed, own, free)] == [True, False, False]
    assert [trial_data(tail)["kinds_missing"] for tail in (timed, own)] == [STATISTICS_REMEDY, None]


def test_an_unusual_live_file_is_ignored(tmp_path: Path):
    good = {"schema": 1, **to_builtins(post_to(tmp_path / "edgebench-0123456789ab"))}
    (tmp_path / "live.json").write_text(json.dumps(good))
    assert read_live_trial(tmp_path) is not None
    folders = ({"folder": folder} for folder in ("/etc", "/tmp/edgebench-x/../../etc"))
    columns = ({"fast_columns": names} for names in ([], ["../x"]))
    values = {"boot_id": "another"}, {"started_ns": "now"}, {"limits": {"label": 3}}, {"schema": 99}
    bad = [json.dumps({**good, **change}) for change in (*folders, *columns, *values)]
    for text in (*bad, json.dumps(good)[:30]):
        (tmp_path / "live.json").write_text(text)
        assert read_live_trial(tmp_path) is None, text


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    return make(tmp_path, Shape(with_files=False, repeats=1))


def test_a_finished_sweep(tmp_path: Path, finished: Path):
    tail = SweepTail(finished)
    state = tail.poll()
    assert (state.complete, state.running, state.trial) == (True, False, None)
    assert state.outcomes == {"ok": len(state.fresh)}
    assert tail.poll().fresh == []
    assert newest_running(tmp_path) is None
    assert sweeps_below(tmp_path) == [finished]
    assert sweeps_below(tmp_path / "nothing") == []
    # One that vanished stops nothing.
    finished.rename(tmp_path / "elsewhere")
    assert not tail.poll().running


def test_each_further_limit_of_a_walk_counts_as_a_trial(finished: Path):
    file, resolved = finished / "trials.jsonl", finished / "resolved.json"
    lines = file.read_text().splitlines()
    plan = [{"trial": json.loads(line)["trial"]} for line in lines]
    resolved.write_text(json.dumps({**json.loads(resolved.read_text()), "plan": plan}))
    assert SweepTail(finished).poll().total == len(lines)
    walk = {"walk": "0001", "round_s": [1.0]}
    first = {**json.loads(lines[0]), "walk": {**walk, "step": 0}}
    second = {**first, "trial": "0001-01", "walk": {**walk, "step": 1}}
    file.write_text(f"{json.dumps(first)}\n{json.dumps(second)}\n{lines[1]}\n")
    state = SweepTail(finished).poll()
    assert (state.done, state.total) == (3, len(lines) + 1)


def test_a_growing_sweep_and_its_torn_line(finished: Path):
    file = finished / "trials.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(lines[0] + lines[1][:50])
    tail = SweepTail(finished)
    assert tail.poll().done == 1
    file.write_bytes(b"".join(lines[:3]) + b"{no json}\n")
    state = tail.poll()
    assert (state.done, len(state.fresh)) == (3, 2)
    assert "damaged" in state.warnings[0]
    file.write_bytes(lines[0])
    assert tail.poll().done == 1


def test_a_dead_harness_leaves_no_trial(tmp_path: Path, finished: Path):
    """Its signpost is still there, but nobody holds the folder."""
    folder = scratch(tmp_path)
    (folder / "fast.i64").write_bytes(b"")
    (finished / "live.json").write_text(json.dumps({"schema": 1, **to_builtins(post_to(folder))}))
    (finished / "complete.json").unlink()
    tail = SweepTail(finished)
    assert tail.poll().trial is None
    descriptor = open_locked(finished / "trials.jsonl")
    try:
        state = tail.poll()
        assert state.running
        assert state.trial is not None
        assert newest_running(tmp_path) == finished
    finally:
        os.close(descriptor)
    assert tail.poll().trial is None


def test_a_fast_network_is_not_followed_layer_by_layer(tmp_path: Path):
    lines = []
    for step in range(50):
        whole = 1000 * step
        lines.append(event("start", whole, whole, phase="execute", network="n", layer=None))
        for number in range(whole + 1, whole + 101):
            lines.append(event("start", number, number, phase="execute", layer=1, name="l"))
            lines.append(event("end", number, number + 1))
        lines.append(event("end", whole, whole + 200))
        lines.append(event("note", 0, whole + 200, data={"step": step, "loss": 1.0}))
    file = tmp_path / "events.jsonl"
    file.write_text("".join(lines))
    tail = EventTail(file, 0)
    ended, metrics = tail.poll()
    assert sum(span.span.layer is None for span in ended) == 50
    assert 0 < sum(span.span.layer is not None for span in ended) <= 32
    assert len(metrics) == 50
    assert tail.open == []
