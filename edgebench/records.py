"""The record of one trial: its one schema, from which reading, columns and docs are derived.

``docs/reference/results.md`` is the contract for its keys, made from the classes' docstrings. Any
value may be ``None``: it could not be measured. Then ``missing`` says why. Keys may be added; a
number is never rounded; the unit is in the key. The types say what a value may be:
:mod:`edgebench.results.layout` decodes a line with them.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, convert, field, to_builtins

from edgebench.text import AS_IS

#: What fits a column of 64 bits.
LARGEST = 2**63 - 1

Count = Annotated[int, Meta(ge=0, le=LARGEST)]
#: A column of the table of trials that goes through floating point, which is exact so far.
Turn = Annotated[int, Meta(ge=0, le=2**53)]
Positive = Annotated[int, Meta(ge=1, le=LARGEST)]
SignedCount = Annotated[int, Meta(ge=-LARGEST, le=LARGEST)]
#: The bound is just outside what fits 64 bits.
Number = Annotated[float, Meta(ge=0, lt=2.0**63)]
SignedNumber = Annotated[float, Meta(gt=-(2.0**63), lt=2.0**63)]


def is_count(value: object) -> bool:
    """Tell whether it is an int of 64 bits; a bool is none."""
    return type(value) is int and -LARGEST <= value <= LARGEST


def is_number(value: object) -> bool:
    """Tell whether it is a finite number of 64 bits."""
    if isinstance(value, float):
        return math.isfinite(value) and -LARGEST <= value <= LARGEST
    return is_count(value)


class LimitSetting(Struct, frozen=True, gc=False):
    """The limits a point asks for, before and after they were resolved.

    Args:
        label: as the scenario wrote it: ``max``, ``75%``, ``150M``.
        memory_bytes: the limit. None: ``max``.
        swap_kind: ``none``, ``file``, ``zram`` or ``system``.
        swap_bytes: most swap it may use. None: not limited.
        cores: how many cores it may run on. None: all.
        cpu_quota: CPU time a second, in cores. None: not limited.
        storage: ``as-is``, or the speeds that disks are held to, as ``read=90MB/s,disk=ram``.
        board: the board that is emulated. None: none.
        accelerator_bytes: most accelerator memory for torch's allocator. None: not limited.
        memory_high: where the kernel begins to throttle, as the scenario wrote it. None: nowhere.
        memory_high_bytes: the same in bytes.
    """

    label: str = "max"
    memory_bytes: Positive | None = None
    swap_kind: str = "none"
    swap_bytes: Count | None = None
    cores: Positive | None = None
    cpu_quota: Annotated[float, Meta(gt=0, lt=2.0**63)] | None = None
    storage: str = AS_IS
    board: str | None = None
    accelerator_bytes: Positive | None = None
    memory_high: str | None = None
    memory_high_bytes: Positive | None = None


#: Limits of memory that may be a share of demand: the bytes → the limit as the scenario wrote it.
WRITTEN = {"memory_bytes": "label", "memory_high_bytes": "memory_high"}
LIMIT_WORDS = {"cores": "{:g} cores", "cpu_quota": "{:g} CPUs", "memory_high": "high {}"}


class PhaseSum(Struct, frozen=True, gc=False):
    """One phase of one network in one round: the sum over its layers' spans.

    Args:
        round: from 0; -1 before the first round (``import``, ``init``).
        network: None: the phase belongs to no network.
        phase: as the glossary has them; ``prefill``, ``decode`` of text generation; ``round``: a
            whole round in elapsed time.
        wall_s: busy time, summed; above the elapsed time where layers overlap.
        cpu_s: of the whole process meanwhile; overlapping layers count it twice.
        peak_bytes: the kernel's highest peak in it. None: the kernel can't reset its mark.
        major_faults: of the whole process meanwhile.
        passes: how often each layer ran: one warm execution takes ``wall_s / passes``.
    """

    round: Annotated[int, Meta(ge=-1, le=LARGEST)]
    network: str | None
    phase: str
    wall_s: Number
    cpu_s: Number | None = None
    peak_bytes: Count | None = None
    major_faults: Count | None = None
    passes: Positive = 1


class RoundCounts(Struct, frozen=True, gc=False):
    """What one round read and wrote, counted at its borders by what flushes no statistics.

    Args:
        round: its number, as in ``phases``.
        in_bytes: read from disks and swap by its process. None: the kernel has no ``/proc/PID/io``.
        swap_in_bytes: of it, from swap. None: swap and files share a disk, and other swap is in
            use.
        file_in_bytes: of it, from files. None: one of the two above is.
        out_bytes: written to swap by the end of the round. None: as ``swap_in_bytes``.
        major_faults: of its process.
    """

    round: Count
    in_bytes: Count | None = None
    swap_in_bytes: Count | None = None
    file_in_bytes: Count | None = None
    out_bytes: Count | None = None
    major_faults: Count | None = None


class SamplerReport(Struct, frozen=True, gc=False):
    """The sampler's interval as requested and as achieved, and its cost.

    Args:
        interval_s: requested.
        achieved_s: median while usage changed. None: fewer than two samples.
        largest_gap_s: longest time without a sample.
        samples: how many.
        cpu_s: CPU time of the sampler.
        rss_bytes: the sampler's own memory, outside the limit.
    """

    interval_s: Number
    achieved_s: Number | None
    largest_gap_s: Number | None
    samples: Count
    cpu_s: Number | None
    rss_bytes: Count | None


class Watching(Struct, frozen=True, gc=False):
    """How a trial was watched while it ran.

    Args:
        usage_interval_s: between readings of usage and swap while they change.
        stat_interval_s: between readings of ``memory.stat``. None: not read.
        slow_interval_s: between readings of the other files of the table ``stat``.
        files: the cgroup's files that the sampler read.
        flushes: whether one of them makes the kernel flush its statistics.
        marks_reset_at_boundaries: whether the workload reset the kernel's high-water mark between
            phases.
        quiet_interval_s, quiet_slow_interval_s: at most, while usage and swap stay the same. None:
            as often as else.
    """

    usage_interval_s: Number
    stat_interval_s: Number | None
    slow_interval_s: Number
    files: list[str]
    flushes: bool
    marks_reset_at_boundaries: bool
    quiet_interval_s: Number | None = None
    quiet_slow_interval_s: Number | None = None


class KillReport(Struct, frozen=True, gc=False):
    """Swap and the kernel's page lists at the first kill at the trial's own limit.

    Args:
        logged_s: when, by the kernel's log (seconds since boot). None: not in the log, or it can't
            be read.
        swap_allowed_bytes: swap that the trial might use: its limit, at most the system's.
        swap_free_bytes: how much of it was free: the lesser of the next two.
        group_swap_free_bytes: free below its own limit of swap. None: it had none.
        system_swap_free_bytes: free in the system's swap: the lesser of before and after, minus
            what the trial used.
        active_anon_bytes, inactive_anon_bytes, active_file_bytes, inactive_file_bytes: the kernel's
            page lists, from its log.
        unevictable_bytes: likewise, locked memory included.
        swapcached_bytes: likewise; in memory, with a copy in swap.
    """

    logged_s: Number | None = None
    swap_allowed_bytes: Count | None = None
    swap_free_bytes: Count | None = None
    group_swap_free_bytes: Count | None = None
    system_swap_free_bytes: Count | None = None
    active_anon_bytes: Count | None = None
    inactive_anon_bytes: Count | None = None
    active_file_bytes: Count | None = None
    inactive_file_bytes: Count | None = None
    unevictable_bytes: Count | None = None
    swapcached_bytes: Count | None = None


class StorageReport(Struct, frozen=True, gc=False):
    """The storage that a trial had, where it was held to a declared speed, or in memory.

    Args:
        read_bps, write_bps, read_iops, write_iops: bytes and requests a second, read back from the
            kernel. None: not held.
        ram: whether swap and weights were on a disk in memory.
        disks: each disk's ``number``, ``name``, ``place`` (a path on it), ``read_ahead_kb``,
            ``requests``, ``scheduler``, ``rotational``.
        proof: what each disk did before the first such trial, by ``direction`` and ``pattern``:
            ``own`` and ``held``, each with ``bps`` and ``iops``.
        not_held: what the declared speed does not hold here → why.
    """

    read_bps: Count | None = None
    write_bps: Count | None = None
    read_iops: Count | None = None
    write_iops: Count | None = None
    ram: bool = False
    disks: list[dict[str, Any]] = field(default_factory=list)
    proof: list[dict[str, Any]] = field(default_factory=list)
    not_held: dict[str, str] = field(default_factory=dict)


class FilesReport(Struct, frozen=True, gc=False):
    """The files of a program that it was seen to map or read, and that it does not write alone.

    Args:
        paths: those of 1 MiB or more, the largest first; evicted before the next trial.
        kept_bytes: stayed in the page cache all the same: another program has it mapped or locked.
        warm_bytes: in the page cache at the end, charged to another cgroup. None: only root and the
            owner may see it, or a look took too long.
        elsewhere_bytes: mapped, used, and charged to another cgroup: needed beside
            ``demand_bytes``. None: under a limit.
        late_bytes: mapped after the last sample, by GNU time's largest resident set; in
            ``demand_bytes``.
        reread_bytes: of files not mapped that are read again and again, by calls; in
            ``demand_bytes``.
    """

    paths: list[str] = field(default_factory=list)
    kept_bytes: Count = 0
    warm_bytes: Count | None = None
    elsewhere_bytes: Count | None = None
    late_bytes: Count = 0
    reread_bytes: Count = 0


class SwapRamReport(Struct, frozen=True, gc=False):
    """RAM that a trial's swap took in zram: no cgroup is charged for it.

    Args:
        kind: ``zram``; older versions: ``zswap``, too.
        peak_bytes: most RAM that it took.
        limit_least_bytes: the limit as it was lowered for it. None: it was not.
        ran_out: whether the harness ended the trial because both did not fit.
        not_charged: why the limit was left alone. None: it was lowered.
        doubt: what is not known of it. None: nothing.
    """

    kind: str
    peak_bytes: Count = 0
    limit_least_bytes: Count | None = None
    ran_out: bool = False
    not_charged: str | None = None
    doubt: str | None = None


class WalkReport(Struct, frozen=True, gc=False):
    """Where in a walk this was measured: a trial whose limit was moved while it lived.

    Args:
        walk: the trial that was walked.
        step: which of its limits, in order; 0 is the first, unlimited.
        round_s: seconds of every round at this limit.
        reference_s: a steady round without a limit at that time, interpolated between the unlimited
            visits around it. None: not both were there.
    """

    walk: str
    step: Count
    round_s: list[Number] = field(default_factory=list)
    reference_s: Number | None = None


class WorkingSet(Struct, frozen=True, gc=False):
    """What of a cgroup's memory a steady round needs, bytes. Below it, rounds read memory again.

    Args:
        anonymous_bytes: anonymous pages that the round touched and that outlived it.
        file_bytes: pages of mapped files that it touched, mapped weights among them, as far as the
            cgroup is charged for them.
        kernel_bytes: the kernel's own memory, page tables among it.
        passing_bytes: what the round held at its peak and gave back before its end.
        cached_bytes: no part of the sum: pages of other files.
    """

    anonymous_bytes: Count
    file_bytes: Count
    kernel_bytes: Count
    passing_bytes: Count
    cached_bytes: Count

    @property
    def total_bytes(self) -> int:
        """All that must be in memory."""
        return self.anonymous_bytes + self.file_bytes + self.kernel_bytes + self.passing_bytes


class AcceleratorReport(Struct, frozen=True, gc=False):
    """An accelerator's memory, and what was copied to it and back.

    Args:
        name: as the scenario has it: ``cuda``.
        title: its driver's name of it. None: the trial ended before.
        total_bytes: all of its memory, by the driver. None: as ``title``.
        limit_bytes: what torch's allocator was held to. None: it was not.
        allocated_bytes, reserved_bytes: in tensors, and taken from the driver by torch's allocator,
            when the trial ended.
        peak_allocated_bytes, peak_reserved_bytes: the most of each.
        process_peak_bytes: the most that the trial's processes held, by NVML or nvmap, context and
            libraries included.
        process_readings: of how many readings.
        retries: how often the allocator gave back what it kept and tried again.
        ooms: how often it had no memory to give.
        to_bytes, to_s, from_bytes, from_s: copied to it and back, and the seconds of that on its
            clock.
        phases: allocated, reserved and both peaks of each phase.
        system: the whole machine's ``ram``, ``cma``, ``nvmap``, before it and at their peak.
        missing: what could not be measured → why.
    """

    name: str
    title: str | None = None
    total_bytes: Count | None = None
    limit_bytes: Positive | None = None
    allocated_bytes: Count | None = None
    reserved_bytes: Count | None = None
    peak_allocated_bytes: Count | None = None
    peak_reserved_bytes: Count | None = None
    process_peak_bytes: Count | None = None
    process_readings: Count | None = None
    retries: Count | None = None
    ooms: Count | None = None
    to_bytes: Count | None = None
    to_s: Number | None = None
    from_bytes: Count | None = None
    from_s: Number | None = None
    phases: list[dict[str, Any]] = field(default_factory=list)
    system: dict[str, Any] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)


class Doubt(Struct, frozen=True, gc=False):
    """What puts numbers in doubt; :mod:`edgebench.answers.trials` has the line of each kind.

    Args:
        kind: what it is.
        numbers: name → value, units in the names; a ``…share`` is a part of 1.
        names: causes, or other swap areas.
        trial, workload, limit: whose numbers. In a trial's record, that trial's.
    """

    kind: str
    numbers: dict[str, SignedNumber] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    trial: str | None = None
    workload: str | None = None
    limit: str | None = None


class EndedIn(Struct, frozen=True, gc=False):
    """What a trial was doing when its limit ended it.

    Args:
        phase: as its events name it: ``import``, ``load``.
        network: whose phase. None: the whole process's.
        layer: None: it was in none.
    """

    phase: str
    network: str | None = None
    layer: str | None = None


class OutsideReport(Struct, frozen=True, gc=False):
    """What a program left behind when its trial ended.

    Args:
        processes: how many still ran 0.1 s after the command's end; they were ended.
        names: their names.
        left_bytes: shared memory still charged to the trial when it had ended.
    """

    processes: Count = 0
    names: list[str] = field(default_factory=list)
    left_bytes: Count | None = None


class GrowthReport(Struct, frozen=True, gc=False):
    """Whether a program's memory still grew when its trial ended.

    Args:
        grows: whether it did.
        bytes_per_s: in the last two thirds of the time; 0.0: it did not.
        end_bytes: the most that it held at the end.
        level_s: when it became level, from its start. None: it grows.
        lasted_s: how long it was watched.
    """

    grows: bool
    bytes_per_s: Number
    end_bytes: Count
    level_s: Number | None = None
    lasted_s: Number | None = None


#: Version of the results folder and of every file in it.
SCHEMA = 1

Outcome = Literal[
    "ok", "oom-killed", "accelerator-oom", "timeout", "failed", "harness-error", "interrupted"
]
#: Outcomes that are results: such a trial is not run again.
FINAL_OUTCOMES: tuple[Outcome, ...] = ("ok", "oom-killed", "accelerator-oom", "timeout", "failed")
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

    Args:
        schema: version of the record.
        trial, point: ids within the sweep, of the trial (from ``0001``) and of its point.
        block, repeat: which repeat of all points, and of this one, from 0.
        settings: the workload's settings, ``kind`` among them; of ``advise`` also ``remedy`` and
            ``env``.
        limits: the requested limits.
        outcome: ``ok``, ``oom-killed``, ``accelerator-oom``, ``timeout``, ``failed``,
            ``harness-error``, ``interrupted``.
        started_utc: when it began.
        strategy: memory strategy of a separate trial. None: a timed trial.
        direction: of a walk, ``down`` or ``up``. None: no walk, or no limit.
        reason: why it did not end ``ok``. None: it did.
        ended_in: what it was doing when its limit ended it. None: no limit did, or no events.
        exit_code, signal: with which the workload's first process ended; the other is null.
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
        other_swap_bytes: how much other swap areas grew meanwhile. None: no swap of its own.
        demand_bytes: what it needs, without libraries. None: limited, or not ``ok``.
        demand_source: what that was computed from; with ``mapped_file`` it contains libraries that
            the trial was charged for.
        undroppable_bytes: the part of the demand that only swap can hold. None: no demand.
        library_bytes: most code that its processes had mapped, whoever was charged. None: limited,
            not ``ok``, or too short to be looked at.
        base_bytes: usage after the runtime's import. None: no phase ``import``.
        gnu_time_maxrss_bytes: GNU time's largest resident set of one process. None: GNU time was
            killed too.
        gnu_time: all that GNU time reported.
        major_faults, minor_faults: page faults that read from disk or swap, and others.
        swapped_in_bytes, swapped_out_bytes: read from swap, written to it.
        refault_anon, refault_file: pages that were read again soon after they were evicted.
        io_read_bytes, io_write_bytes: read from block devices, written to them.
        oom_kills: processes of the cgroup that the kernel killed for lack of memory.
        killed_with_swap_free: at least half of its swap was free then. None: no kill, or unknown.
        limit_hits: how often usage reached the limit.
        collections_s: time of long garbage collections within rounds. None: no events.
        throughput_per_s: rate that a command prints, or tokens of decoding. None: not asked for, or
            not found.
        page_cache: ``cold`` (weights evicted before each round) or ``warm``. None: no weights.
        sampler: the sampler. None: it never started.
        watched: how it was watched. None: an older record; ``memory.stat`` was read every 10 ms.
        kill: memory and swap at the first kill. None: no kill at the trial's own limit.
        outside: what it left behind. None: no command or function.
        growth: whether memory still grew when it was stopped. None: it was not stopped, or limited.
        storage: how disks were held to a speed. None: as they are.
        files: the files that a program used. None: no program, or none seen.
        swap_ram: RAM that its swap took in zram. None: swap on a disk, or no limit.
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
        """Return the record of :meth:`to_json`, without keys that this version does not know."""
        return convert(data, cls)
