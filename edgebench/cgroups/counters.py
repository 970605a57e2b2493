"""A cgroup's counters, read from a table that says which file and key holds each of them.

The kernel's files have four shapes: one number, ``key number`` lines, ``device key=number``
lines and ``device key number`` lines; the last two are summed over devices.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

#: No counter of 64 bits is longer.
_NUMBER = re.compile(r"[0-9]{1,20}")
#: The key of a file that holds one number and nothing else.
ONLY = ""


@dataclass(frozen=True)
class Counters:
    """One reading of a cgroup's accounting. Bytes, or nanoseconds, or counts."""

    usage_bytes: int | None = None
    peak_bytes: int | None = None
    swap_bytes: int | None = None
    swap_peak_bytes: int | None = None
    anon_bytes: int | None = None
    file_bytes: int | None = None
    mapped_file_bytes: int | None = None
    shmem_bytes: int | None = None
    kernel_bytes: int | None = None
    page_tables_bytes: int | None = None
    slab_bytes: int | None = None
    minor_faults: int | None = None
    major_faults: int | None = None
    swapped_in_bytes: int | None = None
    swapped_out_bytes: int | None = None
    refault_anon: int | None = None
    refault_file: int | None = None
    cpu_ns: int | None = None
    user_ns: int | None = None
    system_ns: int | None = None
    throttled_ns: int | None = None
    io_read_bytes: int | None = None
    io_write_bytes: int | None = None
    pressure_some_us: int | None = None
    pressure_full_us: int | None = None
    oom_kills: int | None = None
    limit_hits: int | None = None


@dataclass(frozen=True)
class CounterSource:
    """Where one counter is found.

    Args:
        controller: whose file it is.
        file: the file's name.
        key: which of its numbers; :data:`ONLY` for a file with one number.
        factor: what to multiply the kernel's number by.
        minus: a key whose number is subtracted first.
        per_device: a device is listed only once it was used, so a missing key means 0.
    """

    controller: str
    file: str
    key: str = ONLY
    factor: int = 1
    minus: str | None = None
    per_device: bool = False


Sources = Mapping[str, CounterSource]


def parse_counters(text: str) -> dict[str, int]:
    """Key → number in a file of any of the four shapes; PSI's keys are as ``some.total``."""
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
    folders: Mapping[str, Path], sources: Sources, unavailable: Mapping[str, str]
) -> tuple[Counters, dict[str, str]]:
    """One reading, and the reason for each value that is None.

    Args:
        folders: controller → the cgroup's folder there.
        sources: key of :class:`Counters` → where it is found.
        unavailable: key of :class:`Counters` → why this cgroup version never has it.
    """
    files: dict[str, dict[str, int] | None] = {}
    values: dict[str, int] = {}
    reasons = dict(unavailable)
    for name, source in sources.items():
        folder = folders.get(source.controller)
        if folder is None:
            reasons[name] = f"the {source.controller} controller is not available here"
            continue
        if source.file not in files:
            files[source.file] = _read(folder / source.file)
        value = _value(files[source.file], source)
        if value is None:
            reasons[name] = _reason(files[source.file], source)
        else:
            values[name] = value
    return Counters(**values), reasons


def sum_counter(folders: Iterable[Path], source: CounterSource) -> int | None:
    """The sum over cgroups of a counter that excludes child cgroups; None if none has it."""
    files = (_read(folder / source.file) for folder in folders)
    known = [value for one in files if (value := _value(one, source)) is not None]
    return sum(known) if known else None


def _read(file: Path) -> dict[str, int] | None:
    try:
        return parse_counters(file.read_text(errors="replace"))
    except OSError:
        return None


def _value(numbers: dict[str, int] | None, source: CounterSource) -> int | None:
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


def _reason(numbers: dict[str, int] | None, source: CounterSource) -> str:
    if numbers is None:
        return f"this kernel has no readable {source.file}"
    lacking = source.key if source.key not in numbers else source.minus
    return f"this kernel's {source.file} has no {lacking or 'number'}"
