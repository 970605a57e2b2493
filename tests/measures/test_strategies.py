"""Each strategy reads what it says it reads, and says what it could not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from looking import MIB, look, resident, span_events

from edgebench.errors import ResultsError
from edgebench.measures.strategies import (
    ErrorBar,
    Reading,
    SpanReading,
    Strategy,
    TrialData,
    with_own_trial,
)
from edgebench.measures.strategies.engines import (
    ALLOCATIONS,
    OPERATORS,
    Operators,
    TorchAllocations,
)
from edgebench.measures.strategies.process import Malloc, Process, ResidentAndSwapped
from edgebench.measures.strategies.recorded import (
    CANT_RESET,
    Analytic,
    GnuTimeStrategy,
    KernelMark,
    Sampled,
    split_at_most,
)
from edgebench.measures.view import view_of
from edgebench.records import SamplerReport, TrialRecord, Watching
from edgebench.workloads.recorder import NO_DESCRIPTORS
from tests import made_records

SETTINGS = {"kind": "inference", "networks": ["net"], "schedule": "linear", "batch": 2}


def record(**values: Any) -> TrialRecord:
    known = {"settings": SETTINGS, "peak_bytes": 300 * MIB, "peak_source": "kernel"}
    return made_records.record(**(known | values))


def layer_events() -> list[dict[str, Any]]:
    about = {"round": 0, "network": "net", "layer": 0, "name": "conv"}
    empty, full = look(weights=0), look()
    return [
        *span_events(1, "load", empty, full, **about),
        *span_events(2, "first", full, full, **about),
    ]


def test_a_reading_survives_the_disk() -> None:
    spans = (SpanReading(3, 1, 2, None),)
    bar = ErrorBar(None, "not known")
    made = Reading("x", 5, "how", bar, spans, "span how", bar, ((1, 2),), {"a": 1}, {"b": "why"})
    assert Reading.from_json(json.loads(json.dumps(made.to_json()))) == made


def test_the_kernels_reading_has_its_batching() -> None:
    """Peaks by reset; off by 64 pages on each CPU."""
    reading = KernelMark().read(TrialData(layer_events(), record(), cpus=2))
    assert reading.peak_bytes == 300 * MIB
    assert reading.error.size_bytes == 2 * 64 * 4096
    assert [span.id for span in reading.spans] == [1, 2]
    assert reading.spans[0].peak_bytes == reading.spans[0].after_bytes
    assert not reading.missing


def test_a_kernel_without_reset_or_mark_is_said() -> None:
    """Spans keep the usage at their ends; a sampled peak is not passed off as the kernel's."""
    events = [{**e, "peak_bytes": None} if "peak_bytes" in e else e for e in layer_events()]
    reading = KernelMark().read(TrialData(events, record(peak_source="sampled")))
    assert reading.peak_bytes is None
    assert reading.spans[0].peak_bytes is None
    assert reading.spans[0].after_bytes is not None
    assert reading.missing["spans"] == CANT_RESET


def test_samples_between_a_spans_ends() -> None:
    samples = {"t_ns": [0, 9, 12, 13, 16, 30], "usage_bytes": [1, 10, 50, 40, 20, 30]}
    stat = {"t_ns": [0, 14], "anon_bytes": [1, 45], "file_bytes": [0, -1]}
    sampler = SamplerReport(0.001, 0.001, 0.004, 5, None, None)
    seen = TrialData(
        layer_events(), record(peak_bytes=60, sampler=sampler), samples=samples, stat=stat
    )
    reading = Sampled().read(seen)
    assert reading.peak_bytes == 50
    assert reading.error.size_bytes == 10
    assert reading.span_error.source == "a sample each 1 ms, the largest gap 4 ms"
    assert reading.spans[0] == SpanReading(1, 10, 50, 40)
    assert reading.spans[1].peak_bytes is None
    assert "1 of 2" in reading.missing["spans"]
    assert reading.parts["anon_bytes"] == 45
    assert "file_bytes" not in reading.parts
    # The most anonymous memory of those within a span, here from 10 to 15 ns.
    slow = {"t_ns": [5, 12, 14, 25], "anon_bytes": [20, 45, 40, 99], "file_bytes": [1, 2, 3, 4]}
    assert split_at_most(TrialData([], stat=slow), seen.spans[0]) == {
        "anon_bytes": 45,
        "file_bytes": 2,
        "split_age_ns": 0,
    }


