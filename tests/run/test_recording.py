"""What was seen of a trial, made up, and the record it becomes: every figure in its place."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import pytest

from edgebench.cgroups.interface import Counters, Limits
from edgebench.cgroups.sampler_process import SampleSummary
from edgebench.measures.gnu_time import NO_REPORT, GnuTime
from edgebench.records import (
    DEMAND,
    FINAL_OUTCOMES,
    Doubt,
    FilesReport,
    KillReport,
    LimitSetting,
    SamplerReport,
    Watching,
)
from edgebench.run.trial.process import ProcessEnd
from edgebench.run.trial.record import (
    Measured,
    TrialRequest,
    faulty_record,
    record_of,
    unmade_record,
)

MIB = 1 << 20
REQUEST = TrialRequest(
    "0003", "p2", 1, 4, {"kind": "command", "page_cache": "cold"}, LimitSetting(), 9.0
)
#: Every counter another number, so that none can pass for another.
COUNTERS = Counters(
    peak_bytes=100 * MIB,
    swap_peak_bytes=7 * MIB,
    minor_faults=11,
    major_faults=12,
    swapped_in_bytes=13,
    swapped_out_bytes=14,
    refault_anon=15,
    refault_file=16,
    cpu_ns=3_000_000_000,
    user_ns=2_000_000_000,
    system_ns=1_000_000_000,
    io_read_bytes=17,
    io_write_bytes=18,
    oom_kills=0,
    limit_hits=19,
)
EVENTS: list[dict[str, Any]] = [
    {"event": "start", "id": 1, "phase": "import", "t_ns": 0},
    {"event": "end", "id": 1, "t_ns": 5, "usage_bytes": 40 * MIB, "peak_bytes": 130 * MIB},
    {"event": "note", "data": {"torch": "2"}},
    {"event": "note", "data": {"threads": 1}},
]
SEEN = Measured(
    applied=Limits(),
    ended=ProcessEnd(0, False, started_ns=0, wall_s=4.0),
    events=EVENTS,
    bad_events=0,
    counters=COUNTERS,
    gnu_time=GnuTime(90 * MIB, 4.0, 2.0, 1.0, 12, 11, 1, 2, 0),
    sampler=SamplerReport(0.001, 0.001, 0.002, 4000, 0.1, 9 * MIB),
    samples=SampleSummary(95 * MIB, 6 * MIB, 93 * MIB, "anon + swap"),
    noise={},
    output_tail="",
    watched=Watching(0.001, None, 0.01, ["memory.usage"], False, True),
)


def record(**changed: Any) -> Any:
    return record_of(REQUEST, replace(SEEN, **changed), "2026-01-01T00:00:00.000+00:00", 4.5)


def test_every_figure_is_in_its_place() -> None:
    made = record()
    assert (made.trial, made.point, made.block, made.repeat) == ("0003", "p2", 1, 4)
    assert made.settings == REQUEST.settings
    assert made.limits == REQUEST.limits
    assert (made.outcome, made.reason, made.exit_code, made.signal) == ("ok", None, 0, None)
    assert made.started_utc == "2026-01-01T00:00:00.000+00:00"
    assert (made.wall_s, made.harness_s) == (4.0, 0.5)
    assert (made.cpu_s, made.user_s, made.system_s) == (3.0, 2.0, 1.0)
    same = [name for name in asdict(COUNTERS) if name.split("_")[-1] not in ("ns", "us")]
    for name in same:
        if hasattr(made, name) and "peak" not in name:
            assert getattr(made, name) == getattr(COUNTERS, name), name
    assert made.oom_kills == 0
    assert made.io_write_bytes == 18
    assert made.gnu_time_maxrss_bytes == 90 * MIB
    assert SEEN.gnu_time
    assert made.gnu_time == asdict(SEEN.gnu_time)
    assert made.sampled_peak_bytes == 95 * MIB
    assert (made.demand_bytes, made.demand_source) == (93 * MIB, "anon + swap")
    assert made.base_bytes == 40 * MIB
    assert made.page_cache == "cold"
    assert (made.sampler, made.watched, made.kill) == (SEEN.sampler, SEEN.watched, None)
    assert [phase.phase for phase in made.phases] == ["import"]
    assert made.notes == {"torch": "2", "threads": 1}
    assert made.doubts == []
    assert made.missing == {}
    assert made.strategy is None


def test_the_peak_is_the_largest_mark_of_the_kernel() -> None:
    """The worker resets it at each boundary, so marks of spans count; else samples tell it."""
    assert (record().peak_bytes, record().peak_source) == (130 * MIB, "kernel")
    quiet = [event for event in EVENTS if event["event"] != "end"]
    assert record(events=quiet).peak_bytes == 100 * MIB
    blind = record(counters=replace(COUNTERS, peak_bytes=None))
    assert (blind.peak_bytes, blind.peak_source) == (95 * MIB, "sampled")
    assert record().swap_peak_bytes == 7 * MIB
    assert record(counters=replace(COUNTERS, swap_peak_bytes=None)).swap_peak_bytes == 6 * MIB


@pytest.mark.parametrize(
    ("limit_mib", "hits", "saturated"),
    [(None, 19, False), (130, 0, True), (131, 0, False), (131, 1, True), (131, None, None)],
)
def test_a_limit_that_was_touched_saturates(
    limit_mib: int | None, hits: int | None, saturated: bool | None
) -> None:
    """By its peak, or as the kernel counts; None where it doesn't."""
    limit = limit_mib and limit_mib * MIB
    seen = record(applied=Limits(limit), counters=replace(COUNTERS, limit_hits=hits))
    assert seen.saturated is saturated
    assert seen.limit_bytes == limit


