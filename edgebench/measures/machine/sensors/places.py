"""Where machines tell power, temperatures, clocks, fans and what slows them down.

Layouts: the kernel's Documentation/power/powercap, Documentation/hwmon/ina3221 and
Documentation/ABI/testing/sysfs-class-hwmon, sysfs-class-power, sysfs-class-thermal,
sysfs-devices-system-cpu; NVIDIA's Jetson Linux developer guide and ``soctherm_oc``; the Raspberry
Pi firmware's ``get_throttled``.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from typing import NamedTuple, TypeVar

from edgebench import plugins
from edgebench.measures.machine.sensors.sensor import (
    CLOCK,
    ENERGY,
    EVENTS,
    FAN,
    FAN_LEVEL,
    FLAGS,
    LEVEL,
    MISSING,
    POWER,
    TEMPERATURE,
    PowerDomain,
    Sensor,
    SensorGoneError,
    SensorReader,
    Sensors,
    named_entries,
    safe_label,
    unique_names,
)
from edgebench.measures.machine.system_files import SystemFiles, UnreadableError

POWERCAP, HWMON, SUPPLIES = "sys/class/powercap", "sys/class/hwmon", "sys/class/power_supply"
#: NVIDIA's own driver of the INA3221, up to JetPack 4.
_INA3221X = "sys/bus/i2c/drivers/ina3221x"
#: Chips that tell voltages (mV) and currents (mA) and no power → channel of each pair.
_PAIRED = {"ina3221": ((1, 1), (2, 2), (3, 3)), "powerz": ((0, 1),)}
#: Chips that measure what a whole machine draws.
_METERS = ("powerz",)
#: Rails that feed a whole Jetson module; of the last two boards, all of its rails together.
_MODULE_RAILS = (("VDD_IN",), ("POM_5V_IN",), ("5V_IN",))
_MODULE_SUMS = (
    ("GPU", "CPU", "SOC", "CV", "VDDRQ", "SYS5V"),
    ("VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0", "VDDQ_VDD2_1V8AO"),
)
#: A core each: a server has hundreds of them, and its sockets are told as well.
_CORE_COUNTER = "Ecore"


def power_sensors(machine: SystemFiles) -> Iterator[Sensor]:
    """All that tell power or energy."""
    yield from _rapl(machine)
    for kind, chip in _chips(machine):
        yield from _rails(machine, kind, chip)
    yield from _ina3221x(machine)
    yield from _batteries(machine)


def why_no_power(machine: SystemFiles) -> str:
    """Why nothing tells power here."""
    lacks = []
    rapl = named_entries(machine, POWERCAP, r"intel-rapl(-mmio)?:\d+(:\d+)?")
    lacks.append(f"/{POWERCAP} has no counter (RAPL)" if not rapl else "RAPL can't be read")
    chips = named_entries(machine, HWMON, r"hwmon\d+")
    lacks.append(f"no chip in /{HWMON} tells power" if chips else f"/{HWMON} has no chip")
    states = [_word(machine, f"{one}/status") for one in _battery_folders(machine)]
    lacks.append(f"the battery is {states[0].lower() or 'silent'}" if states else "no battery")
    return "; ".join(lacks)


def power_domains(sensors: Sequence[Sensor]) -> list[PowerDomain]:
    """What energy can be told of with these sensors, the one that covers most first."""
    named = {sensor.name: sensor for sensor in sensors if sensor.quantity in (ENERGY, POWER)}
    found = [PowerDomain("USB meter", _columns(named, _of_chips(named, _METERS)))]
    found.append(PowerDomain("module", _columns(named, _module(named))))
    packages = [name for name in named if re.fullmatch(r"rapl\.package-\d+(-\d+)?", name)]
    memory = [name for name in named if re.fullmatch(r"rapl\.package-\d+\.dram(-\d+)?", name)]
    both = "package + dram" if memory else "package"
    found.append(PowerDomain(both, _columns(named, packages and [*packages, *memory])))
    found.append(PowerDomain("platform", _columns(named, [n for n in named if n == "rapl.psys"])))
    batteries = [name for name in named if name.startswith("battery.")]
    found.append(PowerDomain("battery", _columns(named, batteries)))
    used = {column for domain in found for column in domain.columns}
    alone = [s for s in named.values() if s.column not in used]
    return [one for one in found if one.columns] + [
        PowerDomain(sensor.name, (sensor.column,)) for sensor in alone
    ]


def _columns(named: dict[str, Sensor], names: Iterable[str]) -> tuple[str, ...]:
    return tuple(named[name].column for name in names)


def _of_chips(named: Iterable[str], chips: Sequence[str]) -> list[str]:
    return [name for name in named if name.partition(".")[0] in chips]


def _module(named: Iterable[str]) -> list[str]:
    rails = {name.partition(".")[2]: name for name in _of_chips(named, ("ina3221", "ina3221x"))}
    for group in (*_MODULE_RAILS, *_MODULE_SUMS):
        if set(group) <= set(rails):
            return [rails[rail] for rail in group]
    return []


def _rapl(machine: SystemFiles) -> Iterator[Sensor]:
    """The counters of the MSR interface; those of MMIO tell the same package once more."""
    zones = named_entries(machine, POWERCAP, r"intel-rapl:\d+(:\d+)?")
    zones = zones or named_entries(machine, POWERCAP, r"intel-rapl-mmio:\d+(:\d+)?")
    names = {zone: safe_label(_word(machine, f"{zone}/name")) for zone in zones}
    for zone, name in names.items():
        above = zone.rpartition(":")[0]
        name = f"{names[above]}.{name}" if above in names else name
        try:
            most = machine.number(f"{zone}/max_energy_range_uj")
        except UnreadableError:
            most = 0
        file = machine.root / zone / "energy_uj"
        # The counter goes from its highest number to 0.
        yield Sensor(f"rapl.{name}", ENERGY, (file,), wraps_at=most + 1 if most > 0 else 0)


def _rails(machine: SystemFiles, kind: str, chip: str) -> Iterator[Sensor]:
    """What one chip of hwmon tells: power (µW), energy (µJ), or voltages and currents."""
    folder = machine.root / chip
    powers = named_entries(machine, chip, r"power\d+_(input|average)")
    # Where there are both, the mean is of a time that nobody tells.
    inputs = {path.rpartition("_")[0] for path in powers if path.endswith("_input")}
    for path in powers:
        channel, _, end = _last(path).rpartition("_")
        if end == "average" and path.rpartition("_")[0] in inputs:
            continue
        name = _label(machine, chip, channel)
        yield Sensor(f"{kind}.{name}", POWER, (machine.root / path,))
    for path in named_entries(machine, chip, r"energy\d+_input"):
        name = _label(machine, chip, _last(path).rpartition("_")[0])
        if not name.startswith(_CORE_COUNTER):
            yield Sensor(f"{kind}.{name}", ENERGY, (machine.root / path,))
    for volts, amperes in _PAIRED.get(kind, ()) if not powers else ():
        files = folder / f"in{volts}_input", folder / f"curr{amperes}_input"
        name = _label(machine, chip, f"in{volts}")
        connected = name != "NC" and _word(machine, f"{chip}/in{volts}_enable") != "0"
        if connected and all(file.is_file() for file in files):
            yield Sensor(f"{kind}.{name}", POWER, files)


def _ina3221x(machine: SystemFiles) -> Iterator[Sensor]:
    """Rails in mW, as NVIDIA's kernel 4.9 has them."""
    for chip in named_entries(machine, _INA3221X, r"\d+-00[0-9a-f]{2}"):
        for device in named_entries(machine, chip, r"iio:device\d+"):
            for path in named_entries(machine, device, r"in_power\d+_input"):
                number = re.sub(r"\D", "", _last(path))
                name = safe_label(_word(machine, f"{device}/rail_name_{number}") or f"rail{number}")
                if name != "NC":
                    file = machine.root / path
                    yield Sensor(f"ina3221x.{name}", POWER, (file,), factor=1000)


