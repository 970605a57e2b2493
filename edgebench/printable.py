"""Text from outside, made safe to print: no control of the terminal, no turned-round words."""

from __future__ import annotations

import json
import re
from typing import Any

#: Control characters but tab and newline, marks that turn the direction of text, lone surrogates.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)

#: How JSON writes what is none of these: all but quotes, slashes, newlines and tabs.
_OBEYED = re.compile(rb"\\[bfru]")

#: Later steps climb down what is nested; nothing that edgebench writes goes a quarter as deep.
_DEEPEST = 64
_TOO_DEEP = f"nested more than {_DEEPEST} deep"


def printable(text: str) -> str:
    """The text with what a terminal would obey written as ``\\x1b`` or ``\\u202e``."""
    return _UNPRINTABLE.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    number = ord(match[0])
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"


def safe_json(line: bytes) -> Any:
    """What the JSON says, every text in it printable.

    Raises:
        ValueError: it is no JSON, or nested deeper than anything of ours.
    """
    try:
        data = json.loads(line)
        if not is_plain(line):
            data = _all_printable(data, _DEEPEST)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    return data


def is_plain(line: bytes) -> bool:
    """Whether JSON can hold nothing that a terminal obeys, and be nested no deeper than ours."""
    return line.count(b"[") + line.count(b"{") <= _DEEPEST and not may_obey(line)


def may_obey(line: bytes) -> bool:
    """Whether JSON may hold something that a terminal obeys."""
    if not line.isascii() or b"\x7f" in line:
        return True
    return b"\\" in line and _OBEYED.search(line) is not None


def _all_printable(data: Any, deepest: int) -> Any:
    if not deepest:
        raise ValueError(_TOO_DEEP)
    if isinstance(data, str):
        return printable(data)
    if isinstance(data, dict):
        return {printable(k): _all_printable(v, deepest - 1) for k, v in data.items()}
    if isinstance(data, list):
        return [_all_printable(value, deepest - 1) for value in data]
    return data
