"""What ``advise`` prints below its sentence: what to type, what was stopped or left out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from edgebench.cli.advise import print_advice
from edgebench.results.advice_file import TriedRemedy
from edgebench.run.advice_answer import Advice, BestRemedy

BEST = BestRemedy(
    name="stream",
    titles=("reads what doesn't fit",),
    typed=('schedule = "stream"   # in a scenario', "mlock them   # in a program of your own"),
    finished=5,
    trials=5,
    plain_finished=5,
    ratio=0.4,
    low=0.35,
    high=0.45,
    pairs=5,
    seconds=2.5,
    unlimited_ratio=1.0,
    changes="",
    costs="next to nothing",
    confirmed=True,
)
TRIED = TriedRemedy("stream", "reads what doesn't fit", "ok", 0.4, None, None, 1, 2.5)
STOPPED = TriedRemedy("arena-max", "keeps one heap", "timeout", None, None, None, 1, None)
FOUND = Advice(
    name="alexnet",
    kind="inference",
    folder=Path("results"),
    limit_bytes=160 << 20,
    plain_end="ok",
    plain_s=6.5,
    unlimited_s=1.2,
    pressed=True,
    best=BEST,
    tried=(TRIED, STOPPED),
    untried=(),
    out_of_time=("tcmalloc", "one-thread"),
    trials=20,
    total_s=280.0,
    trial_s=19.0,
    budget_s=300.0,
)


def printed(found: Advice, capsys: pytest.CaptureFixture[str], board: str | None = None) -> str:
    """The text on stdout, with its wrapped lines joined."""
    print_advice(found, board, verbose=False)
    return " ".join(capsys.readouterr().out.split())


def test_what_was_stopped_or_left_out_is_told(capsys: pytest.CaptureFixture[str]):
    """What ``slower`` means, which remedies there was no time for, and why."""
    said = printed(FOUND, capsys)
    assert "with stream: 2.5 s a round instead of 6.5 s" in said
    assert "type or write, where each line says: schedule" in said
    assert "(×0.30: takes 0.30 of the plain workload's time)" in said
    assert "slower: stopped, as it took longer than the plain workload" in said
    assert "for lack of time, as a trial takes 19.0 s: tcmalloc, one-thread. A longer" in said
    assert "It took longer" not in said


def test_what_did_not_happen_is_not_told(capsys: pytest.CaptureFixture[str]):
    """Nothing was stopped, time was enough, and there was nothing to compare with."""
    alone = replace(TRIED, ratio=None)
    said = printed(replace(FOUND, tried=(alone,), out_of_time=()), capsys)
    assert "tried under the limit remedy" in said
    assert "stopped" not in said
    assert "lack of time" not in said


def test_a_search_that_took_longer_says_why(capsys: pytest.CaptureFixture[str]):
    """The winner's pairs are made in any case; without a winner nothing is excused."""
    said = printed(replace(FOUND, total_s=400.0), capsys)
    assert "It took longer than its budget of 5 min" in said
    assert "It took longer" not in printed(replace(FOUND, total_s=400.0, best=None), capsys)


def test_a_board_is_sized_with_libraries(capsys: pytest.CaptureFixture[str]):
    """It finishes within the board's memory, but what it maps of libraries has no room beside."""
    found = replace(FOUND, limit_bytes=228 << 20, needed_bytes=400 << 20, library_bytes=100 << 20)
    text = printed(found, capsys, "raspberry-pi-zero-2w")
    assert "228.0 MiB: too little for the 100 MiB of libraries that it maps beside" in text
    assert "leaves" not in printed(found, capsys)