def test_between_rare_samples_usage_stays_the_same() -> None:
    """Sampled less often while nothing changes: the value before and after is a span's own."""
    watching = Watching(0.001, None, 0.01, [], False, True, quiet_interval_s=0.01)
    for after, peak in ((50, 50), (51, None)):
        samples = {"t_ns": [0, 9, 30], "usage_bytes": [1, 50, after]}
        seen = TrialData(layer_events(), record(watched=watching), samples=samples)
        assert {span.peak_bytes for span in Sampled().read(seen).spans} == {peak}
        even = TrialData(layer_events(), record(), samples=samples)
        assert {span.peak_bytes for span in Sampled().read(even).spans} == {None}


def test_the_process_by_its_own_looks() -> None:
    seen = TrialData(layer_events(), record(), cpus=2)
    full = look()
    process = Process().read(seen)
    assert process.peak_bytes == resident(full)
    assert process.spans[0].before_bytes == resident(look(weights=0))
    swapped = ResidentAndSwapped().read(seen)
    assert swapped.peak_bytes == resident(full) + full["swap_bytes"]
    assert Malloc().read(seen).peak_bytes == full["heap_used_bytes"]


@pytest.mark.parametrize("strategy", [Sampled(), Process(), GnuTimeStrategy(), Analytic()])
def test_where_nothing_was_seen_there_is_no_peak(strategy: Strategy) -> None:
    """As after a kill before the first boundary, without samples or a report: None, and why."""
    reading = strategy.read(TrialData([], record()))
    assert reading.peak_bytes is None
    assert reading.missing["peak_bytes"]


