"""Records of trials, sweeps of them and a worker's events that never were: numbers of any kind."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
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
    return [PhaseSum(number, None, "round", taken) for number, taken in enumerate(seconds)]


def counts(*reads_mib: float | None, **values: Any) -> list[RoundCounts]:
    """What rounds read, in MiB; None: not counted."""
    return [
        RoundCounts(number, None if read is None else int(read * MIB), **values)
        for number, read in enumerate(reads_mib)
    ]


def sweep(*records: TrialRecord, name: str = "made", **values: Any) -> Sweep:
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


class EventLog:
    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.t_ns = 10**12
        self._ids = 0

    def start(self, phase: str, **about: Any) -> int:
        self._ids += 1
        keys = {"round": None, "network": None, "layer": None, "name": None, "thread": 0}
        self.events.append(
            {"event": "start", "id": self._ids, "phase": phase, **keys, **about}
            | {"t_ns": self.t_ns, "usage_bytes": 5 * MIB, "swap_bytes": 0}
        )
        return self._ids

    def end(self, span: int, seconds: float, **counted: Any) -> None:
        self.t_ns += max(round(seconds * 1e9), 1)
        counters = {"peak_bytes": 9 * MIB, "cpu_ns": round(seconds * 1e9), "major_faults": 2}
        self.events.append(
            {"event": "end", "id": span, "t_ns": self.t_ns, "usage_bytes": 7 * MIB}
            | {"swap_bytes": 0, "minor_faults": 5, **counters, **counted}
        )

    def whole(self, phase: str, seconds: float, **about: Any) -> None:
        self.end(self.start(phase, **about), seconds)


def packed_samples(fast: np.ndarray, stat: np.ndarray) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, table in (("fast", fast), ("stat", stat)):
            member = io.BytesIO()
            np.save(member, table)
            archive.writestr(f"{name}.npy", member.getvalue())
    return target.getvalue()
