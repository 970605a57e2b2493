"""Was the machine quiet while a trial ran? Watched from outside, and judged.

:class:`NoiseWatch` reads a handful of small files before and after a trial (well under a
millisecond each time), and :class:`ThrottleWatch` what slowed the machine down: heat, low voltage,
a capped clock rate. The functions below them are pure: numbers in, doubts out.

Files: the kernel's Documentation/ABI/testing/sysfs-class-thermal and sysfs-devices-system-cpu,
Documentation/hwmon/raspberrypi-hwmon; NVIDIA's ``soctherm_oc``; the Raspberry Pi firmware's
``get_throttled``.
"""

from __future__ import annotations

import math
import os
import re
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgebench.measures.machine.system_files import (
    CPU_FREQUENCY,
    PI_FLAGS,
    SystemFiles,
    UnreadableError,
    throttle_counts,
)
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
#: Bits of the Raspberry Pi's word that say what is so now; 16 bits higher: what was since boot.
_PI_CAUSES = {
    0: "under-voltage",
    1: "the firmware caps the clock",
    2: "the firmware throttles",
    3: "the firmware's soft limit of temperature",
}
#: Cooling devices that slow nothing down.
_NO_SLOWING = re.compile("fan|backlight|lcd|tcc", re.IGNORECASE)
#: Trip points from which on the kernel slows the machine down.
_SLOWING_TRIPS = ("passive", "hot", "critical")
_LOOK_EACH_S = 1.0


class ThrottleWatch:
    """Watches from :meth:`start` to :meth:`stop`, with :meth:`look` in between; may be reused."""

    def __init__(self, machine: SystemFiles) -> None:
        self._machine = machine

    def start(self) -> None:
        """Find the files and read them."""
        machine = self._machine
        #: Files with a number above 0 while something is slowed down, and the cause.
        self._levels: dict[Path, str] = {}
        for path in machine.each("sys/class/hwmon/hwmon*/in0_lcrit_alarm"):
            if _text(path.with_name("name")) == "rpi_volt":
                self._levels[path] = "under-voltage"
        for path in machine.each("sys/class/thermal/cooling_device*/cur_state"):
            name = _text(path.with_name("type")) or path.parent.name
            if not _NO_SLOWING.search(name):
                self._levels[path] = f"temperature ({name})"
        #: Each thermal zone's temperature file, and the least trip point that slows the machine.
        self._zones: dict[Path, float | None] = {}
        for path in machine.each("sys/class/thermal/thermal_zone*/temp"):
            trips = [
                _number(kind.with_name(kind.name.replace("_type", "_temp"))) or 0
                for kind in sorted(path.parent.glob("trip_point_*_type"))
                if _text(kind) in _SLOWING_TRIPS
            ]
            self._zones[path] = min((trip / 1000 for trip in trips if trip > 0), default=None)
        self._pi = machine.each(PI_FLAGS)
        self._policies = machine.each("sys/devices/system/cpu/cpufreq/policy*/scaling_max_freq")
        self._before = self._events()
        self._since_boot: dict[Path, int] = {}
        self._causes: dict[str, None] = {}
        self._caps: dict[Path, set[int]] = {}
        self._hottest: float | None = None
        #: The temperature and the trip point of the zone that is furthest above its own.
        self._above: tuple[float, float] | None = None
        self._look()

    def look(self) -> None:
        """Read once a second what shows only while it lasts."""
        if time.monotonic() - self._looked_s >= _LOOK_EACH_S:
            self._look()

    def _look(self) -> None:
        self._looked_s = time.monotonic()
        for path, cause in self._levels.items():
            if (_number(path) or 0) > 0:
                self._causes[cause] = None
        for path in self._pi:
            word = _number(path, 16) or 0
            new = (word | word >> 16 & ~self._since_boot.setdefault(path, word >> 16)) & 0xFFFF
            self._causes |= {c: None for bit, c in _PI_CAUSES.items() if new >> bit & 1}
        for path, trip_c in self._zones.items():
            if (millidegrees := _number(path)) is None:
                # A zone whose sensor sleeps answers with an error.
                continue
            temperature_c = millidegrees / 1000
            self._hottest = max(temperature_c, self._hottest or temperature_c)
            if trip_c is not None and temperature_c >= trip_c:
                above = temperature_c, trip_c
                self._above = max(above, self._above or above, key=lambda pair: pair[0] - pair[1])
        for path in self._policies:
            if (cap := _number(path)) is not None:
                self._caps.setdefault(path, set()).add(cap * 1000)

    def stop(self) -> dict[str, Any]:
        """Read once more and return what was seen, for a record's ``noise``.

        Keys: ``throttled_events`` (counted meanwhile; None where the machine counts none),
        ``throttled_by`` (causes), ``temperature_max_c`` (the hottest zone), ``hot_c`` and
        ``trip_c`` (a zone that was as hot as its trip point), ``cap_low_hz`` and ``cap_high_hz``
        (of a core whose highest clock rate was changed).
        """
        self._look()
        before, after = self._before, self._events()
        moved = [caps for caps in self._caps.values() if len(caps) > 1]
        hot_c, trip_c = self._above or (None, None)
        return {
            "throttled_events": None if before is None or after is None else after - before,
            "throttled_by": list(self._causes),
            "temperature_max_c": self._hottest,
            "hot_c": hot_c,
            "trip_c": trip_c,
            "cap_low_hz": min(map(min, moved), default=None),
            "cap_high_hz": max(map(max, moved), default=None),
        }

    def _events(self) -> int | None:
        try:
            counts = throttle_counts(self._machine)
        except UnreadableError:
            return None
        # The Pi's word has no count: `look` reads its bits.
        known = [count for name, count in counts.items() if name != Path(PI_FLAGS).name]
        return sum(known) if known else None


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def _number(path: Path, base: int = 10) -> int | None:
    try:
        return int(_text(path), base)
    except ValueError:
        return None


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
        """Return what went on since :meth:`start` besides the trial's ``trial_cpu_s`` of CPU.

        Keys: ``elapsed_s``; ``steal_share`` (of all cores' time, taken by the hypervisor);
        ``foreign_cpu_share`` (of all cores' time, used by neither the trial nor this process: the
        sampler is foreign; None if the trial's own CPU is unknown), ``foreign_cpu_s``;
        ``frequency_before_hz`` and ``frequency_after_hz`` (first core); and those of
        :meth:`ThrottleWatch.stop`.
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
    """List all that puts a trial's numbers in doubt: noise, and what its record names."""
    return [*noise_doubts(record.noise), *record.doubts]


