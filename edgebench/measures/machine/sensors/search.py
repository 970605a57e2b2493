"""Which sensors a machine has, which of them answer, and why others don't."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import TypeVar

from edgebench.measures.machine.sensors.power import power_domains, power_sensors, why_no_power
from edgebench.measures.machine.sensors.sensor import (
    MISSING,
    Sensor,
    SensorGoneError,
    SensorReader,
    Sensors,
    unique_names,
)
from edgebench.measures.machine.sensors.state import (
    CPUS,
    HWMON,
    THERMAL,
    clock_sensors,
    fan_sensors,
    temperature_sensors,
    throttling_sensors,
)
from edgebench.measures.machine.system_files import SystemFiles

#: Of each kind at most so many are read: a server has hundreds.
MOST_OF_A_KIND = 16
#: For a driver that does not answer.
_PATIENCE_S = 1.0
_FINDERS: dict[str, tuple[Callable[[SystemFiles], Iterator[Sensor]], str]] = {
    "power": (power_sensors, ""),
    "temperature": (temperature_sensors, f"/{THERMAL} and /{HWMON} have no temperature"),
    "clock": (clock_sensors, f"/{CPUS} has no cpufreq"),
    "throttling": (
        throttling_sensors,
        "the kernel counts no throttling here (no thermal_throttle, get_throttled, rpi_volt, "
        "soctherm_oc or cooling device)",
    ),
    "fan": (fan_sensors, f"/{HWMON} has no fan"),
}
_Made = TypeVar("_Made")


def find_sensors(machine: SystemFiles | None = None) -> Sensors:
    """The sensors of this machine that answer now, each read once."""
    machine = machine or SystemFiles()
    absent: dict[str, str] = {}
    sensors: list[Sensor] = []
    for kind, (find, why_none) in _FINDERS.items():
        listed = _in_time(partial(_listed, find, machine))
        if listed is None:
            absent[kind] = f"a driver did not answer within {_PATIENCE_S:g} s"
            continue
        reasons = {sensor: _why_silent(sensor) for sensor in listed}
        good = [sensor for sensor, reason in reasons.items() if not reason]
        sensors += good[:MOST_OF_A_KIND]
        bad = [f"{s.name}: {reason}" for s, reason in reasons.items() if reason]
        said = bad[:3] if good else bad[:3] or [why_none or why_no_power(machine)]
        if len(good) > MOST_OF_A_KIND:
            said.append(f"{len(good) - MOST_OF_A_KIND} more are not read")
        if said:
            absent[kind] = "; ".join(said)
    named = tuple(unique_names(sensors))
    return Sensors(named, tuple(power_domains(named)), absent)


def _listed(find: Callable[[SystemFiles], Iterator[Sensor]], machine: SystemFiles) -> list[Sensor]:
    return list(islice(find(machine), 4 * MOST_OF_A_KIND))


def _in_time(work: Callable[[], _Made]) -> _Made | None:
    """What the work makes; None where it takes too long: it is left to itself."""
    made: list[_Made] = []
    thread = threading.Thread(target=lambda: made.append(work()), daemon=True)
    thread.start()
    thread.join(_PATIENCE_S)
    return made[0] if made else None


def _why_silent(sensor: Sensor) -> str:
    """Why it can't be read; empty if it can."""
    reason = _in_time(partial(_tried, sensor))
    return f"it did not answer within {_PATIENCE_S:g} s" if reason is None else reason


def _tried(sensor: Sensor) -> str:
    try:
        reader = SensorReader(sensor)
    except PermissionError as error:
        return f"only root can read {error.filename or sensor.files[0]}"
    except OSError as error:
        return error.strerror or str(error)
    try:
        return "it gives no number" if reader.read() == MISSING else ""
    except SensorGoneError as gone:
        return str(gone)
    finally:
        reader.close()
