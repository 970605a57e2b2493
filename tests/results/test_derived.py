"""The answer of ``advise`` in the sweep's folder: kept, read back, shown; damage hides it only."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from made_sweep import Shape, make

from edgebench.results.derived import KeptAdvice, KeptWinner, TriedRemedy, keep_advice, kept_advice
from edgebench.serve.helper_process import sweep_answer

TYPED = "export MALLOC_MMAP_THRESHOLD_=131072"


TRIED = TriedRemedy("mmap-threshold", "gives blocks back", "ok", 0.3, 0.25, 0.36, 2, 3, 0.2)
LOST = TriedRemedy("one-thread", "computes in one thread", "oom-killed", 0.3, None, None, 2, 3, 0.2)
WINNER = KeptWinner("mmap-threshold", (TYPED,), 5, 5, 0.28, True)
KEPT = KeptAdvice("resnet18", 250 << 20, "ok", 0.72, 3.6, True, 31, 95.0, (TRIED, LOST), WINNER)
#: As ``advise`` prints it, with more than is kept.
ANSWER: dict[str, Any] = {**asdict(KEPT), "folder": "x", "best": {**asdict(WINNER), "more": 1}}


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    return make(tmp_path, Shape(repeats=2, with_files=False))


def test_what_is_kept_is_read_back(sweep: Path):
    assert kept_advice(sweep) is None
    # Nothing is typed for what is not advised.
    unsure = {**ANSWER["best"], "confirmed": False}
    for best, typed in ((ANSWER["best"], (TYPED,)), (None, ()), (unsure, ())):
        keep_advice(sweep, {**ANSWER, "best": best})
        advice = kept_advice(sweep)
        assert advice.typed == typed
        assert [remedy.name for remedy in advice.tried] == ["mmap-threshold", "one-thread"]
        assert (advice.tried[0].ratio, advice.tried[0].finished) == (0.3, 2)


@pytest.mark.parametrize(
    "data", ["", "[]", "{", '{"schema": 1}', json.dumps({"schema": 1, **ANSWER, "tried": 5})]
)
def test_what_is_damaged_is_no_answer(sweep: Path, data: str):
    (sweep / "advice.json").write_text(data)
    assert kept_advice(sweep) is None
    assert sweep_answer(sweep)["advice"] is None
