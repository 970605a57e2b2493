"""The record of one trial. ``docs/reference/results.md`` is the contract for its keys.

Any value may be ``None``: it could not be measured. Then ``missing`` says why.
Keys may be added; a number is never rounded; the unit is in the key.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal

from edgebench.accelerator_report import AcceleratorReport
from edgebench.boards.storage import AS_IS, StorageReport
from edgebench.sensor_report import EnergyReport, SensorReport
from edgebench.walk_report import Direction, WalkReport
from edgebench.working_set import WorkingSet

#: Version of the results folder and of every file in it.
SCHEMA = 1

Outcome = Literal[
    "ok", "oom-killed", "accelerator-oom", "timeout", "failed", "harness-error", "interrupted"
]
#: Outcomes that are results: such a trial is not run again.
FINAL_OUTCOMES: tuple[Outcome, ...] = ("ok", "oom-killed", "accelerator-oom", "timeout", "failed")
#: In ``missing``: which of its limits did not hold for a trial, as a sentence.
CONFINEMENT = "confinement"
#: Fields that only a trial without a limit of memory has, and why not stands in ``missing``.
DEMAND = ("demand_bytes", "library_bytes")
#: What fits a column of 64 bits; no byte or nanosecond of a real machine is beyond.
LARGEST = 2**63 - 1


def is_count(value: object) -> bool:
    """A whole number of 64 bits, which a truth is not."""
    return type(value) is int and -LARGEST <= value <= LARGEST


def is_number(value: object) -> bool:
    """A finite number of 64 bits."""
    if isinstance(value, float):
        return math.isfinite(value) and -LARGEST <= value <= LARGEST
    return is_count(value)


@dataclass(frozen=True)
class LimitSetting:
    """The limits a point asks for, before and after they were resolved.

    ``label`` is as the scenario wrote it (``"75%"``, ``"150M"``, ``"max"``). ``memory_bytes``
    is None for ``max``. ``swap_kind`` is ``none``, ``file``, ``zram`` or ``system``. ``storage`` is
    ``as-is``, or the speeds that disks are held to, as ``read=90MB/s``; ``board`` what is emulated.
    ``accelerator_bytes`` is the most that torch may take of an accelerator's memory.
    ``memory_high`` is as written where the kernel throttles (``memory.high`` of version 2).
    """

    label: str = "max"
    memory_bytes: int | None = None
    swap_kind: str = "none"
    swap_bytes: int | None = None
    cores: int | None = None
    cpu_quota: float | None = None
    storage: str = AS_IS
    board: str | None = None
    accelerator_bytes: int | None = None
    memory_high: str | None = None
    memory_high_bytes: int | None = None


#: Limits of memory that may be a share of demand: the bytes → the limit as the scenario wrote it.
WRITTEN = {"memory_bytes": "label", "memory_high_bytes": "memory_high"}
#: Limits that are told as they are, and their words in tables and figures.
LIMIT_WORDS = {"cores": "{:g} cores", "cpu_quota": "{:g} CPUs", "memory_high": "high {}"}


@dataclass(frozen=True)
class PhaseSum:
    """One phase of one network in one round: the sum over its layers' spans.

    ``wall_s`` adds up busy time; where a schedule overlaps spans it may exceed the clock's.
    ``peak_bytes`` is the largest kernel's peak of its spans. ``passes`` is how many times every
    layer ran in it: ``wall_s / passes`` is one warm execution.
    """

    round: int
    network: str | None
    phase: str
    wall_s: float
    cpu_s: float | None = None
    peak_bytes: int | None = None
    major_faults: int | None = None
    passes: int = 1


@dataclass(frozen=True)
class SamplerReport:
    """The sampler's interval as requested, as achieved while usage changed, and its cost."""

    interval_s: float
    achieved_s: float | None
    largest_gap_s: float | None
    samples: int
    cpu_s: float | None
    rss_bytes: int | None


@dataclass(frozen=True)
class Watching:
    """How a trial was watched while it ran.

    Args:
        usage_interval_s: between two readings of usage and swap while they change.
        stat_interval_s, slow_interval_s: of ``memory.stat`` (None: not read), of other slow files.
        files: names of all files of its cgroup that the sampler read.
        flushes: whether one of them makes the kernel flush the statistics by which it reclaims.
        marks_reset_at_boundaries: whether the workload reset the kernel's mark between phases.
        quiet_interval_s, quiet_slow_interval_s: at most, while they stay the same; None: as often.
    """

    usage_interval_s: float
    stat_interval_s: float | None
    slow_interval_s: float
    files: list[str]
    flushes: bool
    marks_reset_at_boundaries: bool
    quiet_interval_s: float | None = None
    quiet_slow_interval_s: float | None = None


