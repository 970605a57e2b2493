"""One trial, from a fresh cgroup to a record.

The order is what makes the figures mean something: the cgroup is made and limited, the
sampler watches it from outside, and only then does a helper join it and become GNU time,
which starts the workload (see docs/decisions for why each step stands where it does).
"""

from __future__ import annotations

import contextlib
import gzip
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from edgebench.cgroups.identity import Identity, created_as_owner, give_to_caller
from edgebench.cgroups.interface import Cgroup, HotFiles, Limits
from edgebench.cgroups.join import join_command
from edgebench.cgroups.place import Place
from edgebench.cgroups.sampling import SamplerProcess
from edgebench.machine.noise import NoiseWatch
from edgebench.measures.gnu_time import GnuTime, gnu_time_command, read_report
from edgebench.measures.strategy import Asked
from edgebench.process import Ended, Watched
from edgebench.records.records import LimitSetting, TrialRecord
from edgebench.results.signpost import EVENTS
from edgebench.surroundings.around import around
from edgebench.trial.announcing import announce
from edgebench.trial.observing import Observer
from edgebench.trial.recording import Measured, TrialRequest, record_of, utc_now
from edgebench.workloads.events import Descriptors
from edgebench.workloads.registry import Launch, launch

#: Far above what a runtime's threads need; a fork bomb ends there, not with the machine.
MOST_PIDS = 4096


@dataclass(frozen=True)
class Apparatus:
    """What every trial of a sweep is measured with."""

    place: Place
    gnu_time: Path
    identity: Identity | None = None
    interval_s: float = 0.001
    stat_interval_s: float = 0.01
    echo: Callable[[bytes], None] | None = None


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


def run_trial(apparatus: Apparatus, request: TrialRequest, files: TrialFiles) -> TrialRecord:
    """Make one trial and word its record; its samples, events and log are written on the way.

    A killed, timed-out or failed workload is a result, not an exception. A strategy's own trial is
    made as the others are, but for how the strategy starts the workload.

    Raises:
        CgroupError: the cgroup could not be made or limited.
        WorkloadError: the workload's kind is unknown.
    """
    began = time.monotonic()
    started_utc = utc_now()
    observer = _observer(request, files)
    cgroup = apparatus.place.create(f"{os.getpid()}-{request.trial}")
    try:
        with around(request.settings, request.trial) as surroundings:
            measured = _measure(apparatus, request, files, cgroup, observer)
    finally:
        cgroup.remove()
    record = record_of(request, measured, started_utc, time.monotonic() - began)
    record = replace(record, notes={**record.notes, **surroundings.notes()})
    return observer.read(record, measured.events) if observer else record


def _observer(request: TrialRequest, files: TrialFiles) -> Observer | None:
    if request.strategy is None or files.reading is None:
        return None
    asked = Asked(request.dump_every_bytes, request.timeout_s)
    folder = files.work / f"{request.trial}-own"
    return Observer.of(request.strategy, asked, folder, files.reading)


def _measure(
    apparatus: Apparatus,
    request: TrialRequest,
    files: TrialFiles,
    cgroup: Cgroup,
    observer: Observer | None,
) -> Measured:
    pids = MOST_PIDS if "pids" in apparatus.place.bases else None
    applied = cgroup.apply(_limits_of(request.limits, pids))
    hot = cgroup.hot_files()
    sampler = SamplerProcess(hot, files.work, apparatus.interval_s, apparatus.stat_interval_s)
    watched = Watched(apparatus.echo, files.work / EVENTS if files.live else None)
    noise = NoiseWatch()
    sampler.start()
    try:
        if files.live:
            announce(files.live, request, sampler, files.work)
        noise.start()
        ended, report = _run(apparatus, request, files, cgroup, hot, watched, observer)
        counters = cgroup.read()
    finally:
        sampler_report = sampler.stop()
        watched.close()
    events, bad = watched.event_list()
    summary = sampler.summary()
    with created_as_owner(files.samples) as file:
        sampler.pack(file)
    with created_as_owner(files.log) as file:
        file.write(watched.output_text().encode())
    # Level 1: a twentieth of the time of level 9 for a tenth more bytes.
    with created_as_owner(files.events) as file:
        file.write(gzip.compress(bytes(watched.events.data), compresslevel=1))
    cpu_s = counters.cpu_ns / 1e9 if counters.cpu_ns is not None else None
    return Measured(
        applied=applied,
        ended=ended,
        events=events,
        bad_events=bad,
        counters=counters,
        gnu_time=report,
        sampler=sampler_report,
        samples=summary,
        noise=noise.stop(cpu_s),
        output_tail=watched.output_text()[-2000:],
        missing=dict(cgroup.missing().reasons),
    )


