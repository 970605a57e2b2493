"""The search for a program's least limits, in worlds where they are known; and its sentences."""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from made_sweep import Shape, make
from msgspec.structs import replace

from edgebench.boards.board import find_board
from edgebench.errors import UsageError
from edgebench.records import LimitSetting, TrialRecord
from edgebench.results.facts import workload_facts
from edgebench.results.point_facts import PointFacts
from edgebench.results.results import load
from edgebench.results.rounds import trial_times
from edgebench.results.unmeasured import Unmeasured
from edgebench.run import output_rate
from edgebench.run.minimum_answer import Minimum
from edgebench.run.minimum_requests import ProgramRequest, program_scenario
from edgebench.run.output_rate import NO_NUMBER, TOO_LONG, OutputRate
from edgebench.run.pace import pace_of_program, start_of_rounds
from edgebench.run.search import (
    LimitBracket,
    LimitSearch,
    SearchGoal,
    TrialRules,
    TriedLimit,
    demand_range,
    slowdown_bracket,
    viable_bracket,
)
from edgebench.scenario.points import PlannedTrial, points
from edgebench.units import MIB, brief_size
from edgebench.words.boards import (
    minimum_board_sentence,
    trial_board_sentence,
    workload_board_sentence,
)
from edgebench.words.minimum import give_lines, swap_ram_sentence

#: Limit in MiB (None: unlimited) and number of the trial → seconds; None: killed.
World = Callable[[float | None, int], float | None]


def explore(
    planner: LimitSearch, world: World, demands: list[int], swap: str = "none"
) -> tuple[list[PlannedTrial], dict[str, TrialRecord]]:
    """Run the planner to its end; unlimited trials need the demands in MiB, one after the other."""
    by_id = {point.id: point for point in planner_points(swap)}
    planned, records = planner.first(), dict[str, TrialRecord]()
    while True:
        for one in planned[len(records) :]:
            point = by_id[one.point_id]
            limit = point.limits.memory_bytes
            seconds = world(None if limit is None else limit / MIB, len(records))
            late = seconds is not None and one.timeout_s is not None and seconds > one.timeout_s
            outcome = "oom-killed" if seconds is None else "timeout" if late else "ok"
            need = demands[min(len(records), len(demands) - 1)] * MIB
            records[one.trial] = TrialRecord(
                *(one.trial, point.id, one.block, one.repeat, point.settings, point.limits),
                outcome=outcome,
                started_utc="",
                wall_s=one.timeout_s if late else seconds or 0.5,
                harness_s=0.2,
                demand_bytes=need if limit is None else None,
            )
        further = planner.further(planned, records)
        if not further:
            return planned, records
        planned = planned + further


def planner_points(swap: str = "none"):
    """The points of a program's search."""
    return points(program_scenario(ProgramRequest(("true",), swap=swap)))


def search(
    world: World,
    demands: list[int],
    goal: SearchGoal | None = None,
    swap: str = "none",
    budget_s: float | None = None,
):
    """The planner, what it planned, and the records."""
    rules = TrialRules(pace_of_program, 2, 4, is_hurried=True, budget_s=budget_s)
    planner = LimitSearch(planner_points(swap), goal or SearchGoal(confirm=3), rules)
    return planner, *explore(planner, world, demands, swap)


def spent(records: dict[str, TrialRecord]) -> float:
    """What all trials took, in seconds."""
    return sum((one.wall_s or 0) + (one.harness_s or 0) for one in records.values())


@pytest.mark.parametrize("edge", [412, 405, 350, 200, 430])
def test_a_program_of_three_seconds_is_answered_within_a_minute(edge: int):
    """Without swap: the edge is bracketed within 5 % and confirmed, in well under 60 s."""
    planner, planned, records = search(
        lambda mib, _: 3.0 if not mib or mib >= edge else None, [412]
    )
    found = viable_bracket(planner.tried(planned, records))
    assert found.settled
    assert found.bad.limit_bytes < edge * MIB <= found.good.limit_bytes
    assert found.good.trials == 4 or spent(records) > 39
    assert spent(records) < 50


