"""What a broken or hostile file may hold: wrong types, huge numbers, evil names, torn bytes."""

from __future__ import annotations

import random
from typing import Any

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


VALUES = (
    *(*EVIL, *HUGE, None, True, [], {}, [[]], deep(90), "$x^", "$\\frac$", "<b>&", "=1+1"),
    *("max", "100%", "-1", "1e400G", "[" * 999, "a.b" * 999, list(range(9999)), 2**53, "1" * 5000),
)
BYTES = (b"", b"\0" * 99, b"9" * 5000, b"[" * 500, b"\xff\xfe", b"1e999", b"NaN", b"\n" * 99)


def spoil(chance: random.Random, data: Any) -> Any:
    keys: list[Any] = [*data] if isinstance(data, dict) else []
    if isinstance(data, list):
        keys = [*range(len(data))]
    if not keys or chance.random() < 0.1:
        return chance.choice(VALUES)
    key = chance.choice(keys)
    data[key] = spoil(chance, data[key])
    if chance.random() < 0.1:
        del data[key]
    return data


def torn(chance: random.Random, data: bytes) -> bytes:
    at = chance.randrange(len(data) + 1)
    made = data[:at] + chance.choice(BYTES) + data[at + chance.randrange(40) :]
    return made[: chance.randrange(len(made) + 1)] if chance.random() < 0.3 else made
