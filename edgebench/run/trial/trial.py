"""One trial, from a fresh cgroup to a record.

The order is what makes the figures mean something: the cgroup is made and limited, the
sampler watches it from outside, and only then does a helper join it and become GNU time,
which starts the workload (see docs/decisions for why each step stands where it does).
"""

from __future__ import annotations

import gzip
import os
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from msgspec import structs

from edgebench.cgroups.interface import MEMORY_SIZES, Cgroup, Limits
from edgebench.cgroups.join import environment_block, join_command
from edgebench.cgroups.sampler_process import (
    FAST_COLUMNS,
    STAT_INTERVAL_S,
    SamplerProcess,
    SampleSummary,
    judge_growth,
)
from edgebench.errors import EdgebenchError
from edgebench.layers.names import COPY, WHOLE
from edgebench.measures.gnu_time import gnu_time_command, read_report, report_file
from edgebench.processes import SYSTEM_ENVIRONMENT, in_memory
from edgebench.records import Doubt, LimitSetting, SamplerReport, TrialRecord
from edgebench.results.live_file import EVENTS, LiveTrial, boot_id, write_live_trial
from edgebench.run.trial.controllers import (
    ROOM,
    LimitAtBase,
    LimitControl,
    SwapCharge,
)
from edgebench.run.trial.launch import (
    StrategyTrial,
    background_activity,
    check_start,
    environment_of,
    launch,
    open_descriptors,
    open_input,
    readable_files,
    run_reset,
    worker_settings,
)
from edgebench.run.trial.outcome import kill_report
from edgebench.run.trial.process import OutputRate, ProcessEnd, WorkloadProcess
from edgebench.run.trial.readers import Finished, ReaderLoop, accelerator_report, running
from edgebench.run.trial.record import (
    Measured,
    TrialRequest,
    faulty_record,
    record_of,
    round_sources,
    utc_now,
)
from edgebench.run.trial.session import HeldStorage, StoragePlaces, TrialSetup
from edgebench.run.trial.trial_readers import (
    PROGRAMS,
    Readings,
    TrialReaders,
    files_report,
    is_warm,
)
from edgebench.safe_files import created, make_folder, write
from edgebench.spans import first_round_end_ns

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
    if (used := records[0].files) is None:
        return records
    setup.files.add(used.paths)
    if setup.starts_cold and is_warm(records[0], setup.files.evict()):
        # With its files evicted, as every trial from now on.
        records = _recorded_trials(setup, request, files)
    return records


def _recorded_trials(
    setup: TrialSetup, request: TrialRequest, files: TrialFiles
) -> list[TrialRecord]:
    """Make the trial in a cgroup of its own, and return its records."""
    began, started_utc = time.monotonic(), utc_now()
    observer = None
    if request.strategy and files.reading:
        observer = StrategyTrial.of(request, files.work / f"{request.trial}-own", files.reading)
    run_reset(request.settings, setup.identity)
    places = StoragePlaces.of(request.settings, request.weights)
    held = setup.storage.hold(request.limits.storage, places)
    cgroup = setup.parent.create(f"{os.getpid()}-{request.trial}")
    try:
        measurement = _Measurement(setup, request, files, cgroup, observer, held)
        measured = measurement.make()
    finally:
        cgroup.remove()
    total_s = time.monotonic() - began
    record = record_of(request, measured, started_utc, total_s)
    if observer and (why := observer.keep_reading(record, measured.events, setup.identity)):
        # Whatever a profiler left: it costs its own figures, and the sweep goes on.
        unread = replace(measured, missing={**measured.missing, "reading": why})
        record = record_of(request, unread, started_utc, total_s)
    if control := measurement.control:
        return control.records(record, files.events, measured.recorded_rounds)
    return [record]


