"""The wall clock's place on the monotonic one."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from edgebench.measures.heap.heap_strategy import keep_offset, kept_offset, offset_ns


def test_a_files_time_falls_between_two_looks_at_the_clock(tmp_path: Path) -> None:
    """Moved by the offset, a file's time is where the events' clock stood, within a tick."""
    keep_offset(tmp_path)
    before = time.monotonic_ns()
    (tmp_path / "dump").write_text("x")
    after = time.monotonic_ns()
    offset, note = kept_offset(tmp_path)
    assert note is None
    tick = 10_000_000
    assert before - tick <= (tmp_path / "dump").stat().st_mtime_ns - offset <= after + tick


def test_a_clock_that_was_set_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The offset of the start is kept, and the note says by how much the clock moved."""
    keep_offset(tmp_path)
    start = offset_ns()
    monkeypatch.setattr(
        "edgebench.measures.heap.heap_strategy.offset_ns", lambda: start + 3_600_000_000_000
    )
    offset, note = kept_offset(tmp_path)
    assert abs(offset - start) < 1_000_000
    assert note
    assert "set by 3600" in note