def test_with_swap_it_finds_where_it_gets_slow_within_a_minute():
    """Twice as slow at 300 MiB: bracketed, though no trial below was let run to its end."""

    def world(mib: float | None, _: int) -> float:
        return 3.0 * max(1.0, (412 / mib) ** 2.2) if mib else 3.0

    goal = SearchGoal(2.0, confirm=3)
    planner, planned, records = search(world, [412], goal, "2G")
    found = slowdown_bracket(planner.tried(planned, records), 2.0)
    assert found.bad.limit_bytes < 300.7 * MIB <= found.good.limit_bytes
    assert found.good.limit_bytes / found.bad.limit_bytes < 1.15
    assert spent(records) < 60
    # A limited trial is stopped at five times the unlimited time.
    assert max(one.wall_s for one in records.values()) <= 15.0


def test_with_enough_swap_a_kill_is_searched_only_on_request():
    """A program that is slow long before it is killed or stopped: no trial down there."""

    def world(mib: float | None, _: int) -> float | None:
        if mib and mib < 20:
            return None
        return 1.0 * max(1.0, 300 / mib) if mib else 1.0

    found = {}
    for killed in (False, True):
        goal = SearchGoal(2.0, None, 3, killed)
        planner, planned, records = search(world, [412], goal, "2G", 3600)
        tried = planner.tried(planned, records)
        assert slowdown_bracket(tried, 2.0).settled
        found[killed] = min(one.limit_bytes for one in tried)
        assert planner.open_question(planned, records) == []
    assert found[False] > 100 * MIB > found[True]


def test_a_demand_that_differs_is_measured_four_times():
    """Nondeterministic memory: four unlimited trials, and the range of what they needed."""
    _, _, records = search(lambda mib, _: 1.0, [400, 530, 412, 450])
    unlimited = [r for r in records.values() if r.limits.memory_bytes is None]
    assert len(unlimited) == 4
    assert demand_range(unlimited) == (400 * MIB, 530 * MIB)


def test_a_program_that_fails_is_run_once():
    """Nothing is searched for when the first trial didn't finish."""
    _, planned, _ = search(lambda mib, _: None, [400])
    assert len(planned) == 1


def test_one_limit_is_tried_until_it_fails():
    """--within: once unlimited, then that limit; the first kill ends it."""
    made = points(program_scenario(ProgramRequest(("true",), within="300M")))
    planner = LimitSearch(made, SearchGoal(confirm=3), TrialRules(lambda r: r.wall_s))
    records: dict[str, TrialRecord] = {}
    planned = planner.first()
    while len(records) < len(planned):
        one = planned[-1]
        point = next(point for point in made if point.id == one.point_id)
        records[one.trial] = TrialRecord(
            *(one.trial, point.id, 0, one.repeat, point.settings, point.limits),
            outcome="oom-killed" if len(records) == 2 else "ok",
            started_utc="",
            wall_s=1.0,
            demand_bytes=MIB,
        )
        planned = planned + planner.further(planned, records)
    assert len(planned) == 3
    assert planner.tried(planned, records)[0].outcome == "oom-killed"


def answer(viable: LimitBracket, **more: object) -> Minimum:
    """An answer of nine trials in 41 s about a program that needs 412 MiB."""
    made = {"demand_bytes": 412 * MIB, "demand_least_bytes": 412 * MIB, "fast": None}
    made["given"] = more.get("fast") or viable
    return Minimum(
        *("prog", Path("x")), unlimited_s=3.0, viable=viable, trials=9, total_s=41.0,
        **{"tried": (viable.good or viable.bad,), **made, **more},
    )  # fmt: skip


def ended(mib: float, outcome: str = "ok", slowdown: float | None = None, **more: object):
    """A limit that was tried."""
    return TriedLimit(mib * MIB, outcome, slowdown, **more)


