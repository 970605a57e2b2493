"""What slowed the machine down while a trial ran: heat, low voltage, a capped clock rate.

Files: the kernel's Documentation/ABI/testing/sysfs-class-thermal and sysfs-devices-system-cpu,
Documentation/hwmon/raspberrypi-hwmon; NVIDIA's ``soctherm_oc``; the Raspberry Pi firmware's
``get_throttled``.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from edgebench.measures.machine.system_files import (
    PI_FLAGS,
    SystemFiles,
    UnreadableError,
    throttle_counts,
)
from edgebench.records import Doubt, is_number

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
        self._levels = dict(_levels(machine))
        self._zones = list(_zones(machine))
        self._pi = machine.each(PI_FLAGS)
        self._policies = machine.each("sys/devices/system/cpu/cpufreq/policy*/scaling_max_freq")
        self._before = _events(machine)
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
        for path, trip_c in self._zones:
            if (millidegrees := _number(path)) is None:
                # A zone whose sensor sleeps answers with an error.
                continue
            temperature_c = millidegrees / 1000
            self._hottest = max(temperature_c, self._hottest or temperature_c)
            if trip_c is not None and temperature_c >= trip_c:
                above = temperature_c, trip_c
                self._above = max(above, self._above or above, key=lambda one: one[0] - one[1])
        for path in self._policies:
            if (cap := _number(path)) is not None:
                self._caps.setdefault(path, set()).add(cap * 1000)

    def stop(self) -> dict[str, Any]:
        """Read once more; what was seen, for a record's ``noise``.

        Keys: ``throttled_events`` (counted meanwhile; None where the machine counts none),
        ``throttled_by`` (causes), ``temperature_max_c`` (the hottest zone), ``hot_c`` and
        ``trip_c`` (a zone that was as hot as its trip point), ``cap_low_hz`` and ``cap_high_hz``
        (of a core whose highest clock rate was changed).
        """
        self._look()
        before, after = self._before, _events(self._machine)
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


def throttling_doubts(noise: Mapping[str, Any]) -> list[Doubt]:
    """What in :meth:`ThrottleWatch.stop`'s answer makes a trial's seconds unreliable."""
    read = {key: float(value) for key, value in noise.items() if is_number(value)}
    causes = noise.get("throttled_by")
    doubts = []
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


def _levels(machine: SystemFiles) -> Iterator[tuple[Path, str]]:
    """Files with a number above 0 while something is slowed down, and the cause."""
    for path in machine.each("sys/class/hwmon/hwmon*/in0_lcrit_alarm"):
        if _text(path.with_name("name")) == "rpi_volt":
            yield path, "under-voltage"
    for path in machine.each("sys/class/thermal/cooling_device*/cur_state"):
        name = _text(path.with_name("type")) or path.parent.name
        if not _NO_SLOWING.search(name):
            yield path, f"temperature ({name})"


def _zones(machine: SystemFiles) -> Iterator[tuple[Path, float | None]]:
    """Each thermal zone's temperature file, and the least trip point that slows the machine."""
    for path in machine.each("sys/class/thermal/thermal_zone*/temp"):
        trips = [
            _number(kind.with_name(kind.name.replace("_type", "_temp"))) or 0
            for kind in sorted(path.parent.glob("trip_point_*_type"))
            if _text(kind) in _SLOWING_TRIPS
        ]
        yield path, min((trip / 1000 for trip in trips if trip > 0), default=None)


def _events(machine: SystemFiles) -> int | None:
    """How often the counters saw the machine slowed down since boot; None: it has none."""
    try:
        counts = throttle_counts(machine)
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
