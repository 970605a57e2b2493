"""What runs compute of walks, swap, output and budgets: unequal numbers, worked out by hand."""

from __future__ import annotations

import gzip
from dataclasses import replace as changed
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from made_records import MIB, counts, record, rounds
from scenario.planner_worlds import points_of

from edgebench.cgroups.interface import HotFiles, Limits
from edgebench.cgroups.process_files import TouchedPages
from edgebench.need import KneeBracket
from edgebench.records import (
    Doubt,
    FilesReport,
    PhaseSum,
    TrialRecord,
    WalkReport,
    WorkingSet,
)
from edgebench.results.layout import parse_objects
from edgebench.results.results import load
from edgebench.run.search.search import (
    median_pace,
    pace_of_program,
    pace_of_rounds,
)
from edgebench.run.sweep.sweep import SweepOptions, run_sweep
from edgebench.run.trial.command import asked_limits
from edgebench.run.trial.controllers import LimitAtBase, group_swap
from edgebench.run.trial.outcome import SystemSwap
from edgebench.run.trial.process import NO_NUMBER, OutputRate
from edgebench.run.trial.record import RecordedRounds, trial_throughput
from edgebench.run.walk.control import MOST_ROUNDS, WalkControl, WalkStep, working_set
from edgebench.run.walk.walk import (
    Visit,
    Visited,
    WalkedLimits,
    killed_limit,
    points_after_kill,
    visited,
)
from edgebench.scenario.scenario import scenario_of
from edgebench.spans import finished_spans
from tests.quiet import Quiet

SECOND = 10**9
#: Unlimited, and at 60, 30 and 20 % of 400 MiB: 240, 120 and 80 MiB.
POINTS = tuple(points_of([60, 30, 20]))
LIMITS = WalkedLimits(POINTS, 400 * MIB, target=0.03)


# A walk's records


def span(number: int, begin_s: float, took_s: float, peak_mib: int) -> list[dict[str, Any]]:
    start = {"event": "start", "id": number, "phase": "round", "round": number}
    end = {"event": "end", "id": number, "usage_bytes": 5 * MIB, "peak_bytes": peak_mib * MIB}
    return [
        {**start, "t_ns": int(begin_s * SECOND)},
        {**end, "t_ns": int((begin_s + took_s) * SECOND)},
    ]


def step(
    limit_mib: int | None,
    begin_s: float,
    end_s: float,
    *round_s: float,
    peaks: tuple[int, ...] = (),
) -> WalkStep:
    """A limit that was visited for so long; its rounds took these seconds."""
    limit = None if limit_mib is None else limit_mib * MIB
    return WalkStep(
        Visit(limit, None if limit is None else "down"),
        limit,
        start_ns=int(begin_s * SECOND),
        end_ns=int(end_s * SECOND),
        events=[event for n, at in enumerate(peaks) for event in span(n, begin_s + n, 1.0, at)],
        phases=rounds(*round_s),
        counts=counts(*[0] * len(round_s)),
    )


def walked(
    folder: Path, *steps: WalkStep, limits: WalkedLimits = LIMITS, **seen: Any
) -> list[TrialRecord]:
    about = {"knee": None, "refused": None, "huge_bytes": 0, "outcome": "ok"} | seen
    found = WorkingSet(60 * MIB, 20 * MIB, 15 * MIB, 5 * MIB, 900 * MIB)
    control: Any = object.__new__(WalkControl)
    control.steps, control.read_events, control._limits = list(steps), list, limits
    control.knee, control.refused = about["knee"], about["refused"]
    control.working_set = SimpleNamespace(found=found, missing=None, huge_bytes=about["huge_bytes"])
    whole = record(trial="0003", outcome=about["outcome"], oom_kills=1, wall_s=99.0, sampler=None)
    made: list[TrialRecord] = control.records(whole, folder / "0003.jsonl.gz", RecordedRounds())
    return made


