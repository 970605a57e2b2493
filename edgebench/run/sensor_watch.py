"""Reads the machine's sensors while a trial runs: a thread of the harness, outside the trial.

Ten times a second, or as often as a sensor has something new. One that takes long is read so
seldom that it costs a small share of a core. One that never answers stops neither the trial nor
the readings before it; it is not read again in this session.
"""

from __future__ import annotations

import threading
import time
from array import array
from dataclasses import dataclass, field

from edgebench.measures.machine.sensors.energy import SensorSeries
from edgebench.measures.machine.sensors.sensor import (
    ENERGY,
    MISSING,
    POWER,
    PowerDomain,
    Sensor,
    SensorGoneError,
    SensorReader,
    Sensors,
)

#: Between two readings.
INTERVAL_S = 0.1
#: The name of the readings among a trial's tables of samples.
TABLE = "sensors"
#: A sensor is read at most for one part in so many of the time.
_RESTS = 50
#: For the first readings before the trial goes on, for the last ones after it.
_FIRST_PATIENCE_S, _LAST_PATIENCE_S = 0.5, 1.0


@dataclass
class SensorBank:
    """The sensors of a session. ``blocked``: those that never answered, and what is said of them.

    ``interval_s`` is the time between two readings.
    """

    sensors: Sensors
    interval_s: float = INTERVAL_S
    blocked: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SensorReadings:
    """What the sensors told during a trial.

    ``rows`` are the numbers of ``columns`` one after the other; the first is the time, ns.
    ``cpu_s``: what reading cost; None where it did not return. ``lost``: sensor → why it was not
    read to the end.
    """

    sensors: tuple[Sensor, ...]
    rows: array[int]
    interval_s: float
    cpu_s: float | None
    absent: dict[str, str]
    lost: dict[str, str]
    domains: tuple[PowerDomain, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The table's columns."""
        return ("t_ns", *(sensor.column for sensor in self.sensors))

    @property
    def count(self) -> int:
        """How many readings there are."""
        return len(self.rows) // len(self.columns)

    def series(self, sensor: Sensor) -> SensorSeries:
        """What one sensor told, where it told something."""
        step = len(self.columns)
        values = self.rows[self.sensors.index(sensor) + 1 :: step]
        told = [(t, v) for t, v in zip(self.rows[::step], values, strict=True) if v != MISSING]
        return SensorSeries(sensor.quantity, [t for t, _ in told], [v for _, v in told])


class SensorWatch:
    """Reads them within a ``with`` block; then :attr:`readings` has what they told.

    Without a bank it does nothing, and ``readings`` is None.
    """

    def __init__(self, bank: SensorBank | None) -> None:
        self._bank = bank
        self.readings: SensorReadings | None = None
        self._readers: dict[Sensor, SensorReader] = {}
        self._lost: dict[str, str] = {}
        self._due: dict[Sensor, float] = {}
        self._rows = array("q")
        self._first, self._ended = threading.Event(), threading.Event()
        self._cpu_s = 0.0
        self._reading: Sensor | None = None
        self._thread = threading.Thread(target=self._run, name="sensors", daemon=True)
        found = bank.sensors.sensors if bank else ()
        blocked = bank.blocked if bank else {}
        self._sensors = tuple(sensor for sensor in found if sensor.name not in blocked)

    def __enter__(self) -> SensorWatch:
        """Begin; returns after the first readings, if they come soon."""
        if self._sensors:
            self._thread.start()
            self._first.wait(_FIRST_PATIENCE_S)
        return self

    def __exit__(self, *_: object) -> None:
        """Read them once more and end."""
        if self._bank is not None:
            self.readings = self._ended_with(self._bank)

    def tables(self) -> dict[str, tuple[tuple[str, ...], array[int]]]:
        """The readings as a table of samples, by its name; nothing where there are none."""
        made = self.readings
        return {TABLE: (made.columns, made.rows)} if made and made.sensors else {}

    def _ended_with(self, bank: SensorBank) -> SensorReadings:
        cpu_s: float | None = 0.0
        if self._thread.ident is not None:
            self._ended.set()
            self._thread.join(_LAST_PATIENCE_S)
            cpu_s = None if self._thread.is_alive() else self._cpu_s
        stuck = self._reading
        if cpu_s is None and stuck is not None:
            bank.blocked[stuck.name] = f"it did not answer for {_LAST_PATIENCE_S:g} s"
        width = len(self._sensors) + 1
        rows = self._rows[: len(self._rows) // width * width]
        absent, lost = dict(bank.sensors.absent), {**self._lost, **bank.blocked}
        return SensorReadings(
            *(self._sensors, rows, bank.interval_s, cpu_s, absent, lost, bank.sensors.domains)
        )

    def _run(self) -> None:
        """What the thread does."""
        assert self._bank is not None
        interval_s = self._bank.interval_s
        try:
            self._open()
            self._read(everything=True)
            self._first.set()
            due = time.monotonic()
            while not self._ended.wait(max(0.0, due + interval_s - time.monotonic())):
                due = max(due + interval_s, time.monotonic() - interval_s)
                self._read()
            self._read(everything=True)
        finally:
            for reader in self._readers.values():
                reader.close()
            self._cpu_s = time.thread_time()

    def _open(self) -> None:
        for sensor in self._sensors:
            self._reading = sensor
            try:
                self._readers[sensor] = SensorReader(sensor)
            except OSError as error:
                self._lost[sensor.name] = error.strerror or str(error)
        self._reading = None

    def _read(self, everything: bool = False) -> None:
        """One row. Its time is the middle of the readings of power and energy, which come first."""
        began = time.monotonic_ns()
        ended = began
        values = []
        for sensor in self._sensors:
            is_due = everything or began >= self._due.get(sensor, 0)
            values.append(self._value(sensor) if is_due else MISSING)
            if sensor.quantity in (ENERGY, POWER):
                ended = time.monotonic_ns()
        self._rows.extend([(began + ended) // 2, *values])

    def _value(self, sensor: Sensor) -> int:
        reader = self._readers.get(sensor)
        if reader is None:
            return MISSING
        began = time.monotonic_ns()
        self._reading = sensor
        try:
            return reader.read()
        except SensorGoneError as gone:
            self._lost[sensor.name] = str(gone)
            self._readers.pop(sensor).close()
            return MISSING
        finally:
            self._reading = None
            now = time.monotonic_ns()
            # Nine tenths: a wake-up is never quite on time.
            wait_ns = max(sensor.least_s * 0.9e9, _RESTS * (now - began))
            self._due[sensor] = now + wait_ns
