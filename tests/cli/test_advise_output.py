"""What ``advise`` prints: what was tried, what to type, what was left out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from edgebench.cli.minimum import print_advice
from edgebench.results.derived import TriedRemedy
from edgebench.run.advise.advice import Advice, BestRemedy

BEST = BestRemedy(
    name="stream",
    title="reads what doesn't fit",
    typed=('schedule = "stream"   # in a scenario', "mlock them   # in a program of your own"),
    finished=5,
    trials=5,
    ratio=0.4,
    low=0.35,
    high=0.45,
    pairs=5,
    changes="",
    costs="next to nothing",
    confirmed=True,
)
TRIED = TriedRemedy("stream", "reads what doesn't fit", "ok", 0.4, None, None, 1, 1, 2.5)
STOPPED = TriedRemedy("arena-max", "keeps one heap", "timeout", None, None, None, 0, 1, None, 9.5)
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
    out_of_time=("jemalloc", "one-thread"),
    trials=20,
    total_s=280.0,
)


def printed(found: Advice, capsys: pytest.CaptureFixture[str], board: str | None = None) -> str:
    print_advice(found, board, verbose=False)
    return " ".join(capsys.readouterr().out.split())


def test_what_was_tried_and_what_to_type(capsys: pytest.CaptureFixture[str]):
    said = printed(FOUND, capsys)
    assert said.startswith("alexnet at 160 MiB 6.50 s as it is (5.42x) 20 trials, 4 min 40 s")
    assert 'stream 2.50 s 0.40x 5/5 <- schedule = "stream" # in a scenario; mlock them' in said
    assert "arena-max >9.50 s 0/1 stopped" in said
    assert "not tried for lack of time: jemalloc, one-thread (--budget)" in said
    assert "lack of time" not in printed(replace(FOUND, out_of_time=()), capsys)


def test_a_board_is_sized_with_libraries(capsys: pytest.CaptureFixture[str]):
    found = replace(FOUND, limit_bytes=228 << 20, needed_bytes=400 << 20, library_bytes=100 << 20)
    text = printed(found, capsys, "raspberry-pi-zero-2w")
    assert "leaves 228 MiB libraries 100 MiB too little beside its libraries" in text
    assert "leaves" not in printed(found, capsys)
