"""Sizes, swap, shares, durations and slowdowns as people write them."""

from __future__ import annotations

import re

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