class _Measurement:
    """One trial's measurement in its cgroup, with all that it needs."""

    def __init__(
        self,
        setup: TrialSetup,
        request: TrialRequest,
        files: TrialFiles,
        cgroup: Cgroup,
        observer: StrategyTrial | None,
        held: HeldStorage,
    ) -> None:
        """Set the limits, and choose what reads the trial and what moves its limit."""
        self.setup, self.request, self.files, self.cgroup = setup, request, files, cgroup
        self.observer, self.held = observer, held
        settings, limits, storage = request.settings, request.limits, setup.storage
        pids = MOST_PIDS if "pids" in setup.parent.bases else None
        self.asked = replace(_limits_of(limits), pids=pids, disks=held.limits)
        self.applied = cgroup.set_limits(self.asked)
        # Memory has a limit, or will have one while the workload runs.
        self.is_limited = bool(
            self.applied.lowest_bytes is not None or request.walk or ROOM in settings
        )
        self.is_program = settings["kind"] in PROGRAMS and request.strategy is None
        self.rounds = round_sources(storage.machine, storage.swap.state, limits.swap_kind)
        timed = request.strategy is None and not setup.statistics_always
        flushing = not (self.is_limited and timed)
        self.hot, self.unread = readable_files(cgroup.hot_files(), flushing=flushing)
        # Where reading it can prevent a kill, it is read as often all the time.
        is_even = self.is_limited and self.hot.stat
        stat_s = setup.stat_interval_s or (STAT_INTERVAL_S if is_even else None)
        self.sampler = SamplerProcess(self.hot, files.work, setup.interval_s, stat_s)
        self.rate = OutputRate(settings.get("throughput_pattern"))
        events_copy = files.work / EVENTS if files.live else None
        self.process = WorkloadProcess(self.rate.beside(setup.echo), events_copy)
        self.readers = TrialReaders(setup, request, cgroup, limited=self.is_limited)
        self.charge = SwapCharge.of(cgroup, request, storage.swap.state)
        self.control: LimitControl | None = None
        if request.walk:
            from edgebench.run.walk.control import WalkControl

            maps = settings.get("loader") not in (None, COPY)
            parts = cgroup, request.walk, self.asked.swap_bytes, self.process, self.rounds
            self.control = WalkControl(*parts, maps_weights=maps)
        elif ROOM in settings:
            self.control = LimitAtBase(cgroup, settings[ROOM], self.asked.swap_bytes)

    def make(self) -> Measured:
        """Measure the workload from outside; keep its samples, events and log."""
        request, files, sampler = self.request, self.files, self.sampler
        with background_activity(request.settings, request.trial) as surroundings:
            sampler.start()
            try:
                if files.live:
                    self._show(files.live)
                with ReaderLoop(self.readers.all()) as loop:
                    ended, finished = self._run(loop)
                    readings = self.readers.stop(loop, finished)
            finally:
                sampler_report = sampler.stop()
                self.process.close()
        measured = self._measured(ended, finished, readings, sampler_report, surroundings)
        with created(files.samples) as file:
            sampler.pack(file)
        write(files.log, self.process.output_text().encode())
        # Level 1: a twentieth of the time of level 9 for a tenth more bytes.
        write(files.events, gzip.compress(bytes(self.process.events.data), compresslevel=1))
        return measured

    def _show(self, path: Path) -> None:
        """Write what others can read of the trial while it runs."""
        request = self.request
        live = LiveTrial(
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
            folder=str(self.files.work),
            interval_s=self.sampler.interval_s,
            fast_columns=FAST_COLUMNS,
            stat_columns=self.sampler.stat_columns,
        )
        write_live_trial(path, live)

    def _run(self, loop: ReaderLoop) -> tuple[ProcessEnd, Finished]:
        """Start the workload, wait for its end, and kill all that it left."""
        request, identity, control = self.request, self.setup.identity, self.control
        settings, kind = request.settings, request.settings["kind"]
        report = self.files.work / f"{request.trial}.gnu-time"
        stop_after_s = settings.get("stop_after_s")

        def end(command: int) -> None:
            # What is left behind is looked at between the command's end and the kill.
            try:
                loop.end(command)
            finally:
                self.cgroup.kill()

        def look() -> None:
            loop.check()
            self.charge.check()

        with ExitStack() as stack:
            report_fd = stack.enter_context(report_file(report, identity))
            stack.enter_context(self.charge)
            if control:
                stack.enter_context(control)
            ours = self.process.events.write_fd, self.process.records.fd
            worker_fd = control.worker_fd if control else None
            descriptors, fds = stack.enter_context(
                open_descriptors(kind, self.hot, self.rounds, *ours, worker_fd)
            )
            worker = worker_settings(request)
            if worker.get("node_times"):
                profile = self.files.work / f"{request.trial}-profile"
                make_folder(profile, exist_ok=True)
                worker["profile_folder"] = str(profile)
            start = launch(worker, descriptors)
            check_start(start)
            if kind in PROGRAMS:
                self.setup.files.add_named(settings)
                self.setup.files.add([start.stdin] if start.stdin else [])
                self.setup.files.evict()
            if self.observer:
                start = self.observer.wrap(start)
            timed = gnu_time_command(self.setup.gnu_time, report, start.argv)
            # The helper that joins may still be root: it gets none of the workload's variables.
            block = environment_block(environment_of(start, identity))
            variables = stack.enter_context(in_memory(block)).fileno()
            ended = self.process.run(
                join_command(self.cgroup, timed, identity, self.asked.cores, variables, start.cwd),
                env=SYSTEM_ENVIRONMENT,
                pass_fds=[*fds, variables],
                stdin=stack.enter_context(open_input(start)),
                timeout_s=stop_after_s or request.timeout_s,
                end=end,
                wakes=control.wakes if control else {},
                look=look,
                # A program that is to run for a time may be a service that detaches itself.
                lingers=lambda: bool(stop_after_s and running(self.cgroup)),
            )
            gnu_time = read_report(report_fd)
        self.charge.check()
        if stop_after_s:
            ended = replace(ended, timed_out=False, stopped=ended.timed_out)
        return ended, Finished(self.cgroup.read(), gnu_time)

    def _measured(
        self,
        ended: ProcessEnd,
        finished: Finished,
        readings: Readings,
        sampler_report: SamplerReport,
        surroundings: dict[str, Any],
    ) -> Measured:
        """Put together what readers, sampler and worker tell."""
        setup, settings, counters = self.setup, self.request.settings, finished.counters
        process, sampler, charge = self.process, self.sampler, self.charge
        events, bad_events = process.event_list()
        samples = self._samples(finished, readings, events)
        swap_bytes = 0 if self.request.limits.swap_kind == "none" else self.applied.swap_bytes
        kill, kill_missing = kill_report(
            readings.kills,
            self.cgroup.path.name,
            swap_bytes,
            counters.oom_kills,
            samples.swap_peak_bytes,
        )
        files, files_missing = files_report(
            readings.files, readings.maps, finished, samples, setup.files.kept_bytes
        )
        per_second, why_no_rate = self.rate.per_second(ended.wall_s, process.output_text())
        growth = None
        if ended.stopped and self.is_program and not self.is_limited:
            end_ns = ended.started_ns + round(ended.wall_s * 1e9)
            growth = judge_growth(*sampler.held_between(ended.started_ns, end_ns))
        watched = sampler.watching
        if settings["kind"] == "command":
            # It has no worker that could reset anything.
            watched = structs.replace(watched, marks_reset_at_boundaries=False)
        accelerator = None
        if readings.accelerator:
            accelerator = accelerator_report(settings["accelerator"], events, readings.accelerator)
        changed: list[Doubt] = []
        # A limit that moves is read back at each move; else the cgroup's owner can change it.
        if not (self.control or charge.moves):
            now = self.cgroup.read_limits(self.applied)
            for name in (*MEMORY_SIZES, "swap_bytes"):
                sizes = {"from_bytes": getattr(self.applied, name), "to_bytes": getattr(now, name)}
                if sizes["from_bytes"] != sizes["to_bytes"]:
                    known = {key: float(size) for key, size in sizes.items() if size is not None}
                    changed.append(Doubt("limit_changed", known, [name.removesuffix("_bytes")]))
        missing = {**self.cgroup.missing(), **self.unread, **kill_missing}
        return Measured(
            applied=self.control.applied(self.applied) if self.control else self.applied,
            ended=ended,
            counters=counters,
            gnu_time=finished.gnu_time,
            events=events,
            sampler=sampler_report,
            samples=samples,
            watched=watched,
            output_tail=process.output_text()[-2000:],
            bad_events=bad_events,
            dropped_events=process.events.dropped_lines,
            library_bytes=readings.maps.library_bytes,
            other_swap_bytes=readings.swap.other_bytes,
            throughput_per_s=per_second,
            why_no_rate=why_no_rate,
            ceiling_bytes=setup.parent.ceiling_bytes,
            accelerator=accelerator,
            files=files,
            growth=growth,
            kill=kill,
            outside=readings.outside,
            storage=self.held.report,
            swap_ram=charge.report(),
            noise=dict(readings.noise),
            surroundings=surroundings,
            missing={**missing, **readings.missing, **files_missing},
            broken_limits=changed,
            doubts=[*readings.swap.doubts, *charge.doubts()],
            rounds=self.rounds,
        )

    def _samples(
        self, finished: Finished, readings: Readings, events: list[dict[str, Any]]
    ) -> SampleSummary:
        # A program loads its network once; further rounds load it anew, beside the first.
        is_whole = self.request.settings.get("schedule") == WHOLE
        until_ns = first_round_end_ns(events) if is_whole else None
        resident = None
        if readings.files and readings.files.processes and finished.gnu_time:
            # GNU time is one of the processes, and tells what the largest of them had.
            resident = finished.gnu_time.maxrss_bytes * max(1, readings.files.processes - 1)
        looks = readings.maps.looks
        return self.sampler.summary(looks, until_ns, finished.counters, resident)


def _limits_of(setting: LimitSetting) -> Limits:
    cores = tuple(sorted(os.sched_getaffinity(0)))[: setting.cores] if setting.cores else None
    return Limits(
        memory_bytes=setting.memory_bytes,
        swap_bytes=0 if setting.swap_kind == "none" else setting.swap_bytes,
        cores=cores,
        cpu_quota=setting.cpu_quota,
        memory_high_bytes=setting.memory_high_bytes,
    )
