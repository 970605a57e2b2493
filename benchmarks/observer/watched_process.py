"""Processes of one workload under a memory limit, each watched in one way."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgebench.cgroups.interface import Cgroup, HotFiles, Limits
from edgebench.cgroups.join import join_command
from edgebench.cgroups.sampler_process import SamplerProcess
from edgebench.measures.gnu_time import gnu_time_command, read_report
from edgebench.run.trial.session import Session
from edgebench.text import parse_duration
from edgebench.workloads.recorder import NO_DESCRIPTORS

NOTHING, DEFAULT, STAT = "nothing", "default", "stat-"
Row = dict[str, Any]
#: The workload's words for these descriptors, and whether it reads and tells at boundaries.
Words = Callable[[dict[str, Any], tuple[int, int]], list[str]]


@dataclass(frozen=True)
class Arm:
    """One way of watching. ``stat_s``: between two readings of ``memory.stat``, if any."""

    name: str
    stat_s: float | None = None

    @classmethod
    def of(cls, name: str) -> Arm:
        """``nothing``, ``default`` or ``stat-`` and a duration."""
        if name in (NOTHING, DEFAULT):
            return cls(name)
        return cls(name, parse_duration(name.removeprefix(STAT)))


@dataclass(frozen=True)
class Bench:
    """What all processes have in common."""

    session: Session
    folder: Path
    swap_bytes: int
    timeout_s: float
    words: Words
    mate: Callable[[tuple[int, int]], list[str]] | None

    def process(self, arm: Arm, limit_bytes: int, name: str) -> Row:
        """One process under the limit, watched in one way, from its start to its end."""
        setup = self.session.setup
        cgroup = setup.parent.create(f"{os.getpid()}-{name}")
        try:
            cgroup.set_limits(Limits(memory_bytes=limit_bytes, swap_bytes=self.swap_bytes))
            if self.mate is None:
                return self._watched(arm, cgroup, (-1, -1))
            ours, others = _turns()
            with _running(self.mate(others), others):
                return self._watched(arm, cgroup, ours)
        finally:
            cgroup.remove()

    def _watched(self, arm: Arm, cgroup: Cgroup, turns: tuple[int, int]) -> Row:
        hot = cgroup.hot_files()
        hot = hot if arm.stat_s else hot.without_flushing()
        if arm.name == NOTHING:
            return self._run(cgroup, dict(NO_DESCRIPTORS), [], turns)
        sampler = SamplerProcess(hot, self.folder, stat_interval_s=arm.stat_s or 0.01)
        sampler.start()
        try:
            with _descriptors(hot) as (descriptors, fds):
                row = self._run(cgroup, descriptors, fds, turns)
        finally:
            told = sampler.stop()
        watched = sampler.watching
        return {**row, "samples": told.samples, "sampler_cpu_s": told.cpu_s,
                "stat_interval_s": watched.stat_interval_s, "files": watched.files}  # fmt: skip

    def _run(
        self, cgroup: Cgroup, descriptors: dict[str, Any], fds: list[int], turns: tuple[int, int]
    ) -> Row:
        figures = self.folder / "gnu-time"
        figures.write_bytes(b"")
        words = gnu_time_command(
            self.session.setup.gnu_time, figures, self.words(descriptors, turns)
        )
        began = time.monotonic()
        process = subprocess.Popen(
            join_command(cgroup, words, None, None),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=[*fds, *(fd for fd in turns if fd >= 0)],
        )
        _close(turns)
        timed_out = False
        try:
            out, _ = process.communicate(timeout=self.timeout_s)
        except subprocess.TimeoutExpired:
            timed_out = True
            cgroup.kill()
            out, _ = process.communicate()
        wall_s = time.monotonic() - began
        with figures.open("rb") as report:
            counters, told = cgroup.read(), read_report(report.fileno())
        ok = process.returncode == 0 and not timed_out
        outcome = "timeout" if timed_out else "killed" if counters.oom_kills else "failed"
        return {
            "outcome": "ok" if ok else outcome,
            "returncode": process.returncode,
            "wall_s": wall_s,
            "round_s": _round_s(out) if ok else None,
            "oom_kills": counters.oom_kills,
            "major_faults": counters.major_faults,
            "gnu_time_major_faults": told.major_faults if told else None,
            "refault_anon": counters.refault_anon,
            "refault_file": counters.refault_file,
            "swapped_in_bytes": counters.swapped_in_bytes,
            "swapped_out_bytes": counters.swapped_out_bytes,
        }


def _round_s(out: bytes) -> list[float] | None:
    """The rounds' seconds of a workload that tells them in its last line."""
    with contextlib.suppress(ValueError, IndexError, KeyError, TypeError):
        return [float(s) for s in json.loads(out.splitlines()[-1])["round_s"]]
    return None


def _turns() -> tuple[tuple[int, int], tuple[int, int]]:
    """Descriptors (from, to) of the limited process and of its mate; it is the first's turn.

    Ours are closed once each has its own: who waits for one that has ended is to see that.
    """
    (mine, theirs_to), (theirs, mine_to) = os.pipe(), os.pipe()
    os.write(theirs_to, b".")
    return (mine, mine_to), (theirs, theirs_to)


def _close(fds: Sequence[int]) -> None:
    for fd in fds:
        if fd >= 0:
            os.close(fd)


@contextlib.contextmanager
def _running(words: list[str], fds: Sequence[int]) -> Iterator[None]:
    """The mate, unlimited and outside the cgroup, until the block ends."""
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(words, stdin=quiet, stdout=quiet, stderr=quiet, pass_fds=tuple(fds))
    _close(fds)
    try:
        yield
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def _descriptors(hot: HotFiles) -> Iterator[tuple[dict[str, Any], list[int]]]:
    """What a worker reads at its boundaries; its events go to a pipe that nobody need look at."""
    with contextlib.ExitStack() as stack:

        def opened(path: Path | None, flags: int = os.O_RDONLY) -> int | None:
            if path is None:
                return None
            fd = os.open(path, flags)
            stack.callback(os.close, fd)
            return fd

        usage, swap = opened(hot.usage), opened(hot.swap)
        peak = opened(hot.peak, os.O_RDWR if hot.peak_resets else os.O_RDONLY)
        events = opened(Path(os.devnull), os.O_WRONLY)
        told = {**NO_DESCRIPTORS, "events": events, "usage": usage, "peak": peak, "swap": swap}
        told |= {"peak_resets": hot.peak_resets, "swap_is_memsw": hot.swap_is_memsw}
        yield told, [fd for fd in (usage, swap, peak, events) if fd is not None]
