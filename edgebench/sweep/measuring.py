"""One trial of any command, without a scenario or a results folder."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from edgebench.cgroups.identity import created_as_owner
from edgebench.errors import MachineError
from edgebench.records.records import LimitSetting, TrialRecord
from edgebench.trial.recording import TrialRequest
from edgebench.trial.trial import TrialFiles, run_trial
from edgebench.workshop.workshop import open_workshop


def measure_command(
    command: Sequence[str],
    limits: LimitSetting,
    *,
    timeout_s: float | None = None,
    interval_s: float = 0.001,
    samples: Path | None = None,
    echo: Callable[[bytes], None] | None = None,
) -> TrialRecord:
    """Run the command once in a fresh cgroup under the limits.

    Args:
        command: the program and its arguments; no shell is involved.
        limits: memory, swap and CPU limits.
        timeout_s: kill it after so many seconds.
        interval_s: the sampler's interval.
        samples: keep the samples in this ``.npz`` file.
        echo: called with what the command prints, as it comes.

    Raises:
        MachineError: no such command, no GNU time, no swap.
        CgroupError: no cgroup can be made here, or its limits don't hold.
    """
    if shutil.which(command[0]) is None:
        raise MachineError(
            f"no command {command[0]!r} on this machine",
            remedy="check its spelling, or give its full path",
        )
    if samples and not samples.parent.is_dir():
        raise MachineError(f"no folder {samples.parent} to keep the samples in")
    with open_workshop(interval_s=interval_s, echo=echo) as workshop:
        workshop.swap.use(limits.swap_kind, limits.swap_bytes)
        files = TrialFiles(
            samples=workshop.folder / "samples.npz",
            events=workshop.folder / "events.jsonl.gz",
            log=workshop.folder / "log",
            work=workshop.folder,
        )
        settings = {"kind": "command", "command": list(command)}
        request = TrialRequest("0000", "measure", 0, 0, settings, limits, timeout_s)
        record = run_trial(workshop.apparatus, request, files)
        if samples:
            with files.samples.open("rb") as made, created_as_owner(samples) as kept:
                shutil.copyfileobj(made, kept)
        return record
