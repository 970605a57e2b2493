"""One trial, from a fresh cgroup to a record.

The order is what makes the figures mean something: the cgroup is made and limited, the
sampler watches it from outside, and only then does a helper join it and become GNU time,
which starts the workload (see docs/decisions for why each step stands where it does).
"""

from __future__ import annotations

import gzip
import os
import time
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from edgebench.cgroups.demand import MapsWatch
from edgebench.cgroups.interface import MEMORY_SIZES, Cgroup, HotFiles, Limits
from edgebench.cgroups.join import environment_block, join_command
from edgebench.cgroups.process_files import FilesWatch
from edgebench.cgroups.sampler_process import STAT_INTERVAL_S, SamplerProcess
from edgebench.errors import EdgebenchError
from edgebench.layers.names import COPY
from edgebench.measures.growth import judge_growth
from edgebench.measures.machine.noise import NoiseWatch
from edgebench.measures.strategies.gnu_time import (
    GnuTime,
    gnu_time_command,
    read_report,
    report_file,
)
from edgebench.processes import SYSTEM_ENVIRONMENT, in_memory
from edgebench.records import Doubt, LimitSetting, TrialRecord, Watching
from edgebench.results.live_file import EVENTS, write_live_trial
from edgebench.run.trial.background import background_activity
from edgebench.run.trial.launch import (
    check_start,
    environment_of,
    launch,
    open_descriptors,
    open_input,
    readable_files,
    run_reset,
    worker_settings,
)
from edgebench.run.trial.limit_control import ROOM, LimitAtBase, LimitControl
from edgebench.run.trial.outcome import KillWatch
from edgebench.run.trial.output_rate import OutputRate
from edgebench.run.trial.process import ProcessEnd, WorkloadProcess
from edgebench.run.trial.record import (
    Measured,
    TrialRequest,
    faulty_record,
    live_trial_of,
    record_of,
    utc_now,
)
from edgebench.run.trial.round_sources import RoundSources, round_sources
from edgebench.run.trial.session import TrialSetup
from edgebench.run.trial.storage import HeldStorage, StoragePlaces
from edgebench.run.trial.strategy_trial import StrategyTrial
from edgebench.run.trial.used_files import PROGRAMS, is_warm
from edgebench.run.trial.watch import TrialWatch
from edgebench.safe_files import created, make_folder, write
from edgebench.spans import first_round_end_ns
from edgebench.workloads.engines.engine import WHOLE

if TYPE_CHECKING:
    from edgebench.run.walk.control import WalkControl

#: Far above what a runtime's threads need; a fork bomb ends there, not with the machine.
MOST_PIDS = 4096


@dataclass(frozen=True)
class TrialFiles:
    """Where a trial's files go. ``work`` is a scratch folder that only the harness can write to.

    ``reading`` is for the figures of a strategy whose own trial it is.
    ``live`` is where the trial is shown while it is under way.
    """

    samples: Path
    events: Path
    log: Path
    work: Path
    reading: Path | None = None
    live: Path | None = None

    @classmethod
    def scratch(cls, folder: Path) -> TrialFiles:
        """Those of a trial whose files are not kept."""
        return cls(folder / "samples.npz", folder / "events.gz", folder / "log", folder)


def run_trial(setup: TrialSetup, request: TrialRequest, files: TrialFiles) -> TrialRecord:
    """Make one trial and its record, as :func:`run_trials` does; of a walk, its first record."""
    return run_trials(setup, request, files)[0]


def run_trials(setup: TrialSetup, request: TrialRequest, files: TrialFiles) -> list[TrialRecord]:
    """Make one trial and its record; its samples, events and log are written on the way.

    A walk has a record, and a file of events, of each limit that it visited; the trial's own is the
    first. A program whose files lay in the page cache is run again without a limit, with them
    evicted.

    A killed, timed-out or failed workload is a result, not an exception. A trial that can't be made
    is tried once more, and is then ``harness-error``. A strategy's own trial is made as the others
    are, but for how the strategy starts the workload.

    Raises:
        CgroupError: the cgroup could not be made or limited, or a disk not held as declared.
        MachineError: the trial's storage lies on no disk that could be held, or a file or folder
            that the workload needs is gone.
        WorkloadError: the workload's kind is unknown, or the command before it failed.
    """
    with suppress(Exception):
        return _warm_and_cold(setup, request, files)
    try:
        return _warm_and_cold(setup, request, files)
    except (EdgebenchError, OSError):
        # Of the machine.
        raise
    except Exception as error:
        return [faulty_record(request, error)]