@dataclass(frozen=True)
class KillReport:
    """Swap and the kernel's page lists when it first killed a process at the trial's own limit.

    Args:
        logged_s: when, by the kernel's log (seconds since boot); None: the log has no line of it.
        swap_allowed_bytes: swap that the trial might use: its own limit's, at most the system's.
        swap_free_bytes: how much of it was left, the lesser of the next two.
        group_swap_free_bytes, system_swap_free_bytes: by its own limit (None: it had none); of all.
        active_anon_bytes to swapcached_bytes: the kernel's page lists and swap cache, from its log.
    """

    logged_s: float | None = None
    swap_allowed_bytes: int | None = None
    swap_free_bytes: int | None = None
    group_swap_free_bytes: int | None = None
    system_swap_free_bytes: int | None = None
    active_anon_bytes: int | None = None
    inactive_anon_bytes: int | None = None
    active_file_bytes: int | None = None
    inactive_file_bytes: int | None = None
    unevictable_bytes: int | None = None
    swapcached_bytes: int | None = None


@dataclass(frozen=True)
class TrialRecord:
    """One line of ``trials.jsonl``. With a ``strategy`` it is that one's own trial, not timed."""

    trial: str
    point: str
    block: int
    repeat: int
    settings: dict[str, Any]
    limits: LimitSetting
    outcome: Outcome
    started_utc: str
    schema: int = SCHEMA
    strategy: str | None = None
    machine: str | None = None
    direction: Direction | None = None
    reason: str | None = None
    exit_code: int | None = None
    signal: int | None = None
    wall_s: float | None = None
    cpu_s: float | None = None
    user_s: float | None = None
    system_s: float | None = None
    harness_s: float | None = None
    limit_bytes: int | None = None
    peak_bytes: int | None = None
    peak_source: str | None = None
    saturated: bool | None = None
    sampled_peak_bytes: int | None = None
    swap_peak_bytes: int | None = None
    other_swap_bytes: int | None = None
    demand_bytes: int | None = None
    demand_source: str | None = None
    library_bytes: int | None = None
    base_bytes: int | None = None
    gnu_time_maxrss_bytes: int | None = None
    gnu_time: dict[str, Any] = field(default_factory=dict)
    major_faults: int | None = None
    minor_faults: int | None = None
    swapped_in_bytes: int | None = None
    swapped_out_bytes: int | None = None
    refault_anon: int | None = None
    refault_file: int | None = None
    io_read_bytes: int | None = None
    io_write_bytes: int | None = None
    oom_kills: int | None = None
    killed_with_swap_free: bool | None = None
    limit_hits: int | None = None
    collections_s: float | None = None
    throughput_per_s: float | None = None
    energy_domain: str | None = None
    energy: EnergyReport | None = None
    page_cache: str | None = None
    sampler: SamplerReport | None = None
    watched: Watching | None = None
    kill: KillReport | None = None
    storage: StorageReport | None = None
    walk: WalkReport | None = None
    working_set: WorkingSet | None = None
    sensors: SensorReport | None = None
    accelerator: AcceleratorReport | None = None
    phases: list[PhaseSum] = field(default_factory=list)
    notes: dict[str, Any] = field(default_factory=dict)
    noise: dict[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain data for ``json.dumps``; of a training's many phases no deep copy."""
        return asdict(replace(self, phases=[])) | {"phases": [{**vars(p)} for p in self.phases]}

    def __repr__(self) -> str:
        """Which trial it is, and what it came to; its fields are in ``vars(record)``."""
        from edgebench.words.record import record_line

        return record_line(self)

    def _repr_html_(self) -> str:
        """As a notebook shows it."""
        from edgebench.words.record import record_html

        return record_html(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> TrialRecord:
        """The record of :meth:`to_json`; keys this version does not know are left out."""
        data = _known(cls, data)
        data["limits"] = limit_setting(data["limits"])
        for name, kind in _REPORTS.items():
            if data.get(name) is not None:
                data[name] = kind(**_known(kind, data[name]))
        data["phases"] = [PhaseSum(**_known(PhaseSum, phase)) for phase in data.get("phases", [])]
        return cls(**data)


def limit_setting(data: dict[str, Any]) -> LimitSetting:
    """The limits of plain data; keys this version does not know are left out."""
    return LimitSetting(**_known(LimitSetting, data))


def _known(kind: Any, data: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in data.items() if key in _NAMES[kind]}


_REPORTS: dict[str, Any] = {"sampler": SamplerReport, "watched": Watching, "kill": KillReport}
_REPORTS |= {"storage": StorageReport, "walk": WalkReport, "working_set": WorkingSet}
_REPORTS |= {"energy": EnergyReport, "sensors": SensorReport, "accelerator": AcceleratorReport}
_KINDS: tuple[Any, ...] = (TrialRecord, LimitSetting, PhaseSum, *_REPORTS.values())
_NAMES = {kind: frozenset(f.name for f in fields(kind)) for kind in _KINDS}
