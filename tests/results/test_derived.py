"""The answer of ``advise`` in the sweep's folder: kept, read back, shown; damage hides it only."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from made_sweep import Shape, make

from edgebench.results.derived import keep_advice, kept_advice
from edgebench.serve.helper_process import sweep_answer

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
        "typed": ["export MALLOC_MMAP_THRESHOLD_=131072"],
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
    keep_advice(sweep, ANSWER)
    found = kept_advice(sweep)
    assert found is not None
    assert found.typed == ("export MALLOC_MMAP_THRESHOLD_=131072",)
    assert [one.name for one in found.tried] == ["mmap-threshold", "one-thread"]
    assert (found.tried[0].ratio, found.tried[0].finished) == (0.3, 2)


@pytest.mark.parametrize(
    "data", ["", "[]", "{", '{"schema": 1}', json.dumps({"schema": 1, **ANSWER, "tried": 5})]
)
def test_what_is_damaged_is_no_answer(sweep: Path, data: str):
    (sweep / "advice.json").write_text(data)
    assert kept_advice(sweep) is None
    assert sweep_answer(sweep)["advice"] is None


def test_nothing_is_typed_for_what_is_not_advised(sweep: Path):
    for best in (None, {**ANSWER["best"], "confirmed": False}):
        keep_advice(sweep, {**ANSWER, "best": best})
        found = kept_advice(sweep)
        assert found is not None
        assert found.typed == ()