def _warm_and_cold(
    setup: TrialSetup, request: TrialRequest, files: TrialFiles
) -> list[TrialRecord]:
    records = _recorded_trials(setup, request, files)
    if (seen := records[0].files) is None:
        return records
    setup.files.add(seen.paths)
    if setup.starts_cold and is_warm(records[0], setup.files.evict()):
        # With its files evicted, as every trial from now on.
        records = _recorded_trials(setup, request, files)
    return records


def _recorded_trials(
    setup: TrialSetup, request: TrialRequest, files: TrialFiles
) -> list[TrialRecord]:
    """Return the trial in a cgroup of its own, and its records."""
    began = time.monotonic()
    started_utc = utc_now()
    folder = files.work / f"{request.trial}-own"
    observer = StrategyTrial.requested(request, folder, files.reading)
    run_reset(request.settings, setup.identity)
    places = StoragePlaces.of(request.settings, request.weights)
    held = setup.storage.hold(request.limits.storage, places)
    cgroup = setup.parent.create(f"{os.getpid()}-{request.trial}")
    watch = TrialWatch(setup, request, cgroup)
    try:
        with background_activity(request.settings, request.trial) as surroundings:
            parts = setup, request, files, cgroup, observer, held, watch
            measured = _Measurement(*parts).make()
    finally:
        cgroup.remove()
    record = record_of(request, measured, started_utc, time.monotonic() - began)
    record = structs.replace(record, notes={**record.notes, **surroundings})
    if measured.walk and request.walk:
        from edgebench.run.walk.records import walk_records

        walked = walk_records(record, measured.walk, request.walk, files.events)
        return watch.told_of_walk(walked, measured)
    record = watch.told(record, measured)
    return [observer.read(record, measured.events, setup.identity) if observer else record]


