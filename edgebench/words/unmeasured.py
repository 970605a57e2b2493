"""Sentences on what a program's trials do not tell: what it leaves behind, memory that grows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from edgebench.text import joined_words
from edgebench.units import MIB, brief_size, format_duration
from edgebench.words.need import need_words

if TYPE_CHECKING:
    from edgebench.need import Need
    from edgebench.records import GrowthReport
    from edgebench.results.point_facts import PointFacts
    from edgebench.results.unmeasured import Unmeasured

#: How a container, and what runs elsewhere, is measured.
_HOW_TO = "docs/how-to/inside-a-container.md"


def unmeasured_parts(found: Unmeasured) -> Iterator[str]:
    """Each thing that the answer leaves out or rests on, and what to type."""
    if found.is_idle:
        yield f"it does next to nothing: does it start work elsewhere? measure there ({_HOW_TO})"
    if found.processes:
        processes = f"{found.processes} process{'es' * (found.processes > 1)}"
        names = joined_words(found.names)
        yield (
            f"{processes} outlived the command ({names}) and had to be ended: what follows is not "
            "in the answer, --for 20s measures it too"
        )
    if found.left_bytes:
        size = brief_size(found.left_bytes)
        yield f"{size} of shared memory stay when it has ended (`ls -l /dev/shm`, `ipcs -m`)"


def unmeasured_notes(points: Iterable[PointFacts]) -> list[str]:
    """A line for each workload and each thing that its trials leave open."""
    lines: dict[str, None] = {}
    for one in points:
        if found := one.unmeasured:
            grows = [growth_words(found.growth)] if found.growth else []
            told = (*grows, *unmeasured_parts(found))
            lines |= dict.fromkeys(f"{one.workload}: {words}" for words in told)
    return [*lines]


def program_need_words(name: str, need: Need | None, found: Unmeasured) -> str:
    """``train.py needs 412.0 MiB``; where trials can't tell that, what it used and why."""
    if found.growth:
        held = brief_size(need.total_bytes if need else found.growth.end_bytes)
        return f"{name} held {held} and is {growth_words(found.growth)}"
    return f"{name} needs {need_words(need)}" if need else f"{name}: its need is unknown"


def growth_words(growth: GrowthReport, limit_bytes: float | None = None) -> str:
    """``still growing by 52 MiB/min after 20 s: no need can be told; 1 GiB is reached after …``."""
    per_minute = growth.bytes_per_s * 60 / MIB
    pace = f"{per_minute:,.0f}" if per_minute >= 10 else f"{per_minute:.2g}"
    lasted = format_duration(growth.lasted_s or 0.0)
    words = f"still growing by {pace} MiB/min after {lasted}: no need can be told"
    if limit_bytes is None or growth.lasted_s is None:
        return words
    left_bytes = max(0.0, limit_bytes - growth.end_bytes)
    after_s = growth.lasted_s + left_bytes / growth.bytes_per_s
    about = f"{after_s / 60:.0f} minutes" if after_s < 7200 else f"{after_s / 3600:.0f} hours"
    about = f"{after_s:.0f} s" if after_s < 90 else about
    return f"{words}; {brief_size(limit_bytes)} is reached after about {about}"
