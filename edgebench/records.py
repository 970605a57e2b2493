"""The record of one trial: its one schema, from which reading, columns and docs are derived.

``docs/reference/results.md`` is the contract for its keys. Any value may be ``None``: it could not
be measured. Then ``missing`` says why. Keys may be added; a number is never rounded; the unit is
in the key. The types say what a value may be: :mod:`edgebench.results.trial_lines` decodes a line
with them.
"""

from __future__ import annotations

import math
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from msgspec import Meta, Struct, convert, field, structs, to_builtins

from edgebench.boards.storage import AS_IS

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
#: Fields that only a trial without a limit of memory has, and why not stands in ``missing``.
DEMAND = ("demand_bytes", "undroppable_bytes", "library_bytes")
#: What fits a column of 64 bits; no byte or nanosecond of a real machine is beyond.
LARGEST = 2**63 - 1

Count = Annotated[int, Meta(ge=0, le=LARGEST)]
#: A column of the table of trials that goes through floating point, which is exact so far.
Turn = Annotated[int, Meta(ge=0, le=2**53)]
Positive = Annotated[int, Meta(ge=1, le=LARGEST)]
SignedCount = Annotated[int, Meta(ge=-LARGEST, le=LARGEST)]
#: The bound is just outside what fits 64 bits.
Number = Annotated[float, Meta(ge=0, lt=2.0**63)]
SignedNumber = Annotated[float, Meta(gt=-(2.0**63), lt=2.0**63)]
#: A round's number; before the first it is -1.
Round = Annotated[int, Meta(ge=-1, le=LARGEST)]


def is_count(value: object) -> bool:
    """An int that fits 64 bits; bool is excluded."""
    return type(value) is int and -LARGEST <= value <= LARGEST


def is_number(value: object) -> bool:
    """A finite number of 64 bits."""
    if isinstance(value, float):
        return math.isfinite(value) and -LARGEST <= value <= LARGEST
    return is_count(value)


def field_kinds(struct: type[Struct]) -> dict[str, type]:
    """Each field's type without its bounds and None: ``int``, ``str``, ``list`` or a report."""
    return {one.name: _plain_kind(one.type) for one in structs.fields(struct)}


def _plain_kind(kind: Any) -> type:
    if get_origin(kind) in (Union, UnionType):
        kind = next(one for one in get_args(kind) if one is not type(None))
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    plain = get_origin(kind) or kind
    return str if plain is Literal else plain


class LimitSetting(Struct, frozen=True, gc=False):
    """The limits a point asks for, before and after they were resolved.

    ``label`` is as the scenario wrote it (``"75%"``, ``"150M"``, ``"max"``). ``memory_bytes``
    is None for ``max``. ``swap_kind`` is ``none``, ``file``, ``zram`` or ``system``. ``storage`` is
    ``as-is``, or the speeds that disks are held to, as ``read=90MB/s``; ``board`` what is emulated.
    ``accelerator_bytes`` is the most that torch may take of an accelerator's memory.
    ``memory_high`` is as written where the kernel throttles (``memory.high`` of version 2).
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
#: Limits that are told as they are, and their words in tables and figures.
LIMIT_WORDS = {"cores": "{:g} cores", "cpu_quota": "{:g} CPUs", "memory_high": "high {}"}


class PhaseSum(Struct, frozen=True, gc=False):
    """One phase of one network in one round: the sum over its layers' spans.

    ``wall_s`` adds up busy time; where a schedule overlaps spans it may exceed the clock's.
    ``peak_bytes`` is the largest kernel's peak of its spans. ``passes`` is how many times every
    layer ran in it: ``wall_s / passes`` is one warm execution.
    """

    round: Round
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
        in_bytes: all that its process read from disks and from swap; where swap and files share a
            disk, only this sum may be known.
        swap_in_bytes: of it, from swap.
        file_in_bytes: of it, from files.
        out_bytes: written to swap, by the end of the round.
        major_faults: of its process.
    """

    round: Count
    in_bytes: Count | None = None
    swap_in_bytes: Count | None = None
    file_in_bytes: Count | None = None
    out_bytes: Count | None = None
    major_faults: Count | None = None


class SamplerReport(Struct, frozen=True, gc=False):
    """The sampler's interval as requested, as achieved while usage changed, and its cost."""

    interval_s: Number
    achieved_s: Number | None
    largest_gap_s: Number | None
    samples: Count
    cpu_s: Number | None
    rss_bytes: Count | None


