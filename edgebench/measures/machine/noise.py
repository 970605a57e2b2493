"""Was the machine quiet while a trial ran? Watched from outside, and judged.

:class:`NoiseWatch` reads a handful of small files before and after a trial (well under a
millisecond each time). The functions below it are pure: numbers in, doubts out.
"""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgebench.measures.machine.system_files import (
    CPU_FREQUENCY,
    SystemFiles,
    UnreadableError,
)
from edgebench.measures.machine.throttling import ThrottleWatch, throttling_doubts
from edgebench.records import Doubt, TrialRecord, is_number

#: Shares of all cores' time above which a trial's seconds are in doubt.
STEAL_SHARE = 0.02
FOREIGN_SHARE = 0.05
#: /proc/stat counts in ticks of 10 ms: below this many seconds a share is mere rounding.
_LEAST_FOREIGN_S = 0.1
#: pyperf's rules for a benchmark in doubt: spread and extremes, as shares of the mean.
SPREAD_SHARE = 0.10
EXTREME_SHARE = 0.50
#: How close to the truth a mean should be for repeats to be enough, as a share of it.
WANTED_SHARE = 0.10
_NORMAL_95 = 1.959964
#: Of one degree of freedom, where the series of `student_95` is still far off.
_STUDENT_95_OF_TWO = 12.706
_TOO_MANY_REPEATS = 50
_STAT_FIELDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")


@dataclass(frozen=True)
class _Reading:
    """The machine at one moment. Seconds are summed over all cores."""

    clock_s: float
    own_cpu_s: float
    total_s: float
    busy_s: float
    steal_s: float
    frequency_hz: int | None


class NoiseWatch:
    """Watches the machine from :meth:`start` to :meth:`stop`; may be used again."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._machine = SystemFiles(root)
        self._tick_s = 1 / os.sysconf("SC_CLK_TCK")
        self._before: _Reading | None = None
        self._throttling = ThrottleWatch(self._machine)

    def start(self) -> None:
        """Note how the machine stands now."""
        self._throttling.start()
        self._before = self._read()

    def look(self) -> None:
        """Look meanwhile for what shows only while it lasts; call it as often as is handy."""
        self._throttling.look()

    def stop(self, trial_cpu_s: float | None) -> dict[str, Any]:
        """What went on since :meth:`start` besides ``trial_cpu_s`` seconds of CPU for the trial.

        Keys: ``elapsed_s``; ``steal_share`` (of all cores' time, taken by the hypervisor);
        ``foreign_cpu_share`` (of all cores' time, used by neither the trial nor this process: the
        sampler is foreign; None if the trial's own CPU is unknown), ``foreign_cpu_s``;
        ``frequency_before_hz`` and ``frequency_after_hz`` (first core); and those of
        :meth:`~edgebench.measures.machine.throttling.ThrottleWatch.stop`.
        """
        before, after = self._before, self._read()
        if before is None:
            before = after
        total_s = after.total_s - before.total_s
        own_s = after.own_cpu_s - before.own_cpu_s
        foreign_s = None
        if trial_cpu_s is not None:
            foreign_s = max(0.0, after.busy_s - before.busy_s - own_s - trial_cpu_s)
        return {
            "elapsed_s": after.clock_s - before.clock_s,
            "steal_share": _share(after.steal_s - before.steal_s, total_s),
            "foreign_cpu_share": None if foreign_s is None else _share(foreign_s, total_s),
            "foreign_cpu_s": foreign_s,
            "frequency_before_hz": before.frequency_hz,
            "frequency_after_hz": after.frequency_hz,
            **self._throttling.stop(),
        }

    def _read(self) -> _Reading:
        machine = self._machine
        line = machine.text("proc/stat").split("\n", 1)[0]
        ticks = dict(zip(_STAT_FIELDS, map(int, line.split()[1:]), strict=False))
        idle = ticks["idle"] + ticks["iowait"]
        total, steal = sum(ticks.values()), ticks.get("steal", 0)
        try:
            frequency_hz = machine.number(f"{CPU_FREQUENCY}/scaling_cur_freq") * 1000
        except UnreadableError:
            frequency_hz = None
        return _Reading(
            clock_s=time.monotonic(),
            own_cpu_s=time.process_time(),
            total_s=total * self._tick_s,
            busy_s=(total - idle - steal) * self._tick_s,
            steal_s=steal * self._tick_s,
            frequency_hz=frequency_hz,
        )


def _share(part_s: float, total_s: float) -> float | None:
    return part_s / total_s if total_s > 0 else None


def trial_doubts(record: TrialRecord) -> list[Doubt]:
    """All that puts a trial's numbers in doubt: noise, and what its record names."""
    return [*noise_doubts(record.noise), *record.doubts]


def noise_doubts(noise: Mapping[str, Any]) -> list[Doubt]:
    """What in :meth:`NoiseWatch.stop`'s answer makes a trial's seconds unreliable."""
    read = {key: float(value) for key, value in noise.items() if is_number(value)}
    steal, foreign = read.get("steal_share", 0.0), read.get("foreign_cpu_share", 0.0)
    foreign_s = read.get("foreign_cpu_s", 0.0)
    doubts = []
    if steal > STEAL_SHARE:
        doubts.append(Doubt("stolen_cpu", {"share": steal}))
    if foreign > FOREIGN_SHARE and foreign_s > _LEAST_FOREIGN_S:
        doubts.append(Doubt("foreign_cpu", {"share": foreign, "cpu_s": foreign_s}))
    return [*doubts, *throttling_doubts(noise)]


def repeats_wanted(values: Sequence[float], within: float = WANTED_SHARE) -> int:
    """How many repeats would put the mean within that share of the truth, 95 times of 100.

    From the spread seen so far, taken as normal: the least n with t · stdev / √n ≤ within · mean,
    where t is Student's of n repeats: few of them tell little of their own spread.
    """
    mean = statistics.fmean(values)
    share = _stdev(values, mean) / (within * mean)
    wanted = max(2, math.ceil((_NORMAL_95 * share) ** 2))
    while student_95(wanted) * share > math.sqrt(wanted):
        wanted += 1
    return wanted


def student_95(count: int) -> float:
    """The 97.5 % quantile of Student's t for so many values, within 3 %.

    Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.5.
    """
    if count == 2:
        return _STUDENT_95_OF_TWO
    z, freedom = _NORMAL_95, count - 1
    return (
        z
        + (z**3 + z) / (4 * freedom)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3)
    )


def _stdev(values: Sequence[float], mean: float) -> float:
    # The one in statistics goes by fractions: seconds for a million values.
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


def spread_doubts(values: Sequence[float]) -> list[Doubt]:
    """What in the repeats of one point (seconds, all > 0) makes its mean unreliable."""
    if len(values) < 2 or statistics.fmean(values) <= 0:
        return []
    mean = statistics.fmean(values)
    spread = _stdev(values, mean)
    doubts = []
    if spread >= SPREAD_SHARE * mean:
        wanted = repeats_wanted(values)
        kind = "spread"
        if wanted <= len(values):
            kind = "spread_known"
        elif wanted > _TOO_MANY_REPEATS:
            kind = "spread_wide"
        numbers = {"share": spread / mean, "repeats": len(values), "wanted": wanted}
        doubts.append(Doubt(kind, {**numbers, "more": wanted - len(values)}))
    for kind, value in (("short_repeat", min(values)), ("long_repeat", max(values))):
        away = abs(value - mean) / mean
        if away >= EXTREME_SHARE:
            doubts.append(Doubt(kind, {"repeat_s": value, "away_share": away, "mean_s": mean}))
    return doubts