@pytest.mark.parametrize(
    ("needs", "libraries", "words"),
    [
        (120, 100, "enough with the 100 MiB of libraries that it maps."),
        (120, None, "enough."),
        (
            150,
            100,
            "too little for the 100 MiB of libraries that it maps beside, so these are read from "
            "its storage again and again.",
        ),
        (300, 100, "too little."),
    ],
)
def test_libraries_are_added_where_a_board_is_sized(needs: int, libraries: int | None, words: str):
    """On 228 MiB; no limit here counted them."""
    bracket = LimitBracket(ended(needs), ended(needs - 3, "oom-killed"))
    size = needs * MIB
    found = answer(
        bracket,
        demand_bytes=size,
        demand_least_bytes=size,
        library_bytes=libraries and libraries * MIB,
    )
    title, board = "Raspberry Pi Zero 2 W leaves 228.0 MiB: ", "raspberry-pi-zero-2w"
    assert minimum_board_sentence(found, find_board(board)) == title + words
    for name, said in ((board, title + words), (None, "")):
        limits = LimitSetting("max", board=name)
        free = PointFacts("p", "w", {}, limits, planned=1, outcomes={"ok": 1}, times_s={})
        sizes = {"demand_bytes": float(size), "library_bytes": found.library_bytes}
        (workload,) = workload_facts([dataclasses.replace(free, **sizes)])
        assert workload_board_sentence(workload) == said


@pytest.mark.parametrize(
    ("peak", "libraries", "saturated", "words"),
    [
        (100, 100, False, "enough with the 100 MiB of libraries that it maps."),
        (150, None, False, "enough."),
        (150, 100, False, "too little for the 100 MiB of libraries that it maps beside, so"),
        (228, 100, True, "it used 228.0 MiB there, and the 100 MiB of libraries that it maps are"),
    ],
)
def test_one_trial_on_a_board_adds_libraries_too(
    peak: int, libraries: int | None, saturated: bool, words: str
):
    """By the same rule; where the limit was reached, its size is not known."""
    limits = LimitSetting("228M", 228 * MIB, board="raspberry-pi-zero-2w")
    record = TrialRecord(
        *("0", "p", 0, 0, {}, limits, "ok", ""),
        peak_bytes=peak * MIB,
        limit_bytes=228 * MIB,
        library_bytes=libraries and libraries * MIB,
        saturated=saturated,
    )
    said = trial_board_sentence(record)
    assert said.startswith(f"Raspberry Pi Zero 2 W leaves 228.0 MiB: {words}")
    assert trial_board_sentence(replace(record, outcome="oom-killed")) == ""
    assert trial_board_sentence(replace(record, limits=LimitSetting())) == ""


