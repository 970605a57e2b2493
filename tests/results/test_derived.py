"""The answer of ``advise`` in the sweep's folder: kept, read back, shown; damage hides it only."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from made_sweep import Shape, make

from edgebench.results.derived import keep_advice, kept_advice
from edgebench.serve.helper_process import sweep_answer

TYPED = "export MALLOC_MMAP_THRESHOLD_=131072"
TRIED = {
    "name": "mmap-threshold",
    "title": "gives blocks back",
    "end": "ok",
    "ratio": 0.3,
    "low": 0.25,
    "high": 0.36,
    "finished": 2,
    "trials": 3,
    "seconds": 0.2,
    "changes": "",
}
LOST = {**TRIED, "name": "one-thread", "end": "oom-killed", "low": None, "high": None}
ANSWER: dict[str, Any] = {
    "name": "resnet18",
    "limit_bytes": 250 << 20,
    "plain_end": "ok",
    "plain_s": 0.72,
    "slowdown": 3.6,
    "pressed": True,
    "trials": 31,
    "total_s": 95.0,
    "tried": [TRIED, LOST],
    "best": {
        "name": "mmap-threshold",
        "typed": [TYPED],
        "finished": 5,
        "trials": 5,
        "ratio": 0.28,
        "confirmed": True,
        "more": 1,
    },
    "folder": "x",
}


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
