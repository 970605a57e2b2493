"""Where a machine tells its power: RAPL, rails of power monitors, USB meters, the battery.

Layouts: the kernel's Documentation/power/powercap, Documentation/ABI/testing/sysfs-class-hwmon and
sysfs-class-power, Documentation/hwmon/ina3221; NVIDIA's Jetson Linux developer guide.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from edgebench.measures.machine.sensors.sensor import (
    ENERGY,
    POWER,
    PowerDomain,
    Sensor,
    named_entries,
    safe_label,
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
    for chip in named_entries(machine, HWMON, r"hwmon\d+"):
        yield from _rails(machine, chip)
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


def _rails(machine: SystemFiles, chip: str) -> Iterator[Sensor]:
    """What one chip of hwmon tells: power (µW), energy (µJ), or voltages and currents."""
    kind, folder = safe_label(_word(machine, f"{chip}/name")), machine.root / chip
    powers = named_entries(machine, chip, r"power\d+_(input|average)")
    # Where there are both, the mean is of a time that nobody tells.
    inputs = {path.rpartition("_")[0] for path in powers if path.endswith("_input")}
    for path in powers:
        channel, _, end = path.rpartition("/")[2].rpartition("_")
        if end == "average" and path.rpartition("_")[0] in inputs:
            continue
        name = _label(machine, chip, channel)
        yield Sensor(f"{kind}.{name}", POWER, (machine.root / path,))
    for path in named_entries(machine, chip, r"energy\d+_input"):
        name = _label(machine, chip, path.rpartition("/")[2].rpartition("_")[0])
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
                number = re.sub(r"\D", "", path.rpartition("/")[2])
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
        name, folder = f"battery.{safe_label(one.rpartition('/')[2])}", machine.root / one
        if (folder / "power_now").is_file():
            yield Sensor(name, POWER, (folder / "power_now",), magnitude=True)
        elif (folder / "current_now").is_file() and (folder / "voltage_now").is_file():
            # µA · µV
            files = folder / "current_now", folder / "voltage_now"
            yield Sensor(name, POWER, files, factor=1e-6, magnitude=True)


def _label(machine: SystemFiles, chip: str, channel: str) -> str:
    return safe_label(_word(machine, f"{chip}/{channel}_label") or channel)


def _word(machine: SystemFiles, path: str) -> str:
    """A file's text; empty where it can't be read."""
    try:
        return machine.text(path)
    except UnreadableError:
        return ""
