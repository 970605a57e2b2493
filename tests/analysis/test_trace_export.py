"""The Chrome trace against the Trace Event Format, and against trials whose times are known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from layer_cost_results import MIB, Made, make, overlapping, write_events
from trace_format import checked

from edgebench.cli.export import export
from edgebench.errors import ResultsError, UsageError
from edgebench.results.results import load
from edgebench.results.trace_export import chrome_trace


def named(events: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """The events of a name."""
    return [event for event in events if event["name"] == name]


def run_export(*words: str | Path) -> Result:
    """The verb's result; a program's error would be in ``exception``."""
    return CliRunner().invoke(export, [str(word) for word in words])


def test_layers_lie_where_they_were(tmp_path: Path):
    """Start and length in microseconds from the first sample, in their round, with facts."""
    events = checked(chrome_trace(load(make(tmp_path, [Made()]))).trace)
    (load_fc,) = named(events, "load fc")
    # The sampler began 1 µs before; then import, the first layer, and the glue before both.
    assert load_fc["ts"] == pytest.approx(1 + 1e6 * (1.0 + 0.01 + 0.10 + 0.01))
    assert load_fc["dur"] == pytest.approx(300_000)
    assert load_fc["cat"] == "load"
    assert load_fc["args"]["peak_bytes"] == 57 * MIB
    assert load_fc["args"]["parameter_bytes"] == 100 * MIB
    assert load_fc["args"]["major_faults"] == 3
    assert load_fc["args"]["type"] == "Linear"
    (whole,) = named(events, "round 0")
    assert whole["ts"] <= load_fc["ts"]
    assert whole["dur"] == pytest.approx(1.15e6)
    assert len(named(events, "execute fc")) == 2


def test_threads_have_lanes_of_their_own(tmp_path: Path):
    """Overlapping layers are on different threads, each named."""
    path = make(tmp_path, [Made()])
    write_events(path, "0001", overlapping(Made()))
    events = checked(chrome_trace(load(path)).trace)
    lanes = {name: named(events, name)[0]["tid"] for name in ("round 0", "load fc", "first conv")}
    assert len(set(lanes.values())) == 3
    names = {e["tid"]: e["args"]["name"] for e in named(events, "thread_name")}
    assert names[lanes["load fc"]] == "thread 1"


def test_counters_keep_every_change(tmp_path: Path):
    """Usage where it changes and at its end; swap that the kernel never told has no counter."""
    path = make(tmp_path, [Made("100M")])
    events = checked(chrome_trace(load(path)).trace)
    usage = named(events, "memory (bytes)")
    assert [e["args"]["usage"] for e in usage] == [50 * MIB, 57 * MIB, 57 * MIB]
    assert usage[0]["ts"] == 0
    assert named(events, "swap (bytes)") == []
    assert {e["args"]["limit"] for e in named(events, "limit (bytes)")} == {100 * MIB}


def test_the_split_adds_up(tmp_path: Path):
    """The kernel counts shared memory as file pages too; stacked, it stands there once."""
    events = checked(chrome_trace(load(make(tmp_path, [Made()]))).trace)
    split = named(events, "memory.stat (bytes)")[0]["args"]
    assert split == {"anon": 40 * MIB, "file": 8 * MIB, "shmem": 2 * MIB}


def test_a_kill_is_marked_where_the_trial_died(tmp_path: Path):
    """An instant at the last use of the CPU, and what was under way drawn up to the end."""
    killed = Made("40M", outcome="oom-killed", reason="killed by the kernel")
    events = checked(chrome_trace(load(make(tmp_path, [killed]))).trace)
    (kill,) = named(events, "oom-killed")
    assert kill["args"] == {"reason": "killed by the kernel", "oom_kills": 1}
    last = max(event["ts"] for event in events)
    assert kill["ts"] == pytest.approx(0.8 * last, rel=1e-3)
    (cut,) = named(events, "load fc (cut short)")
    assert cut["ts"] + cut["dur"] == pytest.approx(last)
    assert named(events, "round 0 (cut short)")


def test_trials_lie_side_by_side(tmp_path: Path):
    """Each is a process from its own start, named by what it is, in the order of the sweep."""
    events = checked(chrome_trace(load(make(tmp_path, [Made(), Made("100M")]))).trace)
    names = [event["args"]["name"] for event in named(events, "process_name")]
    assert names == ["trial 0001: duo at max, ok", "trial 0002: duo at 100M, ok"]
    starts = {e["pid"]: e["ts"] for e in reversed(named(events, "memory (bytes)"))}
    assert starts == {1: 0, 2: 0}
    tids = {(e["tid"], e["pid"]) for e in events}
    assert len(tids) == len({tid for tid, _ in tids})


def test_what_is_gone_is_left_out_and_said(tmp_path: Path):
    """A trial without samples has its layers; one without either is refused."""
    path = make(tmp_path, [Made()])
    (path / "samples" / "0001.npz").unlink()
    trace, left_out = chrome_trace(load(path))
    assert named(checked(trace), "load fc")
    assert len(left_out) == 1
    assert "trial 0001: no samples" in left_out[0]
    (path / "events" / "0001.jsonl.gz").unlink()
    with pytest.raises(ResultsError, match="no trial here has events or samples"):
        chrome_trace(load(path))


def test_export_writes_the_trials_asked_for(tmp_path: Path):
    """To a file or to stdout; it says what it wrote and how to open it."""
    path = make(tmp_path, [Made(), Made("100M")])
    target = tmp_path / "trace.json"
    done = run_export(path, "--format", "trace", "--trial", "0002", "-o", target)
    assert done.exit_code == 0, done.exception
    events = checked(json.loads(target.read_text()))
    assert f"Wrote {len(events)} events of 1 trials to {target}" in done.stderr
    assert "next: open it in https://ui.perfetto.dev" in done.stderr
    assert len(checked(json.loads(run_export(path, "--format", "trace").stdout))) > len(events)


def test_export_refuses_what_makes_no_sense(tmp_path: Path):
    """A frame in a trace; a trial that isn't there."""
    path = make(tmp_path, [Made()])
    raised = run_export(path, "--format", "trace", "--frame", "layers").exception
    assert isinstance(raised, UsageError)
    raised = run_export(path, "--format", "trace", "--trial", "0009").exception
    assert isinstance(raised, ResultsError)
    assert "no trial 0009" in str(raised)
