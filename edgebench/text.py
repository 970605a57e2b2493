"""Text that people write and read.

Sizes, swap, shares, durations and rates, parsed and formatted; words for lists and mistyped words;
and text from outside made safe to print.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from edgebench.errors import UsageError

#: Bytes of one MiB.
MIB = 1 << 20
_POWERS = {"": 1, "B": 1}
_POWERS |= {unit: 1024**n for n, unit in enumerate("KMGT", start=1)}
_POWERS |= {f"{unit}iB": 1024**n for n, unit in enumerate("KMGT", start=1)}
_POWERS |= {f"{unit}B": 1000**n for n, unit in enumerate("kMGT", start=1)}
_SECONDS = {"us": 1e-6, "ms": 1e-3, "": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_NUMBER = re.compile(r"^\s*([0-9]{1,18}(?:\.[0-9]{1,18})?)\s*([A-Za-z%]*)\s*$")
SIZE_HELP = 'write a size as "300M", "1.5GiB", "2GB" (powers of 1000) or "max"'
SWAP_HELP = 'write swap as "2G" (a temporary swap file), "zram:1G", "system" or "none"'
#: Storage that nothing holds.
AS_IS = "as-is"
#: Where pages go that a limit pushes out (:mod:`edgebench.cgroups.swap`).
SWAP_KINDS = ("none", "file", "zram", "system")
#: Words for no swap, beside a size of zero; in any case.
_NO_SWAP = ("none", "off", "no")
DURATION_HELP = 'write a duration as "500ms", "90s", "10m" or "2h"'


def parse_size(text: str | int) -> int | None:
    """Bytes of ``"300M"``; None for ``"max"``.

    ``K M G T`` and ``KiB MiB GiB TiB`` are powers of 1024, ``kB MB GB TB`` of 1000.

    Raises:
        UsageError: not a size, or less than one byte.
    """
    if isinstance(text, int):
        text = str(text)
    if text.strip() == "max":
        return None
    match = _NUMBER.match(text)
    if not match or match[2] not in _POWERS:
        raise UsageError(f"{text!r} is not a size", remedy=SIZE_HELP)
    size = round(float(match[1]) * _POWERS[match[2]])
    if size < 1:
        raise UsageError(f"{text!r} is less than one byte", remedy=SIZE_HELP)
    return size


def parse_swap(text: str | int) -> tuple[str, int | None]:
    """Kind and bytes of ``"2G"``, ``"file:2G"``, ``"zram:1G"``, ``"system"`` or ``"none"``.

    ``"off"``, ``"no"``, ``False`` and zero of any unit (``0``, ``"0M"``) are ``"none"`` too. Words
    may have capitals. Bytes are None where the kind has no size.

    Raises:
        UsageError: none of these; the remedy lists them.
    """
    word = "none" if text is False else str(text).strip()
    match = _NUMBER.match(word)
    is_zero = match is not None and float(match[1]) == 0 and match[2] in _POWERS
    if word.lower() in _NO_SWAP or is_zero:
        return "none", None
    if word.lower() == "system":
        return "system", None
    kind, _, size = word.rpartition(":")
    if (kind.lower() or "file") not in ("file", "zram"):
        raise UsageError(f"no swap of kind {kind!r}", remedy=SWAP_HELP)
    try:
        size_bytes = parse_size(size)
    except UsageError:
        size_bytes = None
    if size_bytes is None or isinstance(text, int):
        raise UsageError(f"{text!r} is not a swap setting", remedy=SWAP_HELP)
    return kind.lower() or "file", size_bytes


def parse_share(text: str) -> float | None:
    """0.75 for ``"75%"``; None if the text is not a share.

    Raises:
        UsageError: a share of 0 %.
    """
    match = _NUMBER.match(text)
    if not match or match[2] != "%":
        return None
    share = float(match[1]) / 100
    if share <= 0:
        raise UsageError(f"{text!r} is not a share above 0%", remedy='write a share as "75%"')
    return share


def parse_duration(text: str | float) -> float:
    """Seconds of ``"90s"``; a bare number is seconds.

    Raises:
        UsageError: not a duration, or zero.
    """
    match = _NUMBER.match(str(text))
    if not match or match[2] not in _SECONDS or float(match[1]) <= 0:
        raise UsageError(f"{text!r} is not a duration", remedy=DURATION_HELP)
    return float(match[1]) * _SECONDS[match[2]]


def format_size(size_bytes: float | None) -> str:
    """``"150.0 MiB"``; ``"max"`` for None."""
    if size_bytes is None:
        return "max"
    value = float(size_bytes)
    for unit in ("B", "KiB", "MiB"):
        if abs(value) < 1024:
            return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.2f} GiB"


def format_limit(label: str, size_bytes: float | None) -> str:
    """``150.0 MiB``, or ``75% (242.1 MiB)`` for a share; ``unlimited``."""
    if size_bytes is None:
        return "unlimited" if label == "max" else label
    size = format_size(size_bytes)
    return f"{label} ({size})" if label.endswith("%") else size


def swap_words(kind: str, size_bytes: int | None) -> str:
    """``"no swap"``, ``"2.00 GiB of swap (file)"``, ``"the machine's own swap"``."""
    if kind == "none":
        return "no swap"
    amount = "" if size_bytes is None else f"{format_size(size_bytes)} of "
    return amount + ("the machine's own swap" if kind == "system" else f"swap ({kind})")


def format_duration(seconds: float) -> str:
    """``"850 µs"``, ``"12.3 ms"``, ``"4.2 s"``, ``"3 min 20 s"``, ``"1 h 05 min"``."""
    if seconds == 0:
        return "0 s"
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} µs"
    if seconds < 1:
        return f"{seconds * 1e3:.1f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


#: The slowdown in throughput, beside those of times: unlimited rate ÷ rate.
THROUGHPUT = "throughput"


def reads_throughput(settings: Mapping[str, Any]) -> bool:
    """Whether the throughput is read from what a program prints."""
    return any(settings.get(key) for key in ("throughput", "throughput_pattern"))


def generates_text(settings: Mapping[str, Any]) -> bool:
    """Whether a language model generates text, so that it has tokens per second."""
    return bool(settings.get("new_tokens"))


def throughput_unit(settings: Mapping[str, Any]) -> str:
    """Return what is counted: ``tokens`` or ``lines``; empty where a pattern finds the rate."""
    if generates_text(settings):
        return "tokens"
    return "lines" if settings.get("throughput") and not settings.get("throughput_pattern") else ""


def throughput_words(per_second: float, unit: str) -> str:
    """``41.2 tokens/s``; ``41.2/s`` without a unit."""
    number = f"{per_second:,.0f}" if per_second >= 1000 else f"{per_second:.3g}"
    return f"{number} {unit}/s" if unit else f"{number}/s"


def per_second_words(unit: str) -> str:
    """``tokens per second``; ``per second`` without a unit."""
    return f"{unit} per second".strip()


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
    if not line.isascii() or b"\x7f" in line or (b"\\" in line and _ESCAPES.search(line)):
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
    # Lazy: most programs never need it.
    import difflib

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
