"""The curve that a terminal shows: its size, its marks, its numbers."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgebench.cli.terminal_curve import CurvePoint, curve_lines
from edgebench.units import MIB

#: Twice as slow at 300 MiB, stopped at 180 MiB, killed at 150 MiB.
POINTS = [
    CurvePoint(412 * MIB, 1.0),
    CurvePoint(350 * MIB, 1.2),
    CurvePoint(300 * MIB, 2.0),
    CurvePoint(200 * MIB, 9.1),
    CurvePoint(180 * MIB, 20.0, "timeout"),
    CurvePoint(150 * MIB, None, "killed"),
]


def test_a_curve_is_read_from_the_picture():
    """Each trial is one mark: the slower, the higher; the kill stands in its own row."""
    lines = curve_lines(POINTS, factor=2.0)
    marks = [[line.count(mark) for mark in "●▲×"] for line in lines]
    assert [sum(column) for column in zip(*marks, strict=True)] == [4, 1, 1]
    assert [line.partition("●")[0] for line in lines if "●" in line] == sorted(
        (line.partition("●")[0] for line in lines if "●" in line), key=len
    )
    killed = next(line for line in lines if "killed" in line)
    # Left of all that finished, since its limit is the least.
    assert killed.index("×") < min(line.index("●") for line in lines if "●" in line)
    assert any(line.startswith("      x2 │┄") for line in lines)
    assert lines[-1].split() == ["150", "200", "300", "MiB"]


def test_no_trial_gives_no_picture():
    """Before the first trial there is nothing to draw."""
    assert curve_lines([]) == []


@pytest.mark.heavy
@pytest.mark.parametrize("unit", ["x", "s"])
@settings(max_examples=40)
@given(
    st.lists(
        st.builds(
            CurvePoint,
            st.floats(1, 2**50),
            st.none() | st.floats(1e-6, 1e6),
            st.sampled_from(["ok", "killed", "timeout"]),
        ),
        min_size=1,
        max_size=30,
    ),
    st.integers(40, 120),
    st.integers(5, 20),
)
def test_it_always_fits(unit: str, points: list[CurvePoint], width: int, height: int):
    """Whatever was measured, no line is wider and there are no more lines than allowed."""
    lines = curve_lines(points, width=width, height=height, unit=unit, factor=2.0)
    assert max(map(len, lines)) <= width
    assert len(lines) <= height
