"""What a sensor is, and how it is read: files that are kept open, or a program that is asked."""

from __future__ import annotations

import errno
import os
import re
import stat
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path

from edgebench.measures.machine.system_files import SystemFiles
from edgebench.records import LARGEST

#: In a table of readings: not read this time, or the sensor gave no number.
MISSING = -LARGEST - 1
_MOST_BYTES = 64
_COMMAND_PATIENCE_S = 0.5
_NUMBER = re.compile(rb"[+-]?[0-9]{1,20}")
_HEX = re.compile(rb"(?:0x)?[0-9A-Fa-f]{1,8}")
_UNFIT = re.compile(r"[^A-Za-z0-9_.+-]+")
_MOST_LETTERS = 40


@dataclass(frozen=True)
class Quantity:
    """What sensors measure.

    ``stored`` is the unit of the whole numbers in a table of readings, ``shown`` that of frames;
    a shown number is the stored one times ``scale``.
    """

    name: str
    stored: str
    shown: str
    scale: float = 1.0


#: A counter of energy since some moment, and power at a moment.
ENERGY, POWER = Quantity("power", "uj", "j", 1e-6), Quantity("power", "uw", "w", 1e-6)
TEMPERATURE = Quantity("temperature", "mc", "c", 1e-3)
CLOCK = Quantity("clock", "hz", "hz")
#: Events are counted; flags are a word of bits; at a level above 0 something is slowed down.
EVENTS, FLAGS = Quantity("throttling", "events", "events"), Quantity("throttling", "flags", "flags")
LEVEL = Quantity("throttling", "level", "level")
FAN, FAN_LEVEL = Quantity("fan", "rpm", "rpm"), Quantity("fan", "pwm", "pwm")
#: All kinds of quantities, in the order in which they are read and shown.
QUANTITIES = (ENERGY, POWER, TEMPERATURE, CLOCK, EVENTS, FLAGS, LEVEL, FAN, FAN_LEVEL)
KINDS = tuple(dict.fromkeys(quantity.name for quantity in QUANTITIES))


@dataclass(frozen=True)
class Sensor:
    """One sensor.

    Args:
        name: what it is called in results: letters, digits and ``_.+-`` alone.
        quantity: what it measures.
        files: whose whole numbers are multiplied (a voltage and a current, or one file alone).
        factor: from that product to the quantity's stored unit.
        wraps_at: the highest number of a counter, behind which it begins again at 0; 0: never.
        hexadecimal: whether the file's number is.
        least_s: it has nothing new sooner, seconds.
        cause: of throttling, in words.
        magnitude: only how large it is counts: a battery's current is negative while it is used.
        command: a program that tells it after an equals sign, where there is no file.
    """

    name: str
    quantity: Quantity
    files: tuple[Path, ...] = ()
    factor: float = 1.0
    wraps_at: int = 0
    hexadecimal: bool = False
    least_s: float = 0.0
    cause: str = ""
    magnitude: bool = False
    command: tuple[str, ...] = ()

    @property
    def column(self) -> str:
        """Its column in a table of readings."""
        return f"{self.name}_{self.quantity.stored}"


@dataclass(frozen=True)
class PowerDomain:
    """What a figure of energy is of: the sum of some sensors, by their columns."""

    name: str
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Sensors:
    """The sensors of one machine.

    ``domains``: what energy can be told of, the one that covers most first. ``absent``: kind of
    quantity → why there is none, or why some are left out. ``for_root``: kinds of which this user
    may not read some.
    """

    sensors: tuple[Sensor, ...] = ()
    domains: tuple[PowerDomain, ...] = ()
    absent: dict[str, str] = field(default_factory=dict)
    for_root: frozenset[str] = frozenset()


class SensorGoneError(Exception):
    """The sensor can't be read any more; the message says why."""


class SensorReader:
    """A sensor's files, kept open.

    Raises:
        OSError: one of them can't be opened, or is no file of its own.
    """

    def __init__(self, sensor: Sensor) -> None:
        self.sensor = sensor
        self._fds: list[int] = []
        self._last: int | None = None
        self._turns = 0
        try:
            for path in sensor.files:
                self._fds.append(_opened(path))
        except OSError:
            self.close()
            raise

    def read(self) -> int:
        """Its number now, in its quantity's stored unit; :data:`MISSING` where it gave none.

        A counter goes on where it began again at 0.

        Raises:
            SensorGoneError: its file is gone, or it is a counter that went back.
        """
        try:
            texts = [os.pread(fd, _MOST_BYTES, 0).strip() for fd in self._fds]
            texts += [_answer(self.sensor.command)] if self.sensor.command else []
        except FileNotFoundError:
            raise SensorGoneError("its file is gone") from None
        except OSError as error:
            if error.errno in (errno.ENODEV, errno.ENXIO):
                raise SensorGoneError("its device is gone") from None
            # A rail that is switched off, a zone that sleeps: it may answer the next time.
            return MISSING
        shape, base = (_HEX, 16) if self.sensor.hexadecimal else (_NUMBER, 10)
        if not all(map(shape.fullmatch, texts)):
            return MISSING
        value = round(prod(int(text, base) for text in texts) * self.sensor.factor)
        value = self._unwrapped(value) if self.sensor.quantity is ENERGY else value
        value = abs(value) if self.sensor.magnitude else value
        return value if abs(value) <= LARGEST else MISSING

    def _unwrapped(self, value: int) -> int:
        if self._last is not None and value < self._last:
            if not self.sensor.wraps_at:
                raise SensorGoneError("its counter went back")
            self._turns += 1
        self._last = value
        return value + self._turns * self.sensor.wraps_at

    def close(self) -> None:
        """Close its files. Safe to call twice."""
        while self._fds:
            os.close(self._fds.pop())


def _answer(command: tuple[str, ...]) -> bytes:
    """What the program tells, as ``0x50000`` of ``throttled=0x50000``.

    Raises:
        SensorGoneError: it can't be run, or takes too long.
    """
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=_COMMAND_PATIENCE_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SensorGoneError(f"its program did not tell it: {error}") from None
    return done.stdout[:_MOST_BYTES].strip().rpartition(b"=")[2]


def _opened(path: Path) -> int:
    """A file of its own, opened without waiting for anybody."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(f"{path.name} is no plain file")
    return fd


def safe_label(text: str) -> str:
    """A label of the kernel's or a board's as a name: never more than letters, digits, ``_.+-``."""
    return _UNFIT.sub("-", text)[:_MOST_LETTERS].strip("-.") or "unnamed"


def named_entries(machine: SystemFiles, folder: str, pattern: str) -> list[str]:
    """The paths in a folder of the machine whose names are of this shape, by their numbers.

    A name that isn't becomes no path.
    """
    try:
        names = [path.name for path in (machine.root / folder).iterdir()]
    except OSError:
        return []
    fit = [name for name in names if re.fullmatch(pattern, name)]
    return [f"{folder}/{name}" for name in sorted(fit, key=_by_numbers)]


def _by_numbers(name: str) -> list[tuple[int, str]]:
    parts = re.split(r"(\d+)", name)
    return [(int(part), "") if part.isdigit() else (-1, part) for part in parts]


def unique_names(sensors: Iterable[Sensor]) -> list[Sensor]:
    """The sensors, the second of one column as ``name-2``."""
    taken: set[str] = set()
    made = []
    for sensor in sensors:
        number, name = 1, sensor.name
        while f"{name}_{sensor.quantity.stored}" in taken:
            number += 1
            name = f"{sensor.name}-{number}"
        made.append(replace(sensor, name=name))
        taken.add(made[-1].column)
    return made
