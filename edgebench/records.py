"""The record of one trial: its one schema, from which reading, columns and docs are derived.

``docs/reference/results.md`` is the contract for its keys. Any value may be ``None``: it could not
be measured. Then ``missing`` says why. Keys may be added; a number is never rounded; the unit is
in the key. The types say what a value may be: :mod:`edgebench.results.trial_lines` decodes a line
with them.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, convert, field, to_builtins

from edgebench.record_parts import (
    LARGEST,
    LIMIT_WORDS,
    WRITTEN,
    AcceleratorReport,
    Count,
    Doubt,
    EndedIn,
    FilesReport,
    GrowthReport,
    KillReport,
    LimitSetting,
    Number,
    OutsideReport,
    PhaseSum,
    Positive,
    Round,
    RoundCounts,
    SamplerReport,
    SignedCount,
    SignedNumber,
    StorageReport,
    SwapRamReport,
    Turn,
    WalkReport,
    Watching,
    WorkingSet,
    field_kinds,
    is_count,
    is_number,
)

__all__ = [
    "DEMAND",
    "FINAL_OUTCOMES",
    "LARGEST",
    "LIMIT_WORDS",
    "NOT_REACHED",
    "SCHEMA",
    "UP",
    "WITH_PEAK",
    "WRITTEN",
    "AcceleratorReport",
    "Count",
    "Direction",
    "Doubt",
    "EndedIn",
    "FilesReport",
    "GrowthReport",
    "KillReport",
    "LimitSetting",
    "Number",
    "Outcome",
    "OutsideReport",
    "PhaseSum",
    "Positive",
    "Round",
    "RoundCounts",
    "SamplerReport",
    "SignedCount",
    "SignedNumber",
    "StorageReport",
    "SwapRamReport",
    "TrialRecord",
    "Turn",
    "WalkReport",
    "Watching",
    "WorkingSet",
    "field_kinds",
    "is_count",
    "is_number",
]

#: Version of the results folder and of every file in it.
SCHEMA = 1

Outcome = Literal[
    "ok", "oom-killed", "accelerator-oom", "timeout", "failed", "harness-error", "interrupted"
]
#: Outcomes that are results: such a trial is not run again.
FINAL_OUTCOMES: tuple[Outcome, ...] = ("ok", "oom-killed", "accelerator-oom", "timeout", "failed")
#: From where a walk came to a limit.
Direction = Literal["down", "up"]
UP: Direction = "up"
#: In ``missing``: why a walk has no working set.
NOT_REACHED = "it is seen in a round at a walk's end, which this walk did not come to"
#: Settings of a point: what runs in the background of its trials, outside their cgroups.
BACKGROUND, INTERVALS = "background_bytes", "system_intervals_s"
#: Fields that only a trial without a limit of memory has, and why not stands in ``missing``.
DEMAND = ("demand_bytes", "undroppable_bytes", "library_bytes")
#: How ``demand_source`` ends where the demand has what was missed between samples.
WITH_PEAK = " and peak"


class TrialRecord(Struct, frozen=True, gc=False):
    """One line of ``trials.jsonl``. A record with a ``strategy`` is of a separate, untimed trial.

    Counters are None where the kernel doesn't report them.

    Args:
        schema: version of the record.
        trial: id within the sweep, from ``0001``.
        point: id of its point.
        block: which repeat of all points, from 0.
        repeat: which repeat of this point, from 0.
        settings: the workload's settings, ``kind`` among them; of ``advise`` also ``remedy`` and
            ``env``.
        limits: the requested limits.
        outcome: ``ok``, ``oom-killed``, ``accelerator-oom``, ``timeout``, ``failed``,
            ``harness-error``, ``interrupted``.
        started_utc: when it began.
        strategy: memory strategy of a separate trial. None: a timed trial.
        machine: which machine of a fleet made it. None: no fleet.
        direction: of a walk, ``down`` or ``up``. None: no walk, or no limit.
        reason: why it did not end ``ok``, with phase and layer. None: it did.
        ended_in: what it was doing when its limit ended it. None: no limit did, or no events.
        exit_code: of the workload's first process. None: a signal ended it.
        signal: what ended that process. None: it exited.
        wall_s: from the process's start to its end. None: never started.
        cpu_s: CPU time of all processes in the cgroup.
        user_s, system_s: of it, outside and inside the kernel, which swaps.
        harness_s: the harness's own time for this trial, outside ``wall_s``.
        limit_bytes: the memory limit as the kernel rounded it. None: unlimited.
        peak_bytes: high-water mark of the cgroup, page cache included.
        peak_source: ``kernel`` or ``sampled``.
        saturated: usage reached the limit, so the peak is not the demand.
        sampled_peak_bytes: highest sampled usage.
        swap_peak_bytes: most swap used. None: no swap accounting.
        other_swap_bytes: by how much other swap areas grew meanwhile. None: no swap of its own.
        demand_bytes: what it needs without a limit, without libraries. None: limited, or not
            ``ok``.
        demand_source: what that was computed from; with ``mapped_file`` it contains libraries that
            the trial was charged for.
        undroppable_bytes: the part of the demand that only swap can hold. None: no demand.
        library_bytes: most pages of code that its processes had mapped, whoever was charged. None:
            limited, not ``ok``, or too short to be looked at.
        base_bytes: usage after the runtime's import. None: no phase ``import``.
        gnu_time_maxrss_bytes: GNU time's largest resident set of one process. None: GNU time was
            killed too.
        gnu_time: all that GNU time reported.
        major_faults: page faults that read from disk or swap.
        minor_faults: other page faults.
        swapped_in_bytes, swapped_out_bytes: read from swap, written to it.
        refault_anon, refault_file: pages that were read again soon after they were evicted.
        io_read_bytes, io_write_bytes: read from block devices, written to them.
        oom_kills: processes of the cgroup that the kernel killed for lack of memory.
        killed_with_swap_free: at least half of its swap was free at the kill. None: no kill, or
            unknown.
        limit_hits: how often usage reached the limit.
        collections_s: time of long garbage collections within rounds. None: no events.
        throughput_per_s: rate that a command prints, or tokens of decoding. None: not asked for, or
            not found.
        page_cache: ``cold`` (weights evicted before each round) or ``warm``. None: no weights.
        sampler: the sampler. None: it never started.
        watched: how it was watched. None: an older record; ``memory.stat`` was read every 10 ms.
        kill: memory and swap at the first kill. None: no kill at the trial's own limit.
        outside: what it left behind. None: no command or function.
        growth: whether its memory still grew when it was stopped. None: it was not stopped, or
            limited.
        storage: how disks were held to a speed. None: as they are.
        files: the files that a program used. None: no program, or none seen.
        swap_ram: RAM that its swap took in zram or zswap. None: swap on a disk, or no limit.
        walk: of which walk this is a limit. None: the limit did not move.
        working_set: pages that steady rounds use. None: no walk, or not its first record.
        accelerator: its memory, and copies. None: it computed on the processor.
        phases: each phase's sum.
        round_counts: what each round read and wrote; none of a round that was cut.
        round_sources: where the kernel has each number of ``round_counts``.
        notes: of the worker: versions, threads, a digest of each output, and more.
        noise: what disturbed the machine: steal, other programs' CPU use, throttling.
        doubts: why its numbers may be wrong, beside ``noise``.
        missing: key → why it is null.
    """

    trial: str
    point: str
    block: Turn
    repeat: Turn
    settings: dict[str, Any]
    limits: LimitSetting
    outcome: Outcome
    started_utc: str
    schema: Annotated[int, Meta(ge=1, le=SCHEMA)] = SCHEMA
    strategy: str | None = None
    machine: str | None = None
    direction: Direction | None = None
    reason: str | None = None
    ended_in: EndedIn | None = None
    exit_code: SignedCount | None = None
    signal: Count | None = None
    wall_s: Number | None = None
    cpu_s: Number | None = None
    user_s: Number | None = None
    system_s: Number | None = None
    harness_s: Number | None = None
    limit_bytes: Positive | None = None
    peak_bytes: Count | None = None
    peak_source: str | None = None
    saturated: bool | None = None
    sampled_peak_bytes: Count | None = None
    swap_peak_bytes: Count | None = None
    other_swap_bytes: Count | None = None
    demand_bytes: Count | None = None
    demand_source: str | None = None
    undroppable_bytes: Count | None = None
    library_bytes: Count | None = None
    base_bytes: Count | None = None
    gnu_time_maxrss_bytes: Count | None = None
    gnu_time: dict[str, Any] = field(default_factory=dict)
    major_faults: Count | None = None
    minor_faults: Count | None = None
    swapped_in_bytes: Count | None = None
    swapped_out_bytes: Count | None = None
    refault_anon: Count | None = None
    refault_file: Count | None = None
    io_read_bytes: Count | None = None
    io_write_bytes: Count | None = None
    oom_kills: Count | None = None
    killed_with_swap_free: bool | None = None
    limit_hits: Count | None = None
    collections_s: Number | None = None
    throughput_per_s: Number | None = None
    page_cache: str | None = None
    sampler: SamplerReport | None = None
    watched: Watching | None = None
    kill: KillReport | None = None
    outside: OutsideReport | None = None
    growth: GrowthReport | None = None
    storage: StorageReport | None = None
    files: FilesReport | None = None
    swap_ram: SwapRamReport | None = None
    walk: WalkReport | None = None
    working_set: WorkingSet | None = None
    accelerator: AcceleratorReport | None = None
    phases: list[PhaseSum] = field(default_factory=list)
    round_counts: list[RoundCounts] = field(default_factory=list)
    round_sources: dict[str, str] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)
    noise: dict[str, Any] = field(default_factory=dict)
    doubts: list[Doubt] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)

    @property
    def broken_limits(self) -> list[Doubt]:
        """Which of its limits did not hold."""
        return [doubt for doubt in self.doubts if doubt.kind == "limit_changed"]

    def to_json(self) -> dict[str, Any]:
        """Plain data for ``json.dumps``."""
        made: dict[str, Any] = to_builtins(self)
        return made

    def __repr__(self) -> str:
        """Which trial it is, and its main numbers; all fields: ``to_json()``."""
        keys = "outcome", "wall_s", "limit_bytes", "peak_bytes", "demand_bytes"
        return f"<TrialRecord {self.trial}: {', '.join(f'{k}={getattr(self, k)!r}' for k in keys)}>"

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> TrialRecord:
        """Return the record of :meth:`to_json`; keys this version does not know are left out.

        Raises:
            msgspec.ValidationError: a value that is not possible.
        """
        return convert(data, cls)
