"""The harness's half of a signpost: put up when a trial starts, taken down when the sweep ends."""

from __future__ import annotations

import contextlib
import time
from dataclasses import asdict
from pathlib import Path

from edgebench.cgroups.identity import created_as_owner
from edgebench.cgroups.sampling import FAST_COLUMNS, SamplerProcess
from edgebench.results.layout import json_bytes
from edgebench.results.signpost import Signpost, boot_id
from edgebench.trial.recording import TrialRequest, utc_now


def announce(path: Path, request: TrialRequest, sampler: SamplerProcess, work: Path) -> None:
    """Show the trial that starts at ``path``; a disk that is full costs the view, not the trial."""
    post = Signpost(
        trial=request.trial,
        point=request.point,
        block=request.block,
        repeat=request.repeat,
        settings=dict(request.settings),
        limits=request.limits,
        strategy=request.strategy,
        timeout_s=request.timeout_s,
        started_utc=utc_now(),
        started_ns=time.monotonic_ns(),
        boot_id=boot_id(),
        folder=str(work),
        interval_s=sampler.interval_s,
        fast_columns=FAST_COLUMNS,
        stat_columns=sampler.stat_columns,
    )
    # Not synced and not renamed: nothing in it is a result, and half of it is no signpost.
    with contextlib.suppress(OSError), created_as_owner(path) as file:
        file.write(json_bytes(asdict(post)))


def withdraw(path: Path) -> None:
    """No trial is under way any more."""
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)