class Watching(Struct, frozen=True, gc=False):
    """How a trial was watched while it ran.

    Args:
        usage_interval_s: between two readings of usage and swap while they change.
        stat_interval_s, slow_interval_s: of ``memory.stat`` (None: not read), of other slow files.
        files: names of all files of its cgroup that the sampler read.
        flushes: whether one of them makes the kernel flush the statistics by which it reclaims.
        marks_reset_at_boundaries: whether the workload reset the kernel's mark between phases.
        quiet_interval_s, quiet_slow_interval_s: at most, while they stay the same; None: as often.
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
    """Swap and the kernel's page lists when it first killed a process at the trial's own limit.

    Args:
        logged_s: when, by the kernel's log (seconds since boot); None: the log has no line of it.
        swap_allowed_bytes: swap that the trial might use: its own limit's, at most the system's.
        swap_free_bytes: how much of it was left, the lesser of the next two.
        group_swap_free_bytes, system_swap_free_bytes: by its own limit (None: it had none); of all.
        active_anon_bytes to swapcached_bytes: the kernel's page lists and swap cache, from its log.
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
        read_bps, write_bps, read_iops, write_iops: as the kernel had them; None: not held.
        ram: whether swap and weights were on a disk in memory.
        disks: each disk that was held: its number, name and queue, and what was read there.
        proof: how each disk did, as it is and held, before the first such trial.
        not_held: what the declared speed does not hold here, and why.
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
        paths: the largest first; the harness evicts them from the page cache before the next trial.
        kept_bytes: how much of those known before the trial stayed in the page cache all the same:
            another program has them mapped or locked.
        warm_bytes: how much of them lay in the page cache at the trial's end and was charged to
            another cgroup, since it lay there before.
        elsewhere_bytes: how much of those that it mapped was used and charged elsewhere: a part of
            its need that no limit counted.
    """

    paths: list[str] = field(default_factory=list)
    kept_bytes: Count = 0
    warm_bytes: Count | None = None
    elsewhere_bytes: Count | None = None


class SwapRamReport(Struct, frozen=True, gc=False):
    """RAM that a trial's swap took, in zram or zswap: no cgroup is charged for it.

    Args:
        kind: ``zram`` or ``zswap``.
        peak_bytes: the most that it took.
        limit_least_bytes: how far the trial's limit was lowered for it; None: it was left alone.
        ran_out: whether both together stayed above the limit, so that the harness ended the trial
            as one of which the board's memory runs out.
        not_charged: why the limit was left alone; None: it was lowered.
        doubt: what is not known of the figure.
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
        walk: the trial that was walked; the records of all its limits have the same.
        step: which of its limits this is, in the order of visits; 0 is the first, unlimited.
        round_s: every round at this limit, in order, with those before they repeat.
        reference_s: the median steady round without a limit, as it was around this step: the
            unlimited steps before and after it, weighted by how near they are. None: there was
            none after it.
    """

    walk: str
    step: Count
    round_s: list[Number] = field(default_factory=list)
    reference_s: Number | None = None


class WorkingSet(Struct, frozen=True, gc=False):
    """What of a cgroup's memory a steady round needs, bytes. Below it, rounds read memory again.

    The working set is what a process referenced in its last interval (Denning, "The working set
    model for program behavior", CACM 11(5), 1968); the interval here is one round.

    Args:
        anonymous_bytes: anonymous pages that the round touched and that outlived it.
        file_bytes: pages of mapped files that the round touched, its mapped weights among them, as
            far as the cgroup is charged for them.
        kernel_bytes: the kernel's own memory, page tables among it.
        passing_bytes: what the round held at its peak, and gave back before its end.
        cached_bytes: no part of it: pages of other files. What of them is read by calls in each
            round comes from the disk again where there is no room for it.
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


class EnergyReport(Struct, frozen=True, gc=False):
    """Energy of a trial, in joules, of the domain that the record names in ``energy_domain``.

    Each ``…error_j`` is how far off the integration may be (see
    :mod:`edgebench.measures.machine.sensors.energy`); the sensor's own error is not in it.

    Args:
        j, error_j: the whole trial, from its process's start to its end.
        round_j, round_error_j: one steady round (the start, where only one was run): of training
            a step. The mean of them.
        execution_j, execution_error_j: one warm execution within those rounds; the mean of them.
        domains: the same of every domain that is told: its name as ``domain``, and the ``columns``
            of readings that are added up.
    """

    j: SignedNumber | None = None
    error_j: Number | None = None
    round_j: SignedNumber | None = None
    round_error_j: Number | None = None
    execution_j: SignedNumber | None = None
    execution_error_j: Number | None = None
    domains: list[dict[str, Any]] = field(default_factory=list)


class SensorReport(Struct, frozen=True, gc=False):
    """How the machine's sensors were read, and what they saw beside energy.

    Args:
        interval_s: between two readings; a sensor that takes long is read less often.
        readings: how many there were.
        cpu_s: what they cost the harness; None: the last one did not return.
        read: the columns that were read.
        absent: kind of sensor → why there is none, or why some are not read.
        lost: sensor → why it was not read to the end.
        throttled_s: cause → seconds for which something was slowed down. 0.0: for less than
            between two readings.
        throttle_events: cause → how often.
        temperature_max_c: the highest of all.
        clock_least_hz: the lowest of the cores.
    """

    interval_s: Number
    readings: Count
    cpu_s: Number | None = None
    read: list[str] = field(default_factory=list)
    absent: dict[str, str] = field(default_factory=dict)
    lost: dict[str, str] = field(default_factory=dict)
    throttled_s: dict[str, Any] = field(default_factory=dict)
    throttle_events: dict[str, Any] = field(default_factory=dict)
    temperature_max_c: SignedNumber | None = None
    clock_least_hz: Number | None = None


class AcceleratorReport(Struct, frozen=True, gc=False):
    """An accelerator's memory, and what was copied to it and back.

    Args:
        name: as the scenario has it: ``cuda``.
        title: what its driver calls it.
        total_bytes: all of its memory, as the driver tells it.
        limit_bytes: what torch's allocator was held to; None: it was not.
        allocated_bytes, reserved_bytes: in tensors, and taken from the driver, when the trial
            ended, by torch's allocator.
        peak_allocated_bytes, peak_reserved_bytes: the most of each.
        process_peak_bytes: the most that the trial's processes held of it, by its driver.
        process_readings: how many readings that is of.
        retries: how often the allocator gave back what it kept and tried again.
        ooms: how often it had no memory to give.
        to_bytes, to_s, from_bytes, from_s: what was copied to the accelerator and back, and the
            seconds that these copies took on its own clock.
        phases: the copies and peaks of each round's phases; keys as here, with ``round``,
            ``network`` and ``phase``.
        system: what the whole machine told meanwhile, by the figure's name: ``before_bytes``,
            ``peak_bytes`` and ``source``.
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
    """What puts numbers in doubt; :mod:`edgebench.words.doubts` has the sentence of each kind.

    Args:
        kind: what it is.
        numbers: name → value; the unit is in the name, a ``…share`` is a part of 1.
        names: what it is about beside numbers: causes, or other swap areas.
        trial, workload, limit: whose numbers. In a trial's record it is that trial.
    """

    kind: str
    numbers: dict[str, SignedNumber] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    trial: str | None = None
    workload: str | None = None
    limit: str | None = None


#: Kinds that mean that a limit did not hold for the trial.
BROKEN_LIMIT = ("left_cgroup", "cgroup_gone", "limit_changed", "limit_lifted")


class EndedIn(Struct, frozen=True, gc=False):
    """What a trial was doing when its limit ended it.

    Args:
        phase: as its events name it: ``import``, ``load``.
        network: whose phase; None: of the whole process.
        layer: the layer's name; None: it was in none, or its phase has none.
    """

    phase: str
    network: str | None = None
    layer: str | None = None


class LeftFile(Struct, frozen=True, gc=False):
    """What a trial left in memory when it had ended: a file of a tmpfs, or a shared segment.

    ``path`` is a file's, or ``segment N`` with the number that ``ipcrm -m`` takes.
    """

    path: str
    size_bytes: Count


class OutsideReport(Struct, frozen=True, gc=False):
    """Memory of a program that its trial does not measure, as it was seen from outside.

    Args:
        processes: how many processes outlived the command; they were ended with the trial.
        names: what they are called, each name once.
        left_bytes: shared memory that was still charged to the trial when it had ended.
        files: the largest of what holds it.
        grown_bytes: the most by which another cgroup grew meanwhile, in what its processes hold.
        grown_cgroup: which one did.
        grown_is_new: whether it was not there before the trial.
        escaped: whether a process of the trial left its cgroup.
        locked_bytes: the most that its processes had locked in memory (mlock).
    """

    processes: Count = 0
    names: list[str] = field(default_factory=list)
    left_bytes: Count | None = None
    files: list[LeftFile] = field(default_factory=list)
    grown_bytes: Count | None = None
    grown_cgroup: str | None = None
    grown_is_new: bool = False
    escaped: bool = False
    locked_bytes: Count | None = None


class GrowthReport(Struct, frozen=True, gc=False):
    """Whether a program's memory still grew when its trial ended.

    Args:
        grows: whether it did.
        bytes_per_s: how fast, in the last part of the trial; 0.0: it did not.
        end_bytes: the most that it held at the end.
        level_s: since when it had been level, in seconds from its start; None: it grows.
        lasted_s: how long it was watched.
    """

    grows: bool
    bytes_per_s: Number
    end_bytes: Count
    level_s: Number | None = None
    lasted_s: Number | None = None


class TrialRecord(Struct, frozen=True, gc=False):
    """One line of ``trials.jsonl``. With a ``strategy`` it is that one's own trial, not timed."""

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
    damon_paged_out_bytes: Count | None = None
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
    energy_domain: str | None = None
    energy: EnergyReport | None = None
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
    sensors: SensorReport | None = None
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
        return [doubt for doubt in self.doubts if doubt.kind in BROKEN_LIMIT]

    def to_json(self) -> dict[str, Any]:
        """Plain data for ``json.dumps``."""
        made: dict[str, Any] = to_builtins(self)
        return made

    def __repr__(self) -> str:
        """Which trial it is, and what it came to; all fields: ``to_json()``."""
        from edgebench.words.record import record_line

        return record_line(self)

    def _repr_html_(self) -> str:
        """As a notebook shows it."""
        from edgebench.words.record import record_html

        return record_html(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> TrialRecord:
        """The record of :meth:`to_json`; keys this version does not know are left out.

        Raises:
            msgspec.ValidationError: a value that is not possible.
        """
        return convert(data, cls)