def noise_doubts(noise: Mapping[str, Any]) -> list[Doubt]:
    """List what in :meth:`NoiseWatch.stop`'s answer makes a trial's seconds unreliable."""
    read = {key: float(value) for key, value in noise.items() if is_number(value)}
    steal, foreign = read.get("steal_share", 0.0), read.get("foreign_cpu_share", 0.0)
    foreign_s = read.get("foreign_cpu_s", 0.0)
    causes = noise.get("throttled_by")
    doubts = []
    if steal > STEAL_SHARE:
        doubts.append(Doubt("stolen_cpu", {"share": steal}))
    if foreign > FOREIGN_SHARE and foreign_s > _LEAST_FOREIGN_S:
        doubts.append(Doubt("foreign_cpu", {"share": foreign, "cpu_s": foreign_s}))
    if events := read.get("throttled_events"):
        doubts.append(Doubt("throttled_cpu", {"events": events}))
    if isinstance(causes, list) and causes:
        doubts.append(Doubt("slowed_down", {}, [str(cause) for cause in causes]))
    if "hot_c" in read and "trip_c" in read:
        doubts.append(Doubt("hot", {"hot_c": read["hot_c"], "trip_c": read["trip_c"]}))
    if "cap_low_hz" in read and "cap_high_hz" in read:
        numbers = {f"{end}_ghz": read[f"cap_{end}_hz"] / 1e9 for end in ("low", "high")}
        doubts.append(Doubt("clock_capped", numbers))
    return doubts


def repeats_wanted(values: Sequence[float]) -> int:
    """Find how many repeats put the mean within :data:`WANTED_SHARE` of the truth, 95 of 100 times.

    From the spread so far, taken as normal: the least n with t · stdev / √n ≤ that share · mean,
    where t is Student's of n repeats: few of them tell little of their own spread.
    """
    mean = statistics.fmean(values)
    share = statistics.stdev(values, mean) / (WANTED_SHARE * mean)
    wanted = max(2, math.ceil((_NORMAL_95 * share) ** 2))
    while student_95(wanted) * share > math.sqrt(wanted):
        wanted += 1
    return wanted


def student_95(count: int) -> float:
    """Return the 97.5 % quantile of Student's t for this many values, within 3 %.

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


def spread_doubts(values: Sequence[float]) -> list[Doubt]:
    """List what in the repeats of one point (seconds, all > 0) makes its mean unreliable."""
    if len(values) < 2 or statistics.fmean(values) <= 0:
        return []
    mean = statistics.fmean(values)
    spread = statistics.stdev(values, mean)
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