def test_what_zram_took_is_said():
    """In a sentence of its own, and only where there is some."""
    bracket = LimitBracket(ended(160), ended(155, "oom-killed"))
    assert swap_ram_sentence(answer(bracket)) == ""
    said = "The limits count what its swap takes of RAM: up to 49 MiB."
    assert swap_ram_sentence(answer(bracket, swap_ram_bytes=49 * MIB)) == said


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (
            answer(
                LimitBracket(ended(180), ended(175, "oom-killed", killed=1)),
                fast=LimitBracket(ended(300, slowdown=1.9), ended(290, slowdown=2.2)),
                slowdown=2.0,
            ),
            "needs 412 MiB; takes 2 times as long below 300 MiB; killed below 180 MiB "
            "(9 trials, 41 s)",
        ),
        (
            answer(LimitBracket(ended(413), ended(403, "oom-killed"))),
            "needs 412 MiB; killed with less (9 trials, 41 s)",
        ),
        (
            answer(
                LimitBracket(ended(58), ended(56, "oom-killed")), demand_bytes=375 * MIB,
                demand_least_bytes=375 * MIB, undroppable_bytes=55 * MIB,
            ),
            "needs 55 MiB that can't be dropped and 320 MiB of files that are read again when "
            "dropped; killed below 58 MiB (9 trials, 41 s)",
        ),
        (
            answer(
                LimitBracket(ended(24), ended(23, "timeout", stopped_s=9.0)),
                demand_bytes=9.1 * MIB, demand_least_bytes=9.1 * MIB,
            ),
            "needs 9.1 MiB; takes more than 3 times as long below 24 MiB (9 trials, 41 s)",
        ),
        (
            answer(
                LimitBracket(ended(535), ended(520, "oom-killed")), demand_bytes=530 * MIB
            ),
            "needs 412 MiB to 530 MiB, as its threads, inputs or timing differ from run to run; "
            "killed at 520 MiB, finished at 535 MiB (9 trials, 41 s)",
        ),
        (
            answer(
                LimitBracket(ended(208), ended(203, "oom-killed")), demand_bytes=398 * MIB,
                demand_least_bytes=196 * MIB,
                demands_bytes=(398 * MIB, 196 * MIB, 208 * MIB, 208 * MIB),
                unmeasured=Unmeasured(left_bytes=200 * MIB),
            ),
            "needs 196 MiB to 398 MiB in 4 runs, as what one run leaves in memory is not charged "
            "to the next one; 200 MiB of shared memory stay when it has ended (`ls -l /dev/shm`, "
            "`ipcs -m`); killed at 203 MiB, finished at 208 MiB (9 trials, 41 s)",
        ),
        (
            answer(
                LimitBracket(ended(20), ended(19, "oom-killed")), demand_bytes=80 * MIB,
                demand_least_bytes=12 * MIB, unmeasured=Unmeasured(processes=1, names=("a",)),
            ),
            "needs 12 MiB to 80 MiB, as what outlives the command is ended sooner or later; "
            "1 process outlived the command (a) and had to be ended: what follows is not in the "
            "answer, --for 20s measures it too; killed at 19 MiB, finished at 20 MiB "
            "(9 trials, 41 s)",
        ),
        (
            answer(
                LimitBracket(ended(7.5), ended(7.3, "oom-killed")), demand_bytes=254 * MIB,
                demand_least_bytes=7 * MIB,
                demands_bytes=(254 * MIB, 7 * MIB, 7 * MIB, 7 * MIB),
            ),
            "needed 254 MiB in its first run and 7.0 MiB in later ones, since a run changes what "
            "the next one needs; killed at 7.3 MiB, finished at 7.5 MiB (9 trials, 41 s)",
        ),
        (
            answer(
                LimitBracket(ended(296, slowdown=1.8), ended(251, "oom-killed")),
                fast=LimitBracket(ended(296, slowdown=1.8), ended(251, "oom-killed")),
                slowdown=2.0,
            ),
            "needs 412 MiB; takes at most 2 times as long down to 296 MiB; killed at 251 MiB, "
            "finished at 296 MiB (9 trials, 41 s)",
        ),
        (
            answer(
                LimitBracket(ended(250, slowdown=2.5), None),
                fast=LimitBracket(ended(300, slowdown=1.8), ended(250, slowdown=2.5)),
                slowdown=2.0,
            ),
            "needs 412 MiB; takes 2.5 times as long at 250 MiB, 1.8 times at 300 MiB; finished "
            "at 250 MiB, the least limit tried (9 trials, 41 s)",
        ),
        (
            answer(LimitBracket(ended(200), ended(100, "timeout", stopped_s=15.0))),
            "needs 412 MiB; takes more than 5 times as long at 100 MiB, finished at 200 MiB "
            "(9 trials, 41 s)",
        ),
        (
            answer(LimitBracket(None, ended(300, "oom-killed")), size_bytes=300 * MIB),
            "does not fit in 300 MiB: killed; needs 412 MiB (9 trials, 41 s)",
        ),
        (
            answer(
                LimitBracket(ended(300, slowdown=3.0), None),
                fast=LimitBracket(None, ended(300, slowdown=3.0)),
                slowdown=2.0, size_bytes=300 * MIB,
            ),
            "does not fit in 300 MiB: takes 3 times as long there in one trial; needs 412 MiB "
            "(9 trials, 41 s)",
        ),
        (
            answer(
                LimitBracket(ended(300, slowdown=1.1), None),
                fast=LimitBracket(ended(300, slowdown=1.1), None),
                slowdown=2.0, later_start_s=0.4, later_start_trials=1,
            ),
            "needs 412 MiB; starts 400.0 ms later at 300 MiB in one trial; once running, it takes "
            "at most 2 times as long down to 300 MiB; finished at 300 MiB, the least limit tried "
            "(9 trials, 41 s)",
        ),
        (
            answer(LimitBracket(ended(500, trials=4), None), size_bytes=500 * MIB),
            "fits in 500 MiB (finished 4 of 4 times); needs 412 MiB (9 trials, 41 s)",
        ),
        (
            answer(
                LimitBracket(ended(180), ended(175, "oom-killed")),
                fast=LimitBracket(ended(300, slowdown=1.9), ended(290, slowdown=2.2)),
                slowdown=2.1, throughput=5.0, unlimited_per_s=10.5,
            ),
            "needs 412 MiB; fewer than 5 per second below 300 MiB; killed below 180 MiB "
            "(9 trials, 41 s)",
        ),
        (
            answer(
                LimitBracket(ended(1), None),
                fast=LimitBracket(ended(1, slowdown=1.1), None),
                slowdown=2.1, throughput=5.0, unlimited_per_s=10.5,
            ),
            "needs 412 MiB; at least 5 per second down to 1.0 MiB; finished at 1.0 MiB, the "
            "least limit tried (9 trials, 41 s)",
        ),
    ],
)  # fmt: skip
def test_the_sentence(found: Minimum, words: str):
    """The answer in one sentence, whatever was found, without the limit to give at its end."""
    assert re.sub(r"; give [^(]* \(", " (", found.sentence) == words


