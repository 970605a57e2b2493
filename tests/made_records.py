"""Records of trials, and sweeps of them, that were never run: numbers of any kind, no files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from edgebench.records import LimitSetting, PhaseSum, RoundCounts, TrialRecord
from edgebench.results.sweep_reader import Sweep

MIB = 1 << 20
#: What most made records ran.
NETWORK: dict[str, Any] = {
    "kind": "inference",
    "networks": ["lenet"],
    "schedule": "bulk",
    "loader": "copy",
    "batch": 1,
}


def record(limit_mib: float | None = None, *round_s: float, **values: Any) -> TrialRecord:
    """A trial without a limit, or below one of so many MiB, whose rounds took these seconds."""
    limit = None if limit_mib is None else int(limit_mib * MIB)
    label = "max" if limit_mib is None else f"{limit_mib:g}M"
    about: dict[str, Any] = {
        "trial": "0001",
        "point": label,
        "block": 0,
        "repeat": 0,
        "settings": NETWORK,
        "limits": LimitSetting(label, limit, "file", 512 * MIB),
        "outcome": "ok",
        "started_utc": "2026-01-02T03:04:05.678+00:00",
        "limit_bytes": limit,
        "phases": rounds(*round_s),
    }
    return TrialRecord(**{**about, **values})


def rounds(*seconds: float) -> list[PhaseSum]:
    """Whole rounds that took so long."""
    return [PhaseSum(number, None, "round", taken) for number, taken in enumerate(seconds)]


def counts(*reads_mib: float | None, **values: Any) -> list[RoundCounts]:
    """What rounds read, in MiB; None: not counted."""
    return [
        RoundCounts(number, None if read is None else int(read * MIB), **values)
        for number, read in enumerate(reads_mib)
    ]


def sweep(*records: TrialRecord, name: str = "made", **values: Any) -> Sweep:
    """A finished sweep of these trials, numbered in their order."""
    numbered = [replace(one, trial=f"{at:04d}") for at, one in enumerate(records, start=1)]
    about: dict[str, Any] = {
        "path": Path("/results/board") / name,
        "device": "board",
        "records": numbered,
        "resolved": {},
        "environment": {},
        "networks": {},
        "scenario_text": "",
        "complete": {},
        "running": False,
    }
    return Sweep(**{**about, **values})


def repeats(limit_mib: float | None, seconds: Iterable[float], **values: Any) -> list[TrialRecord]:
    """A trial of each of these steady seconds; each starts with a round of 9 s."""
    return [record(limit_mib, 9.0, steady_s, **values) for steady_s in seconds]
