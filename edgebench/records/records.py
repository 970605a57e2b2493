"""What one trial leaves behind, as data. ``docs/results.md`` is the contract for the keys.

Any value may be ``None``: the kernel or the machine didn't tell. Then ``missing`` says why.
Keys may be added; a number is never rounded; the unit is in the key.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

#: Version of the results folder and of every file in it.
SCHEMA = 1

Outcome = Literal["ok", "oom-killed", "timeout", "failed", "harness-error", "interrupted"]
#: Outcomes that are results: such a trial is not run again.
FINAL_OUTCOMES: tuple[Outcome, ...] = ("ok", "oom-killed", "timeout", "failed")


@dataclass(frozen=True)
class LimitSetting:
    """The limits a point asks for, before and after they were resolved.

    ``label`` is as the scenario wrote it (``"75%"``, ``"150M"``, ``"max"``). ``memory_bytes``
    is None for ``max``. ``swap_kind`` is ``none``, ``file``, ``zram`` or ``system``.
    """

    label: str = "max"
    memory_bytes: int | None = None
    swap_kind: str = "none"
    swap_bytes: int | None = None
    cores: int | None = None
    cpu_quota: float | None = None


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
    """How well the sampler did: what was asked, what was achieved, what it cost."""

    interval_s: float
    achieved_s: float | None
    largest_gap_s: float | None
    samples: int
    cpu_s: float | None
    rss_bytes: int | None


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
    demand_bytes: int | None = None
    demand_source: str | None = None
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
    limit_hits: int | None = None
    page_cache: str | None = None
    sampler: SamplerReport | None = None
    phases: list[PhaseSum] = field(default_factory=list)
    notes: dict[str, Any] = field(default_factory=dict)
    noise: dict[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain data for ``json.dumps``."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> TrialRecord:
        """The record of :meth:`to_json`; keys this version does not know are left out."""
        data = _known(cls, data)
        data["limits"] = limit_setting(data["limits"])
        if data.get("sampler"):
            data["sampler"] = SamplerReport(**_known(SamplerReport, data["sampler"]))
        data["phases"] = [PhaseSum(**_known(PhaseSum, phase)) for phase in data.get("phases", [])]
        return cls(**data)


def limit_setting(data: dict[str, Any]) -> LimitSetting:
    """The limits of plain data; keys this version does not know are left out."""
    return LimitSetting(**_known(LimitSetting, data))


def _known(kind: Any, data: dict[str, Any]) -> dict[str, Any]:
    names = _NAMES[kind]
    return {key: value for key, value in data.items() if key in names}


_NAMES = {
    kind: frozenset(f.name for f in fields(kind))
    for kind in (TrialRecord, LimitSetting, PhaseSum, SamplerReport)
}
