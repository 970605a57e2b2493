"""Text from outside made safe to print, lists in words, suggestions for mistyped words."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Collection, Iterable
from typing import Any

#: Control characters but tab and newline, marks that turn the direction of text, lone surrogates.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)

#: JSON escapes that may stand for such characters; not those of quotes, slashes, newlines, tabs.
_ESCAPES = re.compile(rb"\\[bfru]")

#: Deeper JSON is refused: reading it is recursive. edgebench's own goes a quarter as deep.
_DEEPEST = 64
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")
_TOO_DEEP = f"nested more than {_DEEPEST} deep"


def printable(text: str) -> str:
    """Return the text with characters that control a terminal as ``\\x1b`` or ``\\u202e``."""
    return _UNPRINTABLE.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    number = ord(match[0])
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"


def safe_json(line: bytes) -> Any:
    """Return the JSON's data, with every text in it printable.

    Raises:
        ValueError: it is not JSON, or it is nested too deep.
    """
    try:
        data = json.loads(line)
        if not is_plain(line):
            data = _all_printable(data, _DEEPEST)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    return data


def is_plain(line: bytes) -> bool:
    """Whether JSON, or lines of it, is surely free of control characters and not too deep."""
    if may_have_controls(line):
        return False
    if line.count(b"[") + line.count(b"{") <= _DEEPEST:
        return True
    # Without the innermost pairs, time after time: what is left then is nested deeper.
    brackets = line.translate(None, _NO_BRACKETS)
    for _ in range(_DEEPEST):
        if not brackets:
            break
        brackets = brackets.replace(b"[]", b"").replace(b"{}", b"")
    return not brackets


def may_have_controls(line: bytes) -> bool:
    """Whether JSON may hold control characters."""
    if not line.isascii() or b"\x7f" in line:
        return True
    return b"\\" in line and _ESCAPES.search(line) is not None


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


def csv_cell(value: Any) -> Any:
    """Return the value of a CSV cell.

    A text that a spreadsheet would compute as a formula is quoted.
    """
    is_formula = isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r")
    return f"'{value}" if is_formula else value


def did_you_mean(word: str, choices: Iterable[str]) -> str | None:
    """Return the choice that begins so, hyphens aside, or is spelled most like it.

    None if none is.
    """
    by_lower_case = {choice.lower(): choice for choice in choices}
    begun = re.sub(r"[\W_]", "", str(word).lower())
    # As raspberrypi4, which raspberry-pi-5-4g is spelled most like.
    for lower, choice in by_lower_case.items() if len(begun) > 3 else ():
        if re.sub(r"[\W_]", "", lower).startswith(begun):
            return choice
    similar = difflib.get_close_matches(str(word).lower(), by_lower_case, n=1, cutoff=0.6)
    return by_lower_case[similar[0]] if similar else None


def joined_words(words: Iterable[str]) -> str:
    """Return ``a``, ``a and b`` or ``a, b and c``."""
    *first, last = list(words)
    return f"{', '.join(first)} and {last}" if first else last


def shortened(text: str, most: int = 40) -> str:
    """Return the text, or as many of its characters as that, the last one ``…``."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def choice_hint(word: str, choices: Collection[str]) -> str:
    """Return the remedy for a word that is none of the choices: the most similar one, else all."""
    guess = did_you_mean(word, choices)
    return f"did you mean {guess!r}?" if guess else f"one of {', '.join(choices)}"
