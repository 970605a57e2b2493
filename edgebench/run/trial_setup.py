"""What every trial of a sweep is measured with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from edgebench.cgroups.parent import ParentCgroup
from edgebench.identity import Identity
from edgebench.run.sensor_watch import SensorBank
from edgebench.run.storage import StorageControl
from edgebench.run.used_files import UsedFiles


@dataclass(frozen=True)
class TrialSetup:
    """What every trial of a sweep is measured with.

    ``interval_s`` is how often the sampler reads usage; None: every millisecond while it changes.
    ``stat_interval_s`` is how often ``memory.stat`` is read where it is; None: every 10 ms while
    usage changes. ``statistics_always`` has it read in timed trials under a memory limit too, which
    can prevent a kill.
    ``storage`` holds disks to the speed that a trial asks for. ``sensors`` are read meanwhile.
    ``files`` of programs are evicted before each trial; with ``starts_cold`` the first one is made
    again where it found them in the page cache, and those under a limit are not looked at.
    """

    parent: ParentCgroup
    gnu_time: Path
    storage: StorageControl
    identity: Identity | None = None
    interval_s: float | None = None
    stat_interval_s: float | None = None
    echo: Callable[[bytes], None] | None = None
    statistics_always: bool = False
    sensors: SensorBank | None = None
    starts_cold: bool = True
    files: UsedFiles = field(default_factory=UsedFiles)