def _limits_of(setting: LimitSetting, pids: int | None = None) -> Limits:
    cores = tuple(sorted(os.sched_getaffinity(0)))[: setting.cores] if setting.cores else None
    return Limits(
        memory_bytes=setting.memory_bytes,
        swap_bytes=0 if setting.swap_kind == "none" else setting.swap_bytes,
        cores=cores,
        cpu_quota=setting.cpu_quota,
        pids=pids,
    )


def _run(
    apparatus: Apparatus,
    request: TrialRequest,
    files: TrialFiles,
    cgroup: Cgroup,
    hot: HotFiles,
    watched: Watched,
    observer: Observer | None,
) -> tuple[Ended, GnuTime | None]:
    report = _report_file(files.work / f"{request.trial}.gnu-time")
    with _descriptors(hot, watched.events.write_fd) as (descriptors, fds):
        start = launch({**request.settings, "weights": request.weights}, descriptors)
        for file in start.evict:
            evict(file)
        if observer:
            start = observer.wrap(start)
        timed = gnu_time_command(apparatus.gnu_time, report, start.argv)
        ended = watched.run(
            join_command(cgroup, timed, apparatus.identity, _limits_of(request.limits).cores),
            env=_environment(start, apparatus.identity),
            cwd=start.cwd,
            pass_fds=fds,
            timeout_s=request.timeout_s,
            kill=cgroup.kill,
        )
    figures = read_report(report)
    report.unlink(missing_ok=True)
    return ended, figures


def _report_file(path: Path) -> Path:
    """An empty file that GNU time may fill as the caller, where nobody can put another."""
    os.close(os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_NOFOLLOW, 0o600))
    give_to_caller(path)
    return path


def evict(file: Path) -> None:
    """Ask the kernel to drop one file's clean, unmapped pages; never a global drop."""
    fd = os.open(file, os.O_RDONLY)
    try:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)


def _environment(start: Launch, identity: Identity | None) -> dict[str, str]:
    env = {**os.environ, **start.env}
    if identity:
        env["HOME"] = str(identity.home)
    return env


@contextlib.contextmanager
def _descriptors(hot: HotFiles, events_fd: int) -> Iterator[tuple[Descriptors, list[int]]]:
    """The descriptors a worker inherits, opened as us: it may have no right to open them."""
    with contextlib.ExitStack() as stack:

        def opened(path: Path | None, flags: int) -> int | None:
            if path is None:
                return None
            fd = os.open(path, flags)
            stack.callback(os.close, fd)
            return fd

        usage, swap = opened(hot.usage, os.O_RDONLY), opened(hot.swap, os.O_RDONLY)
        peak = opened(hot.peak, os.O_RDWR if hot.peak_resets else os.O_RDONLY)
        stat, kernel = opened(hot.stat, os.O_RDONLY), opened(hot.kernel, os.O_RDONLY)
        descriptors: Descriptors = {
            "events": events_fd,
            "usage": usage,
            "peak": peak,
            "peak_resets": hot.peak_resets,
            "swap": swap,
            "swap_is_memsw": hot.swap_is_memsw,
            "stat": stat,
            "kernel": kernel,
        }
        fds = (usage, peak, swap, stat, kernel)
        yield descriptors, [fd for fd in fds if fd is not None]
