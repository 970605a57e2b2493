"""Read a cgroup's counters from a table that says where each of them stands.

The kernel's files have four shapes: one number, ``key number`` lines, ``device key=number``
lines and ``device key number`` lines; the last two are added up over devices.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from edgebench.cgroups.interface import Counters

#: No counter of 64 bits is longer.
_NUMBER = re.compile(r"[0-9]{1,20}")
#: The key of a file that holds one number and nothing else.
ONLY = ""


@dataclass(frozen=True)
class Source:
    """Where one counter stands.

    Args:
        controller: whose file it is.
        file: the file's name.
        key: which of its numbers.
        factor: what one of the kernel's units is in ours.
        minus: a key to take away first.
        per_device: a device shows only once it was used, so an absent key is a real 0.
    """

    controller: str
    file: str
    key: str = ONLY
    factor: int = 1
    minus: str | None = None
    per_device: bool = False


Sources = Mapping[str, Source]


def parse(text: str) -> dict[str, int]:
    """The numbers of a file of any of the four shapes; PSI's are ``some.total``."""
    numbers: dict[str, int] = {}
    for words in map(str.split, text.splitlines()):
        for key, number in _pairs(words):
            if _NUMBER.fullmatch(number):
                numbers[key] = numbers.get(key, 0) + int(number)
    return numbers


def _pairs(words: list[str]) -> list[tuple[str, str]]:
    if len(words) == 1:
        return [(ONLY, words[0])]
    if any("=" in word for word in words[1:]):
        split = [word.partition("=") for word in words[1:]]
        prefix = f"{words[0]}." if words[0] in ("some", "full") else ""
        return [(f"{prefix}{key}", number) for key, _, number in split]
    return [(words[-2], words[-1])] if words else []


def read_counters(
    folders: Mapping[str, Path], sources: Sources, untold: Mapping[str, str]
) -> tuple[Counters, dict[str, str]]:
    """One reading, and the reason for each value that is None.

    Args:
        folders: controller → the cgroup's folder there.
        sources: key of :class:`Counters` → where it stands.
        untold: key of :class:`Counters` → why this version of cgroups never tells it.
    """
    files: dict[str, dict[str, int] | None] = {}
    values: dict[str, int] = {}
    reasons = dict(untold)
    for name, source in sources.items():
        folder = folders.get(source.controller)
        if folder is None:
            reasons[name] = f"the {source.controller} controller can't be had here"
            continue
        if source.file not in files:
            files[source.file] = _read(folder / source.file)
        value = _value(files[source.file], source)
        if value is None:
            reasons[name] = _reason(files[source.file], source)
        else:
            values[name] = value
    return Counters(**values), reasons


def _read(file: Path) -> dict[str, int] | None:
    try:
        return parse(file.read_text())
    except OSError:
        return None


def _value(numbers: dict[str, int] | None, source: Source) -> int | None:
    if numbers is None:
        return None
    value = numbers.get(source.key, 0 if source.per_device else None)
    if value is None:
        return None
    if source.minus is not None:
        if source.minus not in numbers:
            return None
        value -= numbers[source.minus]
    return value * source.factor


def _reason(numbers: dict[str, int] | None, source: Source) -> str:
    if numbers is None:
        return f"this kernel has no readable {source.file}"
    lacking = source.key if source.key not in numbers else source.minus
    return f"this kernel's {source.file} has no {lacking or 'number'}"
