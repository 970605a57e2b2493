"""Verbs that only read, on the kept quick start: what a reader waits for each."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture
from verb_times import VERBS, compile_modules, copied_sweep, use


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_on_the_quick_start(benchmark: BenchmarkFixture, tmp_path: Path, verb: str) -> None:
    """The whole process, from start to end."""
    compile_modules()
    sweep = copied_sweep(tmp_path)
    benchmark.pedantic(lambda: use(verb, sweep), rounds=5, warmup_rounds=1)
