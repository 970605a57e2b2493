"""Which trial is under way, and where it can be watched: ``live.json`` in a sweep's folder.

The harness puts it there when a trial starts and takes it away when the sweep ends; it is no
result. It points at files in the harness's scratch folder that grow while the trial runs: the
sampler's raw rows and the worker's events. Who reads it trusts none of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from edgebench.errors import ResultsError
from edgebench.records.records import LimitSetting
from edgebench.records.shapes import is_count, is_number, is_whole_limit
from edgebench.results.layout import LIVE, read_json

#: Names in the scratch folder: the sampler's two tables, the worker's events.
FAST, STAT, EVENTS = "fast.i64", "stat.i64", "events.jsonl"
_SCRATCH = re.compile(r"edgebench-[0-9a-f]{12}")
_COLUMN = re.compile(r"[a-z0-9_]{1,40}")


@dataclass(frozen=True)
class Signpost:
    """The trial under way. ``started_ns`` is ``CLOCK_MONOTONIC``, of the boot ``boot_id``.

    ``folder`` is the scratch folder; ``fast_columns`` and ``stat_columns`` name the int64 columns
    of its tables, in which -1 is "not told".
    """

    trial: str
    point: str
    block: int
    repeat: int
    settings: dict[str, Any]
    limits: LimitSetting
    strategy: str | None
    timeout_s: float | None
    started_utc: str
    started_ns: int
    boot_id: str
    folder: str
    interval_s: float
    fast_columns: tuple[str, ...]
    stat_columns: tuple[str, ...]

    def file(self, name: str) -> Path:
        """One of the growing files."""
        return Path(self.folder, name)


def read_signpost(sweep: Path) -> Signpost | None:
    """The trial under way in a sweep's folder; None if there is none or it isn't on this machine.

    What is no signpost, or points anywhere but at a scratch folder, is none.
    """
    try:
        post = _signpost(read_json(Path(sweep) / LIVE))
    except (ResultsError, KeyError, TypeError, ValueError):
        return None
    return post if post.boot_id == boot_id() else None


def boot_id() -> str:
    """Which boot of which machine this is; empty where the kernel doesn't tell."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _signpost(data: Mapping[str, Any]) -> Signpost:
    known = {one.name: data[one.name] for one in fields(Signpost)}
    known["limits"] = _limits(known["limits"])
    for name in ("fast_columns", "stat_columns"):
        known[name] = _columns(known[name])
    texts = ("trial", "point", "started_utc", "boot_id", "folder")
    counts = ("block", "repeat", "started_ns")
    whole = (
        all(isinstance(known[name], str) for name in texts)
        and all(is_count(known[name]) for name in counts)
        and isinstance(known["settings"], dict)
        and isinstance(known["strategy"], str | None)
        and is_number(known["interval_s"])
        and (known["timeout_s"] is None or is_number(known["timeout_s"]))
        and _SCRATCH.fullmatch(Path(known["folder"]).name)
    )
    if not whole:
        raise ValueError("no signpost")
    return Signpost(**known)


def _limits(data: Mapping[str, Any]) -> LimitSetting:
    limits = LimitSetting(**{one.name: data[one.name] for one in fields(LimitSetting)})
    if not is_whole_limit(limits):
        raise ValueError("no limits")
    return limits


def _columns(names: Sequence[Any]) -> tuple[str, ...]:
    if not names or not all(isinstance(n, str) and _COLUMN.fullmatch(n) for n in names):
        raise ValueError("no columns")
    return tuple(names)
