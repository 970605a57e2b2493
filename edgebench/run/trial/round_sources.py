"""Where a trial's worker finds what its rounds read from swap and write to it, and why it can't.

Only what flushes no statistics is read (docs/explanation/observer-effect.md). All that a round
reads is in the process's own ``/proc/PID/io``, on versions 1 and 2 of cgroups alike; what of it is
swap depends on where the swap lies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec import structs

from edgebench.cgroups.swap import SwapState
from edgebench.measures.machine.disks import whole_disk
from edgebench.measures.machine.system_files import SystemFiles, UnreadableError
from edgebench.records import RoundCounts, TrialRecord
from edgebench.swap_areas import parse_swap_areas
from edgebench.workloads.recorder import ONLY_SWAP, SWAP_WRITES, VMSTAT

_OWN = "/proc/PID/io"
#: The keys of ``missing`` are those of the counts, with this before them.
_KEY = "round_{}"
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
        kind: how they are read, of :mod:`edgebench.workloads.recorder`.
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
        """Each finished round's, from the worker's events."""
        told = (event for event in events if event.get("event") == "counts")
        return [one for one in map(self._round, told) if one is not None]

    def _round(self, event: Mapping[str, Any]) -> RoundCounts | None:
        number = _count(event, "round")
        if number is None:
            return None
        read, out = _count(event, "in_bytes"), _count(event, "out_bytes")
        swap = _count(event, "swap_in_bytes")
        if not self.swaps:
            swap, out = 0, 0
        if read is not None and swap is not None and swap > read:
            # Others swapped in as well.
            swap = None
        files = None if read is None or swap is None else read - swap
        return RoundCounts(number, read, swap, files, out, _count(event, "major_faults"))

    def told_missing(self, counts: Iterable[RoundCounts]) -> dict[str, str]:
        """Return key → why some of these rounds lack it; empty where there are no rounds."""
        every = list(counts)
        if not every:
            return {}
        missing = dict(self.missing)
        if all(one.in_bytes is None for one in every):
            missing |= {"in_bytes": _NO_OWN, "file_in_bytes": _NO_OWN}
        if any(one.in_bytes is not None and one.swap_in_bytes is None for one in every):
            missing = dict.fromkeys(("swap_in_bytes", "file_in_bytes"), _MORE) | missing
        return {_KEY.format(name): why for name, why in missing.items()}


def without_others(record: TrialRecord, other_bytes: int | None) -> TrialRecord:
    """Return the record, its counts of swap left out where others swapped as well.

    Args:
        record: of a trial, or of one limit of a walk.
        other_bytes: by how much other swap areas grew while the trial ran.
    """
    if not other_bytes or _MACHINE not in record.round_sources.get("swap_in_bytes", ""):
        return record
    nothing: dict[str, Any] = dict.fromkeys(_SWAPPED)
    return structs.replace(
        record,
        round_counts=[structs.replace(one, **nothing) for one in record.round_counts],
        round_sources={k: v for k, v in record.round_sources.items() if k not in _SWAPPED},
        missing={**record.missing, **{_KEY.format(name): _OTHER_AREAS for name in _SWAPPED}},
    )


def round_sources(
    machine: SystemFiles, swap: SwapState, kind: str, ram_disk: Path | None
) -> RoundSources:
    """Where a trial's counts come from.

    Args:
        machine: its files.
        swap: what is on at the moment.
        kind: the trial's kind of swap.
        ram_disk: the folder of the disk in memory; None: there is none.
    """
    told = {"in_bytes": _OWN, "major_faults": "getrusage"}
    if kind == "none":
        return RoundSources(swaps=False, sources={**told, "file_in_bytes": _OWN})
    if swap.kind == "zram" and swap.device:
        stat = machine.root / f"sys/block/{swap.device.name}/stat"
        return _from(stat, ONLY_SWAP, told)
    own = swap.device if swap.kind == "file" else None
    if not _others(machine, own):
        return _from(machine.root / "proc/vmstat", VMSTAT, told)
    unknown = dict.fromkeys(("swap_in_bytes", "file_in_bytes"), _OTHER_AREAS)
    if own and ram_disk and ram_disk in own.parents:
        try:
            disk = whole_disk(machine, own)
        except UnreadableError as reason:
            return RoundSources(sources=told, missing={**unknown, "out_bytes": str(reason)})
        # Weights lie on it as well, and nothing writes to them.
        stat = machine.root / f"sys/block/{disk.name}/stat"
        return RoundSources(stat, SWAP_WRITES, True, {**told, "out_bytes": _name(stat)}, unknown)
    return RoundSources(sources=told, missing={**unknown, "out_bytes": _OTHER_AREAS})


def _others(machine: SystemFiles, own: Path | None) -> bool:
    """Whether there is an area beside the trial's own; of the machine's own all are the trial's."""
    try:
        areas = parse_swap_areas(machine.text("proc/swaps"))
    except (UnreadableError, ValueError):
        return True
    return own is not None and set(areas) != {own}


def _from(file: Path, kind: str, told: Mapping[str, str]) -> RoundSources:
    name = _name(file)
    more = {"swap_in_bytes": name, "file_in_bytes": f"{_OWN} - {name}", "out_bytes": name}
    return RoundSources(file, kind, True, {**told, **more})


def _name(file: Path) -> str:
    return f"{file}, {_MACHINE}" if file.name == "vmstat" else str(file)


def _count(event: Mapping[str, Any], key: str) -> int | None:
    value = event.get(key)
    return value if type(value) is int and 0 <= value < 2**63 else None