def _battery_folders(machine: SystemFiles) -> list[str]:
    """Batteries of the machine itself, not of its mouse."""
    supplies = named_entries(machine, SUPPLIES, r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
    return [
        one
        for one in supplies
        if _word(machine, f"{one}/type") == "Battery" and _word(machine, f"{one}/scope") != "Device"
    ]


def _batteries(machine: SystemFiles) -> Iterator[Sensor]:
    """What a battery gives; only while nothing charges it is that what the machine draws."""
    for one in _battery_folders(machine):
        if _word(machine, f"{one}/status") != "Discharging":
            continue
        name, folder = f"battery.{safe_label(_last(one))}", machine.root / one
        if (folder / "power_now").is_file():
            yield Sensor(name, POWER, (folder / "power_now",), magnitude=True)
        elif (folder / "current_now").is_file() and (folder / "voltage_now").is_file():
            # µA · µV
            files = folder / "current_now", folder / "voltage_now"
            yield Sensor(name, POWER, files, factor=1e-6, magnitude=True)


def _label(machine: SystemFiles, chip: str, channel: str) -> str:
    return safe_label(_word(machine, f"{chip}/{channel}_label") or channel)


def _chips(machine: SystemFiles) -> Iterator[tuple[str, str]]:
    """Each chip of hwmon: its kind, and its folder."""
    for chip in named_entries(machine, HWMON, r"hwmon\d+"):
        yield safe_label(_word(machine, f"{chip}/name")), chip


def _last(path: str) -> str:
    return path.rpartition("/")[2]


def _word(machine: SystemFiles, path: str) -> str:
    """A file's text; empty where it can't be read."""
    try:
        return machine.text(path)
    except UnreadableError:
        return ""


HWMON, THERMAL, CPUS = "sys/class/hwmon", "sys/class/thermal", "sys/devices/system/cpu"
_DEVFREQ, _PLATFORM = "sys/class/devfreq", "sys/devices/platform"
#: Bits of the Raspberry Pi's word for what is so now → cause.
PI_CAUSES = {
    0: "under-voltage",
    1: "the firmware caps the clock",
    2: "the firmware throttles",
    3: "the firmware's soft limit of temperature",
}
#: The driver answers with what it read before within 150 ms.
_PI_LEAST_S = 0.2
#: The Raspberry Pi's program that asks its firmware; to start it costs some milliseconds.
_VCGENCMD, _PROGRAM_LEAST_S = "usr/bin/vcgencmd", 5.0
#: Events of ``soctherm_oc`` → cause.
_OVER_CURRENT = {
    1: "under-voltage",
    2: "over-current on average",
    3: "over-current",
}
#: Zones that tell a fixed number: Jetson Nano's is 100 °C whatever it is.
_FIXED_ZONES = ("PMIC-Die",)
#: A device that cools by slowing something down, not by blowing.
_NO_SLOWING = ("fan", "backlight", "lcd")


def temperature_sensors(machine: SystemFiles) -> Iterator[Sensor]:
    """Each thermal zone; without any, the temperatures of hwmon."""
    zones = named_entries(machine, THERMAL, r"thermal_zone\d+")
    for zone in zones:
        name = safe_label(_word(machine, f"{zone}/type") or _last(zone))
        if name not in _FIXED_ZONES:
            yield Sensor(f"zone.{name}", TEMPERATURE, (machine.root / zone / "temp",))
    if zones:
        return
    for kind, chip in _chips(machine):
        for path in named_entries(machine, chip, r"temp\d+_input"):
            name = _label(machine, chip, _last(path).removesuffix("_input"))
            yield Sensor(f"{kind}.{name}", TEMPERATURE, (machine.root / path,))


def clock_sensors(machine: SystemFiles) -> Iterator[Sensor]:
    """Cores that share a clock, then GPU and memory where they tell theirs."""
    policies = named_entries(machine, f"{CPUS}/cpufreq", r"policy\d+")
    for policy in policies:
        name = f"cpu.{_last(policy)}"
        yield Sensor(name, CLOCK, (machine.root / policy / "scaling_cur_freq",), factor=1000)
    if not policies:
        for cpu in named_entries(machine, CPUS, r"cpu\d+"):
            name = f"cpu.{_last(cpu)}"
            if (file := machine.root / cpu / "cpufreq" / "scaling_cur_freq").is_file():
                yield Sensor(name, CLOCK, (file,), factor=1000)
    for device in named_entries(machine, _DEVFREQ, r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}"):
        name = safe_label(_last(device))
        yield Sensor(f"devfreq.{name}", CLOCK, (machine.root / device / "cur_freq",))


def fan_sensors(machine: SystemFiles) -> Iterator[Sensor]:
    """Each fan's speed, and the level (0 to 255) that it is set to."""
    for kind, chip in _chips(machine):
        for path in named_entries(machine, chip, r"fan\d+_input"):
            name = _last(path).removesuffix("_input")
            yield Sensor(f"{kind}.{name}", FAN, (machine.root / path,))
        if kind == "pwm_tach":
            # NVIDIA's own name for what other drivers call fan1_input.
            for path in named_entries(machine, chip, "rpm"):
                yield Sensor(f"{kind}.fan1", FAN, (machine.root / path,))
        for path in named_entries(machine, chip, r"pwm\d+"):
            yield Sensor(f"{kind}.{_last(path)}", FAN_LEVEL, (machine.root / path,))
    # JetPack 4 has its fan here alone.
    for path in named_entries(machine, "sys/devices/pwm-fan", "cur_pwm"):
        yield Sensor("pwm-fan", FAN_LEVEL, (machine.root / path,))


def throttling_sensors(machine: SystemFiles) -> Iterator[Sensor]:
    """What tells that something is slowed down, or was."""
    yield from _raspberry_pi(machine)
    for kind, chip in _chips(machine):
        if kind == "rpi_volt":
            file = machine.root / chip / "in0_lcrit_alarm"
            yield Sensor("rpi_volt.in0_lcrit", LEVEL, (file,), cause="under-voltage")
        if kind == "soctherm_oc":
            for number, cause in _OVER_CURRENT.items():
                file = machine.root / chip / f"oc{number}_event_cnt"
                yield Sensor(f"soctherm_oc.oc{number}", EVENTS, (file,), cause=cause)
    for cpu in named_entries(machine, CPUS, r"cpu\d+"):
        for of in ("package", "core"):
            # Every core tells its package's count.
            if of == "core" or cpu.endswith("cpu0"):
                file = machine.root / cpu / "thermal_throttle" / f"{of}_throttle_count"
                name = f"{_last(cpu)}.{of}_throttle"
                if file.is_file():
                    yield Sensor(name, EVENTS, (file,), cause=f"temperature of the {of}")
    for device in named_entries(machine, THERMAL, r"cooling_device\d+"):
        name = safe_label(_word(machine, f"{device}/type") or _last(device))
        if not any(word in name.lower() for word in _NO_SLOWING):
            file = machine.root / device / "cur_state"
            yield Sensor(f"cooling.{name}", LEVEL, (file,), cause=f"temperature ({name})")


def _raspberry_pi(machine: SystemFiles) -> Iterator[Sensor]:
    """The firmware's word of flags: a file of a Pi 4's kernel; of a Pi 5's a program tells it."""
    found = False
    for soc in named_entries(machine, _PLATFORM, r"soc(@[0-9a-f]+)?"):
        for firmware in named_entries(machine, soc, r"soc(@[0-9a-f]+)?:firmware"):
            if (file := machine.root / firmware / "get_throttled").is_file():
                found, name = True, "firmware.get_throttled"
                yield Sensor(name, FLAGS, (file,), hexadecimal=True, least_s=_PI_LEAST_S)
    if not found and (program := machine.root / _VCGENCMD).is_file():
        command = (str(program), "get_throttled")
        name, rests_s = "vcgencmd.get_throttled", _PROGRAM_LEAST_S
        yield Sensor(name, FLAGS, hexadecimal=True, least_s=rests_s, command=command)


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
_Finder = Callable[[SystemFiles], Iterator[Sensor]]
_Made = TypeVar("_Made")


def find_sensors(machine: SystemFiles | None = None) -> Sensors:
    """The sensors of this machine that answer now, each read once.

    Raises:
        MachineError: what finds some of them is of another package and can't be imported.
    """
    machine = machine or SystemFiles()
    others = [plugins.load(entry) for entry in plugins.added(plugins.SENSORS).values()]
    absent: dict[str, str] = {}
    for_root: set[str] = set()
    sensors: list[Sensor] = []
    for kind, (find, why_none) in _FINDERS.items():
        listed = _in_time(partial(_listed, (find, *others), machine, kind))
        if listed is None:
            absent[kind] = f"a driver did not answer within {_PATIENCE_S:g} s"
            continue
        reasons = {sensor: _why_silent(sensor) for sensor in listed}
        good = [sensor for sensor, silence in reasons.items() if silence is None]
        sensors += good[:MOST_OF_A_KIND]
        bad = [f"{s.name}: {silence.why}" for s, silence in reasons.items() if silence]
        if any(silence and silence.for_root for silence in reasons.values()):
            for_root.add(kind)
        said = bad[:3] if good else bad[:3] or [why_none or why_no_power(machine)]
        if len(good) > MOST_OF_A_KIND:
            said.append(f"{len(good) - MOST_OF_A_KIND} more are not read")
        if said:
            absent[kind] = "; ".join(said)
    named = tuple(unique_names(sensors))
    return Sensors(named, tuple(power_domains(named)), absent, frozenset(for_root))


def _listed(finders: Iterable[_Finder], machine: SystemFiles, kind: str) -> list[Sensor]:
    found = chain.from_iterable(find(machine) for find in finders)
    return list(islice((one for one in found if one.quantity.name == kind), 4 * MOST_OF_A_KIND))


def _in_time(work: Callable[[], _Made]) -> _Made | None:
    """What the work makes; None where it takes too long: it is left to itself."""
    made: list[_Made] = []
    thread = threading.Thread(target=lambda: made.append(work()), daemon=True)
    thread.start()
    thread.join(_PATIENCE_S)
    return made[0] if made else None


class _Silence(NamedTuple):
    """Why a sensor can't be read, and whether root could."""

    why: str
    for_root: bool = False


def _why_silent(sensor: Sensor) -> _Silence | None:
    """Why it can't be read; None if it can."""
    tried = _in_time(lambda: (_tried(sensor),))
    return _Silence(f"it did not answer within {_PATIENCE_S:g} s") if tried is None else tried[0]


def _tried(sensor: Sensor) -> _Silence | None:
    try:
        reader = SensorReader(sensor)
    except PermissionError as error:
        return _Silence(f"only root can read {error.filename or sensor.files[0]}", for_root=True)
    except OSError as error:
        return _Silence(error.strerror or str(error))
    try:
        return _Silence("it gives no number") if reader.read() == MISSING else None
    except SensorGoneError as gone:
        return _Silence(str(gone))
    finally:
        reader.close()
