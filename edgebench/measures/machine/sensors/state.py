"""Temperatures, clocks, fans, and what slows the machine down.

Layouts: the kernel's Documentation/ABI/testing/sysfs-class-thermal, sysfs-class-hwmon and
sysfs-devices-system-cpu; the Raspberry Pi firmware's ``get_throttled``; NVIDIA's ``soctherm_oc``.
"""

from __future__ import annotations

from collections.abc import Iterator

from edgebench.measures.machine.sensors.sensor import (
    CLOCK,
    EVENTS,
    FAN,
    FAN_LEVEL,
    FLAGS,
    LEVEL,
    TEMPERATURE,
    Sensor,
    named_entries,
    safe_label,
)
from edgebench.measures.machine.system_files import SystemFiles, UnreadableError

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
        name = safe_label(_word(machine, f"{zone}/type") or zone.rpartition("/")[2])
        if name not in _FIXED_ZONES:
            yield Sensor(f"zone.{name}", TEMPERATURE, (machine.root / zone / "temp",))
    if zones:
        return
    for chip in named_entries(machine, HWMON, r"hwmon\d+"):
        kind = safe_label(_word(machine, f"{chip}/name"))
        for path in named_entries(machine, chip, r"temp\d+_input"):
            channel = path.rpartition("/")[2].removesuffix("_input")
            name = safe_label(_word(machine, f"{chip}/{channel}_label") or channel)
            yield Sensor(f"{kind}.{name}", TEMPERATURE, (machine.root / path,))


def clock_sensors(machine: SystemFiles) -> Iterator[Sensor]:
    """Cores that share a clock, then GPU and memory where they tell theirs."""
    policies = named_entries(machine, f"{CPUS}/cpufreq", r"policy\d+")
    for policy in policies:
        name = f"cpu.{policy.rpartition('/')[2]}"
        yield Sensor(name, CLOCK, (machine.root / policy / "scaling_cur_freq",), factor=1000)
    if not policies:
        for cpu in named_entries(machine, CPUS, r"cpu\d+"):
            name = f"cpu.{cpu.rpartition('/')[2]}"
            if (file := machine.root / cpu / "cpufreq" / "scaling_cur_freq").is_file():
                yield Sensor(name, CLOCK, (file,), factor=1000)
    for device in named_entries(machine, _DEVFREQ, r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}"):
        name = safe_label(device.rpartition("/")[2])
        yield Sensor(f"devfreq.{name}", CLOCK, (machine.root / device / "cur_freq",))


def fan_sensors(machine: SystemFiles) -> Iterator[Sensor]:
    """Each fan's speed, and the level (0 to 255) that it is set to."""
    for chip in named_entries(machine, HWMON, r"hwmon\d+"):
        kind = safe_label(_word(machine, f"{chip}/name"))
        for path in named_entries(machine, chip, r"fan\d+_input"):
            name = path.rpartition("/")[2].removesuffix("_input")
            yield Sensor(f"{kind}.{name}", FAN, (machine.root / path,))
        if kind == "pwm_tach":
            # NVIDIA's own name for what other drivers call fan1_input.
            for path in named_entries(machine, chip, "rpm"):
                yield Sensor(f"{kind}.fan1", FAN, (machine.root / path,))
        for path in named_entries(machine, chip, r"pwm\d+"):
            name = path.rpartition("/")[2]
            yield Sensor(f"{kind}.{name}", FAN_LEVEL, (machine.root / path,))
    # JetPack 4 has its fan here alone.
    for path in named_entries(machine, "sys/devices/pwm-fan", "cur_pwm"):
        yield Sensor("pwm-fan", FAN_LEVEL, (machine.root / path,))


def throttling_sensors(machine: SystemFiles) -> Iterator[Sensor]:
    """What tells that something is slowed down, or was."""
    yield from _raspberry_pi(machine)
    for chip in named_entries(machine, HWMON, r"hwmon\d+"):
        kind = _word(machine, f"{chip}/name")
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
                name = f"{cpu.rpartition('/')[2]}.{of}_throttle"
                if file.is_file():
                    yield Sensor(name, EVENTS, (file,), cause=f"temperature of the {of}")
    for device in named_entries(machine, THERMAL, r"cooling_device\d+"):
        name = safe_label(_word(machine, f"{device}/type") or device.rpartition("/")[2])
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


def _word(machine: SystemFiles, path: str) -> str:
    """A file's text; empty where it can't be read."""
    try:
        return machine.text(path)
    except UnreadableError:
        return ""