@pytest.mark.parametrize(
    ("mib", "swap_bytes", "lines"),
    [
        (
            412, 0,
            ("docker run --memory=412m --memory-swap=412m",
             "MemoryHigh=412M MemoryMax=433M MemorySwapMax=0"),
        ),
        (
            8.125, 256 * MIB,
            ("docker run --memory=8320k --memory-swap=265m",
             "MemoryHigh=8320K MemoryMax=9344K MemorySwapMax=256M"),
        ),
        (1.521 * 1024, None, ("docker run --memory=1558m", "MemoryHigh=1558M MemoryMax=1636M")),
    ],
)  # fmt: skip
def test_the_lines_to_paste_give_no_less_than_was_measured(
    mib: float, swap_bytes: int | None, lines: tuple[str, str]
):
    """Docker's, systemd's and Kubernetes' sizes are powers of 1024, rounded up."""
    made = give_lines(ended(mib), "none" if swap_bytes == 0 else "file", swap_bytes)
    assert (made["docker"], made["systemd"]) == lines
    # Kubernetes gives no swap, so that a limit which was measured with some kills.
    assert made.get("kubernetes", "").count('memory: "412Mi"') == (2 if swap_bytes == 0 else 0)


@pytest.mark.parametrize(
    ("tried", "words"),
    [
        # Weights of 400 MB, read for each token: below what they take, all come from the disk.
        (
            (ended(413, slowdown=3.46), ended(394, slowdown=3.0), ended(367, slowdown=3.57)),
            "takes 3 to 3.57 times as long at 367 MiB to 413 MiB, one trial each; finished at",
        ),
        ((ended(400, slowdown=1.1), ended(367, slowdown=2.0)),
         "takes 2 times as long at 367 MiB in one trial; finished at 367 MiB"),
        ((ended(400, slowdown=1.1), ended(367, slowdown=1.3)), "takes 1.3 times as long at 367"),
    ],
)  # fmt: skip
def test_slow_is_said_without_swap_too(tried: tuple[TriedLimit, ...], words: str):
    """That it finishes at a limit does not hide how long it takes there."""
    found = answer(LimitBracket(ended(367), None), tried=tried)
    assert words in found.sentence


