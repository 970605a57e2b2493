"""The wall clock's place on the monotonic one."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from edgebench.measures.heap import STEP_NS, keep_offset, kept_offset, offset_ns

S = 10**9


class Clocks:
    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now, self.offset = 5 * S, 1000 * S
        patch.setattr(time, "monotonic_ns", self._read)
        patch.setattr(time, "time_ns", lambda: self._read() + self.offset)

    def _read(self) -> int:
        self.now += 10
        return self.now


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    return Clocks(monkeypatch)


def test_the_offset_is_that_between_the_clocks(clocks: Clocks, tmp_path: Path) -> None:
    assert offset_ns() == 1000 * S
    keep_offset(tmp_path)
    clocks.now += 60 * S
    assert kept_offset(tmp_path) == (1000 * S, None)


@pytest.mark.parametrize("moved", [-3600 * S, -STEP_NS - 1, STEP_NS, STEP_NS + 1, 3600 * S])
def test_a_clock_that_was_set_is_told(clocks: Clocks, tmp_path: Path, moved: int) -> None:
    keep_offset(tmp_path)
    clocks.offset += moved
    offset, note = kept_offset(tmp_path)
    assert offset == 1000 * S
    assert note == (
        None
        if moved == STEP_NS
        else f"the wall clock was set by {moved / 1e9:.3f} s while the trial was running"
    )