def boundaries(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same events, seen by torch's view: each boundary with its number."""
    return [{**e, "view": {"boundary": n}} for n, e in enumerate(events, start=1)]


def test_torchs_allocations_between_boundaries(tmp_path: Path) -> None:
    profile = {
        "allocations": [[1010, 100], [1021, 500], [1022, -500], [1023, 20]],
        "boundaries": [[1000, 1], [1015, 2], [1020, 3], [1030, 4], [1031, 5], [1032, 6]],
    }
    (tmp_path / ALLOCATIONS).write_text(json.dumps(profile))
    later = span_events(3, "execute", look(), look(), round=0, network="net", layer=0)
    events = boundaries([*layer_events(), *later])
    reading = TorchAllocations().read(TrialData(events, record(), tmp_path))
    assert reading.spans == (
        SpanReading(1, 0, 100, 100),
        SpanReading(2, 100, 600, 120),
        SpanReading(3, 120, 120, 120),
    )
    assert reading.peak_bytes == 600
    assert [size for _, size in reading.line] == [100, 600, 100, 120]
    assert reading.line[0][0] - events[0]["t_ns"] == 10


def test_a_layer_in_another_thread_is_not_guessed(tmp_path: Path) -> None:
    profile = {"allocations": [[1010, 100]], "boundaries": [[1000, 1], [1015, 2]]}
    (tmp_path / ALLOCATIONS).write_text(json.dumps(profile))
    reading = TorchAllocations().read(TrialData(boundaries(layer_events()), record(), tmp_path))
    assert [span.id for span in reading.spans] == [1]
    assert "1 layers" in reading.missing["spans"]


@pytest.mark.parametrize("text", [None, "", '{"allocations": [[1', "[]", '{"allocations": [1]}'])
def test_a_profile_cut_short_is_an_error(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / ALLOCATIONS).write_text(text)
    with pytest.raises(ResultsError):
        TorchAllocations().read(TrialData([], record(), tmp_path))


def test_an_operator_belongs_to_the_innermost_span_of_a_round(tmp_path: Path) -> None:
    about = ((1, "import", None), (2, "round", 0), (3, "forward", 0))
    starts = [{"event": "start", "id": n, "phase": phase, "round": r} for n, phase, r in about]
    ends = [{"event": "end", "id": number} for number in (3, 2)]
    rows = [[1, "x", 9, 9], [3, "conv", 3, 700], [4, "add", 1, 50], ["load", "y", 2, 8]]
    (tmp_path / OPERATORS).write_text(json.dumps(rows))
    events = boundaries([*starts, *ends])
    assert Operators().read(TrialData(events, record(), tmp_path)).parts == {
        "forward|conv|calls": 3,
        "forward|conv|own_ns": 700,
        "round|add|calls": 1,
        "round|add|own_ns": 50,
        "load|y|calls": 2,
        "load|y|own_ns": 8,
    }


@pytest.mark.parametrize("name", [n for n, one in with_own_trial().items() if one.inside_worker])
def test_the_environment_names_the_view(tmp_path: Path, name: str) -> None:
    strategy = with_own_trial()[name]
    command, env = strategy.wrap(["python", "-m", "worker"], {"A": "b"}, tmp_path)
    assert command == ["python", "-m", "worker"]
    assert env["A"] == "b"
    if strategy.unavailable() is None and name != "memray":
        assert type(view_of(env, NO_DESCRIPTORS)) is strategy.view


@pytest.mark.process
def test_a_timed_trial_has_no_view() -> None:
    assert view_of({}, NO_DESCRIPTORS) is None
    code = "import sys, edgebench.workloads.worker; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "edgebench.measures" not in done.stdout


TABLE = [
    {
        "part": "conv",
        "parameter_bytes": 40,
        "buffer_bytes": 2,
        "live_before_bytes": 10,
        "live_peak_bytes": 16,
        "live_after_bytes": 6,
        "workspace_bytes": 5,
    }
]


def test_the_analytic_sum_follows_the_schedule() -> None:
    reading = Analytic().read(TrialData(layer_events(), record(), tables={"net": TABLE}))
    assert reading.spans == (
        SpanReading(1, 20, 62, 62),
        SpanReading(2, 62, 42 + 2 * (16 + 5), 42 + 2 * 6),
    )


NEXT = {"round": 0, "network": "net", "layer": 1, "name": "next"}
TWO_LAYERS = {"net": [*TABLE, {**TABLE[0], "part": "next"}]}


def second_load(schedule: str, events: list[dict[str, Any]]) -> SpanReading:
    made = record(settings={**SETTINGS, "schedule": schedule})
    spans = Analytic().read(TrialData(events, made, tables=TWO_LAYERS)).spans
    return next(span for span in spans if span.id == 3)


def test_linear_lets_weights_go_before_the_next_are_loaded() -> None:
    events = [*layer_events(), *span_events(3, "load", look(), look(), **NEXT)]
    assert second_load("linear", events) == SpanReading(3, 20, 62, 62)


@pytest.mark.parametrize("executed", [True, False])
def test_bulk_keeps_weights_until_all_has_run(executed: bool) -> None:
    first, load = layer_events()[2:], span_events(3, "load", look(), look(), **NEXT)
    ran = [{**event, "id": 4, "t_ns": event["t_ns"] + 20} for event in first]
    then = [{**event, "id": 5, "layer": 1, "t_ns": event["t_ns"] + 40} for event in first]
    events = [*layer_events()[:2], *load, *(ran + then if executed else [])]
    assert second_load("bulk", events) == SpanReading(3, 62, 104, 104)
    made = record(settings={**SETTINGS, "schedule": "bulk"})
    spans = Analytic().read(TrialData(events, made, tables=TWO_LAYERS)).spans
    # Both layers' 42 bytes are there while the second runs, too.
    assert [one.before_bytes for one in spans if one.id == 5] == [84 + 2 * 10] * executed


def test_what_is_loaded_while_a_layer_runs_is_beside_it() -> None:
    """The next layer's 42 bytes come meanwhile; a part that two layers use goes after both."""
    first = [
        {**event, "t_ns": t_ns} for event, t_ns in zip(layer_events()[2:], (10, 25), strict=True)
    ]
    load = [{**e, "t_ns": t} for e, t in zip(layer_events()[:2], (0, 5), strict=True)]
    ahead = [{**e, "id": 3, "layer": 1, "t_ns": t} for e, t in zip(load, (12, 20), strict=True)]
    then = [{**e, "id": 4, "layer": 1, "t_ns": t} for e, t in zip(first, (30, 35), strict=True)]
    events = sorted([*load, *first, *ahead, *then], key=lambda event: event["t_ns"])
    made = record(settings={**SETTINGS, "schedule": "partial"})
    spans = Analytic().read(TrialData(events, made, tables=TWO_LAYERS)).spans
    found = {span.id: span for span in spans}
    assert found[2] == SpanReading(2, 42 + 2 * 10, 84 + 2 * (16 + 5), 84 + 2 * 6)
    twice = {"net": [TABLE[0], TABLE[0]]}
    spans = Analytic().read(TrialData(events, made, tables=twice)).spans
    assert {span.id: span for span in spans}[4].before_bytes == 42 + 2 * 10


def test_tied_weights_are_loaded_once() -> None:
    """An embedding and the head that uses the same tensor: its 30 bytes count once."""
    parts = ("embedding", "head")
    tied = {"net": [{**TABLE[0], "part": part, "tied_bytes": {"embedding": 30}} for part in parts]}
    events = [*layer_events()[:2], *span_events(3, "load", look(), look(), **NEXT)]
    made = record(settings={**SETTINGS, "schedule": "bulk"})
    (_, load) = Analytic().read(TrialData(events, made, tables=tied)).spans
    assert load == SpanReading(3, 62, 104 - 30, 104 - 30)


def test_a_table_without_live_tensors_is_said() -> None:
    old = [{k: v for k, v in TABLE[0].items() if not k.startswith("live")}]
    reading = Analytic().read(TrialData(layer_events(), record(), tables={"net": old}))
    assert reading.spans == ()
    assert reading.missing