def test_with_less_is_said_only_near_the_need():
    """A file read once: it needs 9 MiB, and is stopped as too slow below 24."""
    end = LimitBracket(ended(24), ended(22.9, "timeout", stopped_s=9.03))
    found = answer(end, demand_bytes=9 * MIB, demand_least_bytes=9 * MIB)
    assert "needs 9.0 MiB; takes more than 3 times as long below 24 MiB;" in found.sentence


def test_the_start_has_the_import_in_it(tmp_path: Path):
    """Below a limit the import may take longest; a program without rounds has no such start."""
    made = load(make(tmp_path, Shape(limits=(None,), repeats=1))).sweeps[0].records[0]
    first_s = trial_times(made)["start"]
    assert start_of_rounds(made) == pytest.approx(0.4 + 0.05 + first_s)
    alone = [phase for phase in made.phases if phase.round < 1]
    assert start_of_rounds(replace(made, phases=alone)) is None
    assert start_of_rounds(replace(made, phases=[])) is None


def test_lines_per_second_leave_out_the_start(monkeypatch: pytest.MonkeyPatch):
    """Lines count from the first on: a program that loads for 10 s isn't slow for it."""
    now = iter([0.0, 10.0, 12.0, 14.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(now))
    rate = OutputRate()
    feed = rate.beside(None)
    for text in (b"ready\n", b"1\n2\n3\n4\n", b"5\n6\n7\n8\n"):
        feed(text)
    assert rate.per_second(14.0, "") == (pytest.approx(2.0), "")


@pytest.mark.process
def test_a_printed_rate_is_its_median():
    """A pattern's numbers are rates; lines no longer matter, and 1,024.5 is a number."""
    rate = OutputRate(r"([\d.,]+) tokens/s")
    assert rate.per_second(9.0, "10 tokens/s\n12 tokens/s\n1,024.5 tokens/s\n") == (12.0, "")
    assert rate.per_second(9.0, "nothing here") == (None, NO_NUMBER)


@pytest.mark.process
def test_a_line_that_never_ends_is_not_searched_to_its_end():
    """A pattern that looks at each letter again from each letter before it takes a moment."""
    rate = OutputRate(r"\w*=(\d+)")
    assert rate.per_second(9.0, f"step=3\rstep=5\n{'x' * (1 << 20)}\n") == (4.0, "")


@pytest.mark.process
def test_a_pattern_that_never_ends_holds_nobody_up(monkeypatch: pytest.MonkeyPatch):
    """It takes twice as long for each letter: the search is ended, and the reason says so."""
    monkeypatch.setattr(output_rate, "_SEARCH_S", 0.5)
    assert OutputRate("(a+)+$").per_second(9.0, f"{'a' * 40}!\n") == (None, TOO_LONG)


@pytest.mark.parametrize("pattern", ["tokens/s", "([0-9]+) of ([0-9]+)", "([0-9]+"])
def test_a_pattern_needs_one_number(pattern: str):
    """A pattern without a group, with two, or that is none, is refused by its flag's name."""
    with pytest.raises(UsageError, match="--throughput-pattern"):
        program_scenario(ProgramRequest(("true",), throughput_pattern=pattern))


def test_sizes_in_a_sentence_are_short():
    """As many digits as a sentence needs."""
    sizes = [brief_size(n) for n in (900, 8.44 * MIB, 412.3 * MIB, 1023.7 * MIB, 3.5 * 1024 * MIB)]
    assert sizes == ["900 B", "8.4 MiB", "412 MiB", "1.00 GiB", "3.50 GiB"]
