"""Strategies for what a broken or hostile file may hold: wrong types, huge numbers, evil names."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import strategies as st

EVIL = (
    *("..", "../../etc/passwd", "/etc/passwd", "a/b", "a\nb", "\x00", "", " ", "-rf", "$(reboot)"),
    *("\x1b]0;owned\x07", "\x1b[2J\x1b[31m", "\x9b31m", "\u202egnp.exe", "[/bold]", "[link=x]"),
    *("\ud800", "x" * 5000, "null", "NaN", "%s%n", "日本"),
)
HUGE = (2**63, -(2**63), 10**30, 10**400, -1, 0, 1e308, -1e308, float("inf"), float("nan"), 5e-324)


def deep(levels: int) -> Any:
    """A list in a list, and so on."""
    made: Any = []
    for _ in range(levels):
        made = [made]
    return made


texts = st.sampled_from(EVIL) | st.text(max_size=8)
scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.floats() | st.sampled_from(HUGE)
values = st.recursive(
    scalars | texts | st.just(deep(90)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


@st.composite
def spoiled(draw: st.DrawFn, good: Any) -> Any:
    """The good data with one to three of its values replaced, taken away or added to."""
    data = copy.deepcopy(good)
    for _ in range(draw(st.integers(1, 3))):
        data = _spoil(draw, data)
    return data


def _spoil(draw: st.DrawFn, data: Any) -> Any:
    """Walk down to some value and put another in its place."""
    inner = [*data] if isinstance(data, dict) else [*range(len(data))] if _is_list(data) else []
    if not inner or draw(st.integers(0, 5)) == 0:
        return draw(values)
    key = draw(st.sampled_from(inner))
    if draw(st.integers(0, 9)) == 0:
        del data[key]
    else:
        data[key] = _spoil(draw, data[key])
    return data


def _is_list(data: Any) -> bool:
    return isinstance(data, list)


@st.composite
def torn(draw: st.DrawFn, good: bytes) -> bytes:
    """The good bytes cut, turned round, or with some of them replaced."""
    data = bytearray(good)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        until = at + draw(st.integers(0, 40))
        data[at:until] = draw(st.binary(max_size=12) | st.sampled_from(_BITS))
    return bytes(data[: draw(st.integers(0, len(data)))] if draw(st.booleans()) else data)


_BITS = (
    b"\n",
    b"\x00" * 9,
    b"9" * 5000,
    b"-1",
    b"{",
    b"[" * 500,
    b"\xff\xfe",
    b"1e999",
    b"=",
    b":",
)
