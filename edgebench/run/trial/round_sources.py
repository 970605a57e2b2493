"""Where a trial's worker finds what its rounds read from swap and write to it, and why it can't.

Only what flushes no statistics is read (docs/explanation/observer-effect.md). All that a round
reads is in the process's own ``/proc/PID/io``, on versions 1 and 2 of cgroups alike; what of it is
swap depends on where the swap lies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgebench.cgroups.swap import SwapState
from edgebench.measures.machine.system_files import SystemFiles, UnreadableError
from edgebench.records import RoundCounts, is_count
from edgebench.swap_areas import parse_swap_areas
from edgebench.workloads.events import ONLY_SWAP, VMSTAT

_OWN = "/proc/PID/io"
_OTHER_AREAS = "other swap areas are on: the machine's counters don't tell whose pages they move"
#: The counts that the machine's counters give, and how these are named.
_SWAPPED, _MACHINE = ("swap_in_bytes", "file_in_bytes", "out_bytes"), "of the whole machine"
_MORE = "in some rounds the machine swapped in more than the process read: others did, too"
_NO_OWN = "this kernel has no /proc/PID/io"


@dataclass(frozen=True)
class RoundSources:
    """What the worker reads for swap, and what is told of it.

    Args:
        file: the statistics; None: there are none.
        kind: how they are read, of :mod:`edgebench.workloads.events`.
        swaps: whether there is swap at all; without, nothing is read from it.
        sources: count → where it is from.
        missing: count → why it can't be had.
    """

    file: Path | None = None
    kind: str = ""
    swaps: bool = True
    sources: Mapping[str, str] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)

    def counts(self, events: Iterable[Mapping[str, Any]]) -> list[RoundCounts]:
        """Return each finished round's counts, from the worker's events."""
        counts = []
        for event in events:
            if event.get("event") != "counts" or (number := _count(event, "round")) is None:
                continue
            read, out = _count(event, "in_bytes"), _count(event, "out_bytes")
            swap = _count(event, "swap_in_bytes")
            if not self.swaps:
                swap, out = 0, 0
            if read is not None and swap is not None and swap > read:
                # Others swapped in as well.
                swap = None
            files = None if read is None or swap is None else read - swap
            faults = _count(event, "major_faults")
            counts.append(RoundCounts(number, read, swap, files, out, faults))
        return counts

    def recorded(
        self, counts: Sequence[RoundCounts], other_swap_bytes: int | None
    ) -> RecordedRounds:
        """Return what a record has of these rounds; nothing where there are none.

        ``other_swap_bytes``: by how much other swap areas grew while the trial ran.
        """
        if not counts:
            return RecordedRounds()
        sources, missing = dict(self.sources), dict(self.missing)
        if all(one.in_bytes is None for one in counts):
            missing |= {"in_bytes": _NO_OWN, "file_in_bytes": _NO_OWN}
        if any(one.in_bytes is not None and one.swap_in_bytes is None for one in counts):
            missing = dict.fromkeys(("swap_in_bytes", "file_in_bytes"), _MORE) | missing
        others = bool(other_swap_bytes) and _MACHINE in sources.get("swap_in_bytes", "")
        if others:
            sources = {name: where for name, where in sources.items() if name not in _SWAPPED}
            missing |= dict.fromkeys(_SWAPPED, _OTHER_AREAS)
        reasons = {f"round_{name}": why for name, why in missing.items()}
        return RecordedRounds(sources, reasons, others)


@dataclass(frozen=True)
class RecordedRounds:
    """Where a record's counts come from, and why some are missing.

    ``others``: other programs swapped as well, so counts of swap are left out.
    """

    sources: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    others: bool = False

    def known(self, counts: Iterable[RoundCounts]) -> list[RoundCounts]:
        """Return the counts that are the trial's."""
        if not self.others:
            return list(counts)
        return [
            RoundCounts(one.round, in_bytes=one.in_bytes, major_faults=one.major_faults)
            for one in counts
        ]


def round_sources(machine: SystemFiles, swap: SwapState, kind: str) -> RoundSources:
    """Return where a trial's counts come from.

    Args:
        machine: its files.
        swap: what is on at the moment.
        kind: the trial's kind of swap.
    """
    sources = {"in_bytes": _OWN, "major_faults": "getrusage"}
    if kind == "none":
        return RoundSources(swaps=False, sources={**sources, "file_in_bytes": _OWN})
    if swap.kind == "zram" and swap.device:
        file, reading = machine.root / f"sys/block/{swap.device.name}/stat", ONLY_SWAP
        name = str(file)
    else:
        own = swap.device if swap.kind == "file" else None
        areas = None
        with suppress(UnreadableError, ValueError):
            areas = set(parse_swap_areas(machine.text("proc/swaps")))
        # Of the machine's own areas all are the trial's.
        if areas is None or (own is not None and areas != {own}):
            return RoundSources(sources=sources, missing=dict.fromkeys(_SWAPPED, _OTHER_AREAS))
        file, reading = machine.root / "proc/vmstat", VMSTAT
        name = f"{file}, {_MACHINE}"
    sources |= {"swap_in_bytes": name, "file_in_bytes": f"{_OWN} - {name}", "out_bytes": name}
    return RoundSources(file, reading, True, sources)


def _count(event: Mapping[str, Any], key: str) -> int | None:
    value: Any = event.get(key)
    return value if is_count(value) and value >= 0 else None