def test_demand_shows_only_where_nothing_limits_or_adds() -> None:
    limited = record(applied=Limits(64 * MIB))
    assert (limited.demand_bytes, limited.demand_source) == (None, None)
    assert limited.missing == dict.fromkeys(DEMAND, "demand shows only without a limit")
    failed = record(ended=ProcessEnd(3, False, started_ns=0, wall_s=4.0))
    assert failed.missing == dict.fromkeys(DEMAND, "the trial ended as failed")
    assert (failed.demand_bytes, failed.exit_code) == (None, 3)
    seen = replace(SEEN, library_bytes=7 * MIB)
    own = record_of(replace(REQUEST, strategy="memray"), seen, "", 4.5)
    why = "memray's own trial: what it adds is no demand"
    assert own.missing == dict.fromkeys(DEMAND, why)
    assert (own.demand_bytes, own.library_bytes, own.strategy) == (None, None, "memray")
    timed = record_of(REQUEST, seen, "", 4.5)
    assert (timed.demand_bytes, timed.library_bytes) == (93 * MIB, 7 * MIB)
    # Files that it mapped after the last sample are part of it.
    assert record(files=FilesReport(late_bytes=4 * MIB)).demand_bytes == 97 * MIB


def test_what_is_missing_and_what_was_odd_is_said() -> None:
    made = record(gnu_time=None, bad_events=2, missing={"cpu_ns": "no cpuacct"})
    assert made.missing == {
        "cpu_ns": "no cpuacct",
        "gnu_time": NO_REPORT,
    }
    assert (made.gnu_time, made.gnu_time_maxrss_bytes) == ({}, None)
    assert made.doubts == [Doubt("no_events", {"count": 2})]
    blind = record(counters=Counters(oom_kills=0), events=[])
    assert (blind.cpu_s, blind.base_bytes, blind.notes) == (None, None, {})


def test_the_base_is_told_at_the_end_of_the_import() -> None:
    other = [{**event, "phase": "init"} if event["event"] == "start" else event for event in EVENTS]
    assert record(events=other).base_bytes is None
    odd = [{**event, "usage_bytes": "x"} if event["event"] == "end" else event for event in EVENTS]
    assert record(events=odd).base_bytes is None
    assert record(events=[{"event": "start", "id": []}, *EVENTS]).base_bytes == 40 * MIB


def test_what_there_was_no_room_for_is_said() -> None:
    large = [{"event": "note", "data": {f"n{n}": "x" * 300_000}} for n in range(5)]
    made = record(events=[*large, *EVENTS], dropped_events=7)
    assert made.doubts == [
        Doubt("events_dropped", {"count": 7}),
        Doubt("notes_left_out", {"count": 4}),
    ]
    assert list(made.notes) == ["n0", "n1", "n2"]


def test_a_trial_whose_data_can_not_be_read_is_the_harness_error() -> None:
    try:
        record(events=[{}])
    except KeyError as error:
        made = faulty_record(REQUEST, error)
    assert made.outcome not in FINAL_OUTCOMES
    assert made.outcome == "harness-error"
    assert str(made.reason).startswith("what was measured can't be read (record.py:")
    assert str(made.reason).endswith("KeyError: 'event'")


def test_a_trial_that_was_not_made_has_a_record() -> None:
    asked = replace(REQUEST, strategy="memray")
    made = unmade_record(asked, "failed", "no memray")
    assert (made.outcome, made.reason, made.strategy) == ("failed", "no memray", "memray")
    assert (made.trial, made.point, made.block, made.repeat) == ("0003", "p2", 1, 4)
    assert (made.settings, made.limits) == (REQUEST.settings, REQUEST.limits)
    assert made.started_utc
    assert made.wall_s is None


@pytest.mark.parametrize(("free_mib", "was_free"), [(63, True), (0, False), (None, None)])
def test_a_kill_tells_whether_swap_was_free(free_mib: int | None, was_free: bool | None) -> None:
    free = None if free_mib is None else free_mib * MIB
    kill = KillReport(swap_allowed_bytes=64 * MIB, swap_free_bytes=free)
    made = record(kill=kill, counters=replace(COUNTERS, oom_kills=1))
    assert (made.outcome, made.kill) == ("oom-killed", kill)
    assert made.killed_with_swap_free is was_free


@pytest.mark.parametrize(
    ("kills", "limit_mib", "is_doubtful"),
    [(1, None, True), (1, 513, True), (1, 512, False), (0, None, False)],
)
def test_a_kill_below_a_limit_above_ours_is_doubtful(
    kills: int, limit_mib: int | None, is_doubtful: bool
) -> None:
    """Where the trial's own limit is no tighter, the other one may have killed."""
    made = record(
        counters=replace(COUNTERS, oom_kills=kills),
        applied=Limits(limit_mib and limit_mib * MIB),
        ceiling_bytes=512 * MIB,
    )
    ceiling = Doubt("ceiling", {"ceiling_bytes": 512 * MIB})
    assert made.doubts == ([ceiling] if is_doubtful else [])