def test_each_limit_has_its_own_figures_and_the_rounds_without_one_around_it(
    tmp_path: Path,
) -> None:
    """From 2.0 to 2.6 s within 30 s, a limit of which the middle is 6 s after the first: 2.12 s."""
    made = walked(
        tmp_path,
        step(None, 0, 10, 9.0, 2.0, 2.2, 1.9, peaks=(300, 390, 350)),
        step(240, 12, 20, 8.0, 6.0, 6.1, 5.9, peaks=(200, 240, 230)),
        step(None, 40, 50, 5.0, 2.6, 2.5, 2.7, peaks=(380, 370)),
        step(120, 51, 58.5, 20.0, 21.0, peaks=(100, 90)),
        outcome="oom-killed",
    )
    assert [one.walk and one.walk.reference_s for one in made] == [
        2.0,
        pytest.approx(2.12),
        2.6,
        None,
    ]
    assert [one.walk and (one.walk.walk, one.walk.step) for one in made] == [
        ("0003", n) for n in range(4)
    ]
    assert [one.trial for one in made] == ["0003", "0003-01", "0003-02", "0003-03"]
    assert [one.point for one in made] == ["p001", "p002", "p001", "p003"]
    assert [one.peak_bytes and one.peak_bytes // MIB for one in made] == [390, 240, 380, 100]
    assert [one.saturated for one in made] == [False, True, False, False]
    assert [one.wall_s for one in made] == [99.0, 8.0, 10.0, 7.5]
    # What a later limit came to is no news of those before it.
    assert [one.outcome for one in made] == ["ok", "ok", "ok", "oom-killed"]
    assert [one.oom_kills for one in made] == [None, None, None, 1]
    # The last unlimited rounds took 1.3 times as long as the first.
    assert made[0].doubts == [Doubt("drift", {"drift_share": pytest.approx(0.3)})]  # type: ignore[dict-item]
    events = parse_objects(gzip.decompress((tmp_path / "0003-01.jsonl.gz").read_bytes()))
    assert (events[0]["event"], events[0]["limit_bytes"]) == ("limit", 240 * MIB)
    assert len(events) == 7


@pytest.mark.parametrize(
    ("low", "high", "disagree", "huge", "kinds"),
    [
        # 2 % where 3 is asked; 5 MiB of 100 lie in huge pages, no more than a twentieth.
        (98, 100, (), 5, []),
        (96, 100, (), 6, ["knee_left", "huge_pages"]),
        # 0.9 MiB apart with steps of 0.5: no closer limit would be another.
        (9, 9.9, (), 0, ["knee_close"]),
        (9, 10.1, (), 0, ["knee_left"]),
        (80, 100, (90 * MIB,), 0, ["knee_disagree"]),
    ],
)
def test_a_knee_that_is_less_well_known_than_asked_is_told(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    low: float,
    high: float,
    disagree: tuple[int, ...],
    huge: int,
    kinds: list[str],
) -> None:
    """By its share of the wider limit, and whether limits between could tell more."""
    monkeypatch.setattr(WalkedLimits, "step_bytes", property(lambda _: MIB // 2))
    knee = KneeBracket(int(low * MIB), int(high * MIB), disagree)
    free = step(None, 0, 10, 9.0, 2.0, peaks=(300,))
    (made,) = walked(tmp_path, free, knee=knee, huge_bytes=huge * MIB)
    assert [doubt.kind for doubt in made.doubts] == kinds
    if kinds[:1] == ["knee_disagree"]:
        assert made.doubts[0].numbers["known_share"] == pytest.approx(0.2)
        assert made.doubts[0].numbers["wanted_share"] == 0.03


@pytest.mark.parametrize(
    ("limit_mib", "swapped_kib", "reads_mib", "enough"),
    [
        # 512 KiB of 100 MiB are less than a hundredth; of 10 MiB more than 64 pages at once.
        (100, (0, 512), (9, 5, 5), True),
        (100, (0, 2048), (9, 5, 5), False),
        (10, (0, 200), (9, 5, 5), True),
        (10, (0, 512), (9, 5, 5), False),
        # It gives swap back.
        (100, (9000, 0), (9, 5, 5), False),
    ],
)
def test_swap_that_still_moves_ends_no_visit(
    limit_mib: int, swapped_kib: tuple[int, ...], reads_mib: tuple[int, ...], enough: bool
) -> None:
    visit = reading(*reads_mib, limit_mib=limit_mib)
    visit.swapped = [size << 10 for size in swapped_kib]
    assert visit.enough is enough


def test_without_a_limit_swap_that_moves_is_no_matter() -> None:
    visit = step(None, 0, 0, 9.0, 1.0, 1.01, 0.99)
    visit.swapped = [0, 900 * MIB]
    assert visit.enough


# Paces


def test_what_a_visit_comes_to_is_of_its_last_rounds() -> None:
    """Its median seconds are of the rounds that repeat, its bytes of those that read alike."""
    seconds, reads = (9.0, 2.1, 2.0, 2.4, 2.05), (900, 500, 220, 202, 201)
    assert visited(rounds(*seconds), counts(*reads)) == Visited(2.075, int(201.5 * MIB))
    assert visited(rounds(5.0), counts(7)) == Visited(5.0, 7 * MIB)
    assert visited([], counts(7)) == Visited()


@pytest.mark.parametrize(
    ("values", "pace"),
    [
        ({}, 7.0),
        ({"throughput_per_s": 8.0}, 0.125),
        ({"throughput_per_s": 8.0, "outcome": "timeout"}, None),
    ],
)
def test_the_pace_of_a_program_is_of_one_unit_where_these_are_counted(
    values: dict[str, Any], pace: float | None
) -> None:
    reads = {"throughput": True} if "throughput_per_s" in values else {}
    made = record(phases=[], wall_s=7.0, settings={"kind": "command", **reads}, **values)
    assert pace_of_program(made) == pace


def test_a_points_pace_is_the_median_of_those_that_have_one() -> None:
    """3, 9 and 2 s; one that was killed has none."""
    made = [record(100, 5.0, s) for s in (3.0, 9.0, 2.0)]
    assert median_pace([*made, record(100, outcome="oom-killed")], pace_of_rounds) == 3.0
    assert median_pace([record(100, outcome="oom-killed")], pace_of_rounds) is None


# Limits of walks


def test_a_closer_limit_is_labelled_as_the_scenarios_are() -> None:
    """99 MiB of 400 are 24.8 %; where the scenario has sizes, they are MiB."""
    assert LIMITS.setting(99 * MIB).label == "24.8%"
    assert LIMITS.setting(99 * MIB).memory_bytes == 99 * MIB
    assert LIMITS.setting(120 * MIB).label == "30%"
    sized = changed(LIMITS, points=tuple(changed(one, share=None) for one in POINTS))
    assert sized.setting(int(99.25 * MIB)).label == "99.2M"
    assert LIMITS.point(99 * MIB, "up") == f"p001-{99 * MIB}-up"
    assert LIMITS.point(120 * MIB, "down") == "p003"


@pytest.mark.parametrize(
    ("demand_mib", "step_bytes"),
    # 64 pages of each of two CPUs; a thousandth of 4 GiB in whole pages.
    [(100, 2 * 64 * 4096), (4096, 1049 * 4096)],
)
def test_limits_closer_than_a_label_or_a_charge_are_one(
    monkeypatch: pytest.MonkeyPatch, demand_mib: int, step_bytes: int
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setattr("mmap.PAGESIZE", 4096)
    assert changed(LIMITS, demand_bytes=demand_mib * MIB).step_bytes == step_bytes


def test_a_walk_after_a_kill_stays_above_it() -> None:
    """The widest of three kills counts; the lowest limit above it that finished is visited."""
    visit = {"walk": WalkReport("0002", 1), "direction": "down"}
    killed = [
        record(
            size, 5.0, 6.0, point=point, outcome="oom-killed", round_counts=counts(1, read), **visit
        )
        for size, point, read in (
            (80, "p004", 7),
            (99, f"p001-{99 * MIB}", 30),
            (90, f"p001-{90 * MIB}", 9),
        )
    ]
    finished = [
        record(size, point=point, **visit) for size, point in ((240, "p002"), (120, "p003"))
    ]
    records = [*killed, *finished]
    assert killed_limit(POINTS, records) == {99 * MIB: Visited(6.0, 30 * MIB)}
    assert points_after_kill(POINTS, records) == (POINTS[0], POINTS[2], POINTS[3])
    after = LIMITS.after(records, again=True)
    assert after.scenario_bytes == (120 * MIB,)
    assert changed(LIMITS, killed={120 * MIB: Visited()}).scenario_bytes == (240 * MIB,)


def hot(folder: Path, usage: int, swap: int | None, is_memsw: bool = False) -> HotFiles:
    for name, number in (("usage", usage), ("swap", swap)):
        (folder / name).write_text(f"{number}\n")
    return HotFiles(
        folder / "usage", swap=None if swap is None else folder / "swap", swap_is_memsw=is_memsw
    )


def test_room_is_beyond_what_is_used(tmp_path: Path) -> None:
    """50 MiB used and 30 of room: 80, which the kernel rounds to 79; swap stays."""
    asked: list[tuple[int, int | None]] = []

    def move(limit: int, swap: int | None) -> int:
        asked.append((limit, swap))
        return 79 * MIB

    group: Any = SimpleNamespace(
        hot_files=lambda: hot(tmp_path, 50 * MIB, None), move_memory_limit=move
    )
    with LimitAtBase(group, 30 * MIB, 7 * MIB) as control:
        control._workers.send(b"?")
        assert control._answer() is False
        assert control._workers.recv(99) == b"%d" % (79 * MIB)
    assert asked == [(80 * MIB, 7 * MIB)]
    assert control.applied(Limits(swap_bytes=5)) == Limits(79 * MIB, swap_bytes=5)


# Swap


def test_the_cgroups_swap_is_told_on_both_versions(tmp_path: Path) -> None:
    assert group_swap(hot(tmp_path, 64 * MIB, 90 * MIB, is_memsw=True))() == 26 * MIB
    assert group_swap(hot(tmp_path, 64 * MIB, 90 * MIB))() == 90 * MIB
    assert group_swap(hot(tmp_path, 64 * MIB, None))() is None


def test_the_machines_swap_is_told_in_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nSwapTotal: 2048 kB\nSwapFree: 512 kB\n")
    monkeypatch.setattr("edgebench.run.trial.outcome._MEMINFO", tmp_path / "meminfo")
    assert SystemSwap.now() == SystemSwap(2 * MIB, MIB // 2)


# What was asked, seen and printed


def test_a_share_is_of_all_that_is_needed() -> None:
    """75 % of 400 MiB and 20 charged elsewhere, whatever of it only swap can hold."""
    files = FilesReport(elsewhere_bytes=20 * MIB)
    needs = {
        "demand_bytes": 400 * MIB,
        "undroppable_bytes": 100 * MIB,
        "demand_source": "x and peak",
    }
    asked = asked_limits("75%", swap="1G")
    assert asked.resolved(record(files=files, **needs)).memory_bytes == 315 * MIB
    assert asked.unlimited.memory_bytes is None
    assert asked_limits("300M").resolved(record()).memory_bytes == 300 * MIB


def test_lines_count_from_the_first_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three came at 2 s and six later until 5 s: 2 a second; all at once are of the whole time."""
    clock = iter([100.0, 102.0, 200.0, 203.0])
    monkeypatch.setattr("edgebench.run.trial.process.time.monotonic", lambda: next(clock))
    rate = OutputRate()
    feed = rate.beside(None)
    for data in (b"no line yet", b"a\nb\nc\n", b"d\ne\nf\ng\n", b"h\ni\n"):
        feed(data)
    assert rate.per_second(5.0, "") == (2.0, "")
    once = OutputRate()
    once.beside(None)(b"a\n" * 12)
    assert once.per_second(4.0, "") == (3.0, "")


def test_of_the_numbers_that_a_pattern_finds_the_middle_counts() -> None:
    """Neither the last nor the largest; a thousand has its comma; of a long line the beginning."""
    output = f"rate 7\nrate 1,005\nrate x\nrate 9\rrate 8\nrate 20\n{'x' * 1000}rate 3\n"
    assert OutputRate(r"rate (\S+)").per_second(9.0, output) == (9.0, "")
    assert OutputRate(r"rate (\S+)").per_second(9.0, "nothing") == (None, NO_NUMBER)


def test_tokens_are_of_all_texts_of_a_batch() -> None:
    """Two texts of 12 tokens in 3 s, and of 12 in 4 s and 2 s: the median is 8."""
    decoded = [PhaseSum(n, "m", "decode", s, passes=12) for n, s in enumerate((3.0, 4.0, 2.0))]
    settings = {"batch": 2, "new_tokens": 13}
    assert trial_throughput(settings, None, [*decoded, PhaseSum(0, "m", "load", 1.0)]) == 8.0
    assert trial_throughput({**settings, "new_tokens": None}, None, decoded) is None
    assert trial_throughput({"throughput": True}, 4.0, decoded) == 4.0


def test_rounds_that_repeat_are_enough_at_once() -> None:
    """Four: the first pays for the change of limit, and three are the least that can repeat."""
    assert not step(None, 0, 0, 5.0, 1.0, 1.0).enough
    assert step(None, 0, 0, 5.0, 1.0, 1.0, 1.02).enough


def test_two_rounds_that_read_the_same_are_enough_at_a_limit() -> None:
    """Within one per cent, whatever their seconds; the first round, which pays, is not one."""
    assert not reading(9, 200).enough
    assert reading(9, 200, 201).enough
    assert not reading(9, 200, 230).enough
    assert reading(9, 200, 230, 231).enough
    assert not reading(0, 0).enough
    assert reading(0, 0, 0).enough


def reading(*reads_mib: int | None, limit_mib: int = 100) -> WalkStep:
    """A step whose rounds read so much, each slower than the last."""
    visit = step(limit_mib, 0, 0, *(2.0**number for number in range(len(reads_mib))))
    visit.counts = counts(*reads_mib)
    return visit


def test_rounds_that_never_repeat_come_to_an_end() -> None:
    """Each twice the last: the walk goes on after so many, and all but the first count."""
    doubling = [0.01 * 2**n for n in range(MOST_ROUNDS)]
    assert not step(None, 0, 0, *doubling[:-1]).enough
    visit = step(None, 0, 0, *doubling)
    assert visit.enough
    assert visited(visit.phases, []).seconds == doubling[MOST_ROUNDS // 2]


@pytest.mark.own_cgroup
@pytest.mark.torch
@pytest.mark.root
@pytest.mark.parametrize(
    ("values", "packed_bytes", "ends"),
    [(4900, 1 << 20, False), (600, 1 << 20, True), (3000, 0, True)],
)
def test_a_walk_with_more_events_than_are_kept_comes_to_its_end(
    values: int, packed_bytes: int, ends: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of a limit that it has left make room, up to a bound; then too many end it."""
    # As many events at each limit, however long its rounds take.
    monkeypatch.setattr(WalkStep, "enough", property(lambda step: len(step.round_s) >= 4))
    monkeypatch.setattr("edgebench.run.walk.control._MOST_PACKED_BYTES", packed_bytes)
    monkeypatch.setattr("edgebench.run.trial.process._MOST_EVENT_VALUES", values)
    shares = [f"{share}%" for share in range(130, 180, 10)]
    tables = {
        "schema": 1,
        "name": "small",
        "repeats": 1,
        "timeout": "5m",
        "workload": {"kind": "training", "network": "mlp", "width": 16, "steps": 2},
        "limits": {"memory": ["max", *shares], "swap": "none", "plan": "walk", "starts": ["max"]},
    }
    options = SweepOptions(tmp_path, "test")
    (sweep,) = load(run_sweep(scenario_of(tables), options, Quiet()).folder).sweeps
    steps = [one for one in sweep.records if one.walk]
    assert {one.outcome for one in steps} == {"ok"}
    kinds = {doubt.kind for one in steps for doubt in one.doubts}
    assert kinds & {"walk_events", "events_dropped"} == (
        {"walk_events", "events_dropped"} if ends else set()
    )
    seen = {one.limits.label for one in steps}
    assert "max" in seen
    assert (seen != {"max", *shares}) is ends
    for one in steps:
        rounds = [span for span in finished_spans(sweep.events(one.trial)) if span.phase == "round"]
        assert ends or len(rounds) == len(one.round_counts)


@pytest.mark.parametrize(
    ("charged", "peaks", "maps_weights", "found"),
    [
        # 60 MiB of files, 55 of them mapped, of which 50 were touched: idle pages are left out.
        ((60, 55, 2), [(90, 120), (100, 110)], False, (30, 50, 2, 20, 5)),
        # More was touched than is charged: the libraries were read before, by others.
        ((10, 8, 0), [(100, 90)], False, (30, 8, 0, 0, 2)),
        # 8 MiB are still mapped, the libraries'; 90 more are charged: weights, unmapped again.
        ((98, 8, 0), [(100, 100)], True, (30, 98, 0, 0, 0)),
        # Without spans nothing is known.
        ((0, 0, 0), [], False, None),
    ],
)
def test_the_working_set_is_what_a_round_touched_and_what_passed(
    charged: tuple[int, ...],
    peaks: list[tuple[int, int]],
    maps_weights: bool,
    found: tuple[int, ...] | None,
):
    """In MiB: charged files, mapped files and kernel; after and at the peak of each span."""
    sizes = dict(zip(("file", "mapped", "kernel"), (size * MIB for size in charged), strict=True))
    events = [
        {**event, "usage_bytes": after * MIB}
        for number, (after, peak) in enumerate(peaks)
        for event in span(number, number, 0.5, peak)
    ]
    touched = TouchedPages(30 * MIB, 50 * MIB)
    seen = working_set(touched, sizes, events, maps_weights)
    assert seen == (found and WorkingSet(*(size * MIB for size in found)))
    assert seen is None or seen.total_bytes == sum(found or ()) * MIB - seen.cached_bytes
