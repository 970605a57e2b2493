"""``live.json`` in a sweep's folder: the trial that runs now, and where its growing files are.

The harness writes it when a trial starts and removes it when the sweep ends; it is no result. It
names the harness's scratch folder, in which the sampler's raw rows and the worker's events grow.
Readers check every value, since anyone could have written the file.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import Annotated, Any

import msgspec

from edgebench.errors import ResultsError, UnsafePathError
from edgebench.records import Count, LimitSetting, Number
from edgebench.results.layout import LIVE, json_bytes, read_json
from edgebench.safe_files import remove_file, write
from edgebench.safe_reading import open_to_read

#: Names in the scratch folder: the sampler's two tables, the worker's events.
FAST, STAT, EVENTS = "fast.i64", "stat.i64", "events.jsonl"
_SCRATCH = re.compile(r"edgebench-[0-9a-f]{12}")
_Columns = Annotated[
    tuple[Annotated[str, msgspec.Meta(pattern="^[a-z0-9_]{1,40}$")], ...],
    msgspec.Meta(min_length=1),
]


class LiveTrial(msgspec.Struct, frozen=True):
    """The trial that runs now. ``started_ns`` is ``CLOCK_MONOTONIC``, of the boot ``boot_id``.

    ``folder`` is the scratch folder; ``fast_columns`` and ``stat_columns`` name the int64 columns
    of its tables, in which -1 means "not available".
    """

    trial: str
    point: str
    block: Count
    repeat: Count
    settings: dict[str, Any]
    limits: LimitSetting
    strategy: str | None
    timeout_s: Number | None
    started_utc: str
    started_ns: Count
    boot_id: str
    folder: str
    interval_s: Number
    fast_columns: _Columns
    stat_columns: _Columns

    def file(self, name: str) -> Path:
        """One of the growing files."""
        return Path(self.folder, name)


def write_live_trial(path: Path, live: LiveTrial) -> None:
    """Write the trial that starts to ``live.json``; if the disk is full, there is none."""
    # Neither synced nor renamed: it is no result, and half a file is ignored.
    with contextlib.suppress(OSError, UnsafePathError):
        write(path, json_bytes(msgspec.to_builtins(live)))


def remove_live_trial(path: Path) -> None:
    """Remove ``live.json``: no trial runs any more."""
    with contextlib.suppress(OSError, UnsafePathError):
        remove_file(path)


def read_live_trial(sweep: Path) -> LiveTrial | None:
    """Return the trial that runs now in a sweep's folder; None: none, or on another machine.

    None also if a value is not what it should be, or ``folder`` is not a scratch folder.
    """
    try:
        live = msgspec.convert(read_json(Path(sweep) / LIVE), LiveTrial)
    except (ResultsError, msgspec.ValidationError):
        return None
    sound = _SCRATCH.fullmatch(Path(live.folder).name)
    return live if sound and live.boot_id == boot_id() else None


def read_from(path: Path, start: int, most: int) -> bytes:
    """At most so many bytes of a growing file; none if it can't be read."""
    try:
        with open_to_read(path, links=False) as file:
            return os.pread(file.fileno(), most, start)
    except OSError:
        return b""


def boot_id() -> str:
    """Return identifies this boot of this machine; empty where the kernel has no such file."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(errors="replace").strip()
    except OSError:
        return ""