@dataclass(frozen=True)
class _Measurement:
    """One trial's measurement in its cgroup."""

    setup: TrialSetup
    request: TrialRequest
    files: TrialFiles
    cgroup: Cgroup
    observer: StrategyTrial | None
    held: HeldStorage
    watch: TrialWatch

    @cached_property
    def rounds(self) -> RoundSources:
        """Where the worker finds what its rounds swap."""
        storage, kind = self.setup.storage, self.request.limits.swap_kind
        return round_sources(storage.machine, storage.swap.state, kind, storage.ram_disk.folder)

    def make(self) -> Measured:
        """Set the limits, measure the workload from outside, keep its samples, events and log."""
        setup, request, files, cgroup = self.setup, self.request, self.files, self.cgroup
        applied = self._limit()
        sampler, hot, unread = self._sampler(applied)
        rate = OutputRate(request.settings.get("throughput_pattern"))
        copy = files.work / EVENTS if files.live else None
        process = WorkloadProcess(rate.beside(setup.echo), copy)
        noise, kills, control = NoiseWatch(), KillWatch(), self._control(process)
        limited, is_program = self._is_limited(applied), request.settings["kind"] in PROGRAMS
        # One trial of a program on an emulated board: are its libraries too much for that?
        sizes_board = is_program and request.limits.board is not None and not setup.starts_cold
        looked = request.strategy is None and (not limited or sizes_board)
        maps = MapsWatch(cgroup, wanted=looked, is_limited=limited)
        looks = is_program and request.strategy is None and not (limited and setup.starts_cold)
        used = FilesWatch(cgroup, wanted=looks)
        sampler.start()
        try:
            if files.live:
                write_live_trial(files.live, live_trial_of(request, sampler, files.work))
            noise.start()
            with used:
                ended, report = self._run(hot, process, control, maps, noise, used)
            counters = cgroup.read()
        finally:
            sampler_report = sampler.stop()
            process.close()
            kills.stop(cgroup.path.name)
        swap_bytes = 0 if request.limits.swap_kind == "none" else applied.swap_bytes
        events, bad_events = process.event_list()
        # A program loads its network once; further rounds load it anew, beside what was kept.
        is_whole = request.settings.get("schedule") == WHOLE
        until_ns = first_round_end_ns(events) if is_whole else None
        resident = _most_resident(used, report)
        samples = sampler.summary(maps.looks, until_ns, counters, resident)
        per_second, why_no_rate = rate.per_second(ended.wall_s, process.output_text())
        growth = None
        if ended.stopped and is_program and request.strategy is None and not limited:
            growth = judge_growth(*sampler.held_between(*ended.window_ns))
        told = cgroup.path.name, swap_bytes, counters.oom_kills, samples.swap_peak_bytes
        kill, unlogged = kills.report(*told)
        charge = self.watch.charge
        # A limit that moves is read back at each move.
        broken = [] if control or charge.moves else self._changed_limits(applied)
        applied = control.applied(applied) if control else applied
        self._keep(sampler, process)
        return Measured(
            *(applied, ended, events, bad_events, counters, report, sampler_report, samples),
            noise=noise.stop(counters.cpu_ns / 1e9 if counters.cpu_ns is not None else None),
            output_tail=process.output_text()[-2000:],
            watched=self._watching(sampler),
            kill=kill,
            library_bytes=maps.library_bytes,
            files=setup.files.report(
                used,
                counters,
                elsewhere_bytes=maps.elsewhere_bytes,
                library_bytes=maps.library_bytes,
                gnu_time=report,
                samples=samples,
            ),
            throughput_per_s=per_second,
            why_no_rate=why_no_rate,
            storage=self.held.report,
            walk=self._walk(control),
            missing=cgroup.missing() | unread | unlogged | maps.reasons() | setup.files.missing,
            dropped_events=process.events.dropped_lines,
            broken_limits=broken,
            ran_out=charge.ran_out,
            growth=growth,
            ceiling_bytes=self.setup.parent.ceiling_bytes,
            rounds=self.rounds,
        )

    def _control(self, process: WorkloadProcess) -> LimitControl | None:
        """Return what moves the limit while the worker lives, if anything does."""
        request, room = self.request, self.request.settings.get(ROOM)
        swap_bytes = _limits_of(request.limits).swap_bytes
        if request.walk is not None:
            from edgebench.run.walk.control import WalkControl

            maps = request.settings.get("loader") not in (None, COPY)
            parts = self.cgroup, request.walk, swap_bytes, process, self.rounds
            return WalkControl(*parts, maps_weights=maps)
        return None if room is None else LimitAtBase(self.cgroup, room, swap_bytes)

    def _walk(self, control: LimitControl | None) -> WalkControl | None:
        """Return what moved the limit of a walk; None: this is none."""
        if self.request.walk is None:
            return None
        from edgebench.run.walk.control import WalkControl

        return control if isinstance(control, WalkControl) else None

    def _limit(self) -> Limits:
        """Set the limits and hold the disks; as the kernel has them."""
        pids = MOST_PIDS if "pids" in self.setup.parent.bases else None
        asked = replace(_limits_of(self.request.limits), pids=pids, disks=self.held.limits)
        return self.cgroup.set_limits(asked)

    def _sampler(self, applied: Limits) -> tuple[SamplerProcess, HotFiles, dict[str, str]]:
        """Return the sampler, what it and the worker read, and why samples are missing."""
        setup, request = self.setup, self.request
        limited = self._is_limited(applied)
        timed = request.strategy is None and not setup.statistics_always
        hot, unread = readable_files(self.cgroup.hot_files(), flushing=not (limited and timed))
        # Where reading it can prevent a kill, it is read as often all the time.
        stat_s = setup.stat_interval_s or (STAT_INTERVAL_S if limited and hot.stat else None)
        return SamplerProcess(hot, self.files.work, setup.interval_s, stat_s), hot, unread

    def _changed_limits(self, applied: Limits) -> list[Doubt]:
        """Compare memory's limits with those that were set: the cgroup's owner can change them."""
        now, changed = self.cgroup.read_limits(applied), []
        for name in (*MEMORY_SIZES, "swap_bytes"):
            sizes = {"from_bytes": getattr(applied, name), "to_bytes": getattr(now, name)}
            if sizes["from_bytes"] != sizes["to_bytes"]:
                known = {key: float(size) for key, size in sizes.items() if size is not None}
                changed.append(Doubt("limit_changed", known, [name.removesuffix("_bytes")]))
        return changed

    def _is_limited(self, applied: Limits) -> bool:
        """Whether a limit of memory is set, or will be while it runs."""
        request = self.request
        return bool(applied.lowest_bytes is not None or request.walk or ROOM in request.settings)

    def _run(
        self,
        hot: HotFiles,
        process: WorkloadProcess,
        control: LimitControl | None,
        maps: MapsWatch,
        noise: NoiseWatch,
        used: FilesWatch,
    ) -> tuple[ProcessEnd, GnuTime | None]:
        request, identity = self.request, self.setup.identity
        report = self.files.work / f"{request.trial}.gnu-time"
        worker_fd = control.worker_fd if control else None

        outside, stop_after_s = self.watch.outside, request.settings.get("stop_after_s")

        def look(pid: int) -> None:
            maps.look()
            noise.look()
            used.see_all(pid)
            outside.command = pid

        def end() -> None:
            # Who is waited for is measured.
            if not stop_after_s:
                outside.look_at_end()
            self.cgroup.kill()

        ours = process.events.write_fd, process.records.fd
        kind = request.settings["kind"]
        opened = open_descriptors(kind, hot, self.rounds, *ours, worker_fd)
        with (
            report_file(report, identity) as report_fd,
            self.watch,
            control or nullcontext(),
            opened as (descriptors, fds),
        ):
            settings = worker_settings(request)
            if settings.get("node_times"):
                settings["profile_folder"] = str(self.files.work / f"{request.trial}-profile")
                make_folder(Path(settings["profile_folder"]), exist_ok=True)
            start = launch(settings, descriptors)
            check_start(start)
            if kind in PROGRAMS:
                self.setup.files.add_named(request.settings)
                self.setup.files.add([start.stdin] if start.stdin else [])
                self.setup.files.evict()
            if self.observer:
                start = self.observer.wrap(start)
            timed = gnu_time_command(self.setup.gnu_time, report, start.argv)
            cores = _limits_of(request.limits).cores
            # The helper that joins may still be root: it gets none of the workload's variables.
            with (
                in_memory(environment_block(environment_of(start, identity))) as variables,
                open_input(start) as stdin,
            ):
                fd = variables.fileno()
                ended = process.run(
                    join_command(self.cgroup, timed, identity, cores, fd, start.cwd),
                    env=SYSTEM_ENVIRONMENT,
                    pass_fds=[*fds, fd],
                    stdin=stdin,
                    timeout_s=stop_after_s or request.timeout_s,
                    kill=end,
                    wakes=control.wakes if control else {},
                    look=look,
                    # A program that is to run for a time may be a service that detaches itself.
                    lingers=lambda: bool(stop_after_s and outside.running()),
                )
            figures = read_report(report_fd)
        if stop_after_s:
            ended = replace(ended, timed_out=False, stopped=ended.timed_out)
        return ended, figures

    def _keep(self, sampler: SamplerProcess, process: WorkloadProcess) -> None:
        with created(self.files.samples) as file:
            sampler.pack(file)
        write(self.files.log, process.output_text().encode())
        # Level 1: a twentieth of the time of level 9 for a tenth more bytes.
        write(self.files.events, gzip.compress(bytes(process.events.data), compresslevel=1))

    def _watching(self, sampler: SamplerProcess) -> Watching:
        seen = sampler.watching
        # A command has no worker that could reset anything.
        resets = seen.marks_reset_at_boundaries and self.request.settings["kind"] != "command"
        return structs.replace(seen, marks_reset_at_boundaries=resets)


def _most_resident(used: FilesWatch, report: GnuTime | None) -> int | None:
    """Bytes that a program's processes had resident at once at most; None: they were not counted.

    GNU time is one of the processes, and tells what the largest of them had.
    """
    return report.maxrss_bytes * max(1, used.processes - 1) if report and used.processes else None


def _limits_of(setting: LimitSetting) -> Limits:
    cores = tuple(sorted(os.sched_getaffinity(0)))[: setting.cores] if setting.cores else None
    return Limits(
        memory_bytes=setting.memory_bytes,
        swap_bytes=0 if setting.swap_kind == "none" else setting.swap_bytes,
        cores=cores,
        cpu_quota=setting.cpu_quota,
        memory_high_bytes=setting.memory_high_bytes,
    )
