"""What a trial's record says of energy, throttling and temperature, from injected readings."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from results_making import EventLog, record

from edgebench.measures.machine.sensors.sensor import (
    CLOCK,
    ENERGY,
    EVENTS,
    FLAGS,
    LEVEL,
    MISSING,
    TEMPERATURE,
    PowerDomain,
    Quantity,
    Sensor,
)
from edgebench.records import TrialRecord
from edgebench.run.sensor_watch import SensorReadings
from edgebench.run.trial_energy import NOT_READ, with_energy, with_walk_energy
from edgebench.run.walk_control import WalkStep
from edgebench.scenario.walk import Visit
from edgebench.spans import events_to_phases

S = 10**9
STEP = S // 20
METER = Sensor("rapl.package", ENERGY, (Path("/nowhere"),))
MEMORY = Sensor("rapl.dram", ENERGY, (Path("/nowhere"),))
PACKAGE = PowerDomain("package", (METER.column,))
BOTH = PowerDomain("package and memory", (METER.column, MEMORY.column))


def sensor(name: str, quantity: Quantity, cause: str = "") -> Sensor:
    """One that is read from a file."""
    return Sensor(name, quantity, (Path("/nowhere"),), cause=cause)


def rounds_log(rounds: int = 4, round_s: float = 1.0, pause_s: float = 0.0) -> EventLog:
    """Each round executes its network twice, a quarter of a second each, layer by layer."""
    log = EventLog()
    log.t_ns = 10 * S
    for number in range(rounds):
        whole = log.start("round", round=number)
        for _ in range(2):
            about = {"round": number, "network": "lenet"}
            glue = log.start("execute", **about)
            log.whole("execute", 0.2, layer=0, name="conv", **about)
            log.end(glue, 0.05)
        log.end(whole, round_s - 0.5)
        log.t_ns += round(pause_s * S)
    return log


def made(log: EventLog) -> TrialRecord:
    """The trial's record, before its energy is known."""
    return record(phases=events_to_phases(log.events))


def readings(
    sensors: dict[Sensor, Callable[[int], int]],
    end_s: float,
    *domains: PowerDomain,
    lost: dict[str, str] | None = None,
    absent: dict[str, str] | None = None,
) -> SensorReadings:
    """20 a second from second 9 on; each sensor's number is a function of the time, ns."""
    rows = array("q")
    for t_ns in range(9 * S, round(end_s * S) + 1, STEP):
        rows.extend([t_ns, *(value(t_ns) for value in sensors.values())])
    return SensorReadings((*sensors,), rows, 0.05, 0.01, absent or {}, lost or {}, domains)


def counter(*stretches: tuple[float, float, float]) -> Callable[[int], int]:
    """Microjoules of a counter that rises by so many watts from one second to another."""

    def value(t_ns: int) -> int:
        spans = ((max(0.0, min(t_ns / S, end) - start), watts) for start, end, watts in stretches)
        return round(sum(seconds * watts for seconds, watts in spans) * 1e6)

    return value


def test_energy_of_a_trial_its_rounds_and_its_executions() -> None:
    """Of the whole run; a steady round's mean; one pass's mean. The first round counts apart."""
    log = rounds_log()
    told = readings({METER: counter((10, 11, 2), (11, 14, 4))}, 15, PACKAGE)
    seen = with_energy(made(log), told, log.events, (10 * S, 14 * S))
    assert seen.energy is not None
    assert seen.energy.j == pytest.approx(14)
    assert seen.energy.round_j == pytest.approx(4)
    assert seen.energy.execution_j == pytest.approx(1)
    errors = (seen.energy.error_j, seen.energy.round_error_j, seen.energy.execution_error_j)
    assert errors == pytest.approx((0, 0, 0))
    assert seen.energy_domain == "package"
    assert seen.missing == made(log).missing


def test_of_a_single_round_it_is_that_round_s() -> None:
    """A start alone: its energy is a round's."""
    log = rounds_log(1)
    told = readings({METER: counter((10, 11, 3))}, 12, PACKAGE)
    energy = with_energy(made(log), told, log.events, (10 * S, 11 * S)).energy
    assert energy is not None
    assert energy.round_j == pytest.approx(3)


@pytest.mark.parametrize("pause_s", [0.05, 1.0])
def test_what_is_between_rounds_is_no_round_s(pause_s: float) -> None:
    """Rounds apart count alone; of those with short pauses, their share of the whole stretch."""
    log = rounds_log(4, 1.0, pause_s)
    begins = [10 + number * (1 + pause_s) for number in range(4)]
    meter = counter(*((begin, begin + 1, 4) for begin in begins))
    told = readings({METER: meter}, 19, PACKAGE)
    energy = with_energy(made(log), told, log.events, (10 * S, 18 * S)).energy
    assert energy is not None
    filled = 3 / (3 + 2 * pause_s)
    assert energy.round_j == pytest.approx(4 * filled if filled >= 0.9 else 4)


def test_a_domain_is_the_sum_of_its_sensors_and_each_is_told() -> None:
    """One of which a sensor is missing is left out; the first that tells energy is the trial's."""
    log = rounds_log()
    sensors = {METER: counter((10, 14, 2)), MEMORY: counter((10, 14, 1))}
    gone = PowerDomain("module", ("ina3221.gone_uj",))
    seen = with_energy(
        made(log), readings(sensors, 15, gone, BOTH, PACKAGE), log.events, (10 * S, 14 * S)
    )
    assert seen.energy is not None
    assert seen.energy_domain == "package and memory"
    assert seen.energy.j == pytest.approx(12)
    told = [(one["domain"], one["columns"], one["j"]) for one in seen.energy.domains]
    assert told == [
        ("package and memory", [METER.column, MEMORY.column], pytest.approx(12)),
        ("package", [METER.column], pytest.approx(8)),
    ]


def test_an_execution_of_which_nothing_is_known_has_no_energy() -> None:
    """Read once a second, a counter says of a quarter of it: anything. The round is known."""
    log = rounds_log()
    rows = array("q")
    for second in range(9, 16):
        rows.extend([second * S, max(0, second - 10) * 4_000_000])
    told = SensorReadings((METER,), rows, 1.0, 0.01, {}, {}, (PACKAGE,))
    energy = with_energy(made(log), told, log.events, (10 * S, 14 * S)).energy
    assert energy is not None
    assert (energy.round_j, energy.execution_j) == (pytest.approx(4), None)


def test_rounds_that_readings_do_not_cover_are_told() -> None:
    """The trial's own energy is there, and why that of its rounds is not."""
    log = rounds_log()
    rows = array("q", [9 * S, 0, 10 * S, 0, 12 * S, 8_000_000])
    told = SensorReadings((METER,), rows, 1.0, 0.01, {}, {}, (PACKAGE,))
    seen = with_energy(made(log), told, log.events, (10 * S, 12 * S))
    assert seen.energy is not None
    assert (seen.energy.j, seen.energy.round_j) == (pytest.approx(8), None)
    assert seen.missing["energy_round"].startswith("too short for the sensor")


@pytest.mark.parametrize(
    ("told", "why"),
    [
        (None, NOT_READ),
        (readings({}, 10, absent={"power": "no RAPL here"}), "no RAPL here"),
        (readings({}, 10), "no sensor tells power"),
        (
            readings({METER: counter()}, 9, PACKAGE, lost={"a": "gone", "b": "slow"}),
            "a: gone; b: slow",
        ),
        (readings({METER: counter()}, 9, PACKAGE), "too short for the sensor"),
        (readings({MEMORY: counter()}, 15, PACKAGE), NOT_READ),
    ],
)
def test_why_there_is_no_energy(told: SensorReadings | None, why: str) -> None:
    """The reason stands in its place, beside what else is missing."""
    log = rounds_log()
    before = record(phases=events_to_phases(log.events), missing={"gnu_time": "none"})
    seen = with_energy(before, told, log.events, (10 * S, 14 * S))
    assert seen.energy is None
    assert seen.missing["energy"].startswith(why)
    assert seen.missing["gnu_time"] == "none"
    assert (seen.sensors is None) == (told is None)


def reported(sensors: dict[Sensor, Callable[[int], int]], **more: Any) -> Any:
    """What the record says of sensors read from second 9 to second 14."""
    log = rounds_log()
    told = readings(sensors, 14, **more)
    return with_energy(made(log), told, log.events, (10 * S, 14 * S)).sensors


def from_to(start_s: float, end_s: float, value: int, otherwise: int = 0) -> Callable[[int], int]:
    """A value between two times, and another before and after them."""
    return lambda t_ns: value if start_s * S <= t_ns < end_s * S else otherwise


def test_what_was_read_stands_in_the_record() -> None:
    """Sensors by their columns, how often and at which cost; what was absent, what was lost."""
    heat, cooler = sensor("zone.cpu", TEMPERATURE), sensor("zone.gpu", TEMPERATURE)
    clocks = [sensor("cpu.0", CLOCK), sensor("cpu.1", CLOCK), sensor("gpu.0", CLOCK)]
    seen = reported(
        {
            heat: from_to(11, 12, 81_500, 45_000),
            cooler: from_to(0, 99, 50_000),
            clocks[0]: from_to(12, 13, 600_000_000, 1_800_000_000),
            # Off, and not read.
            clocks[1]: from_to(12, 13, 0, MISSING),
            clocks[2]: from_to(0, 99, 100_000_000),
        },
        absent={"fan": "none"},
        lost={"zone.x": "gone"},
    )
    assert seen.temperature_max_c == pytest.approx(81.5)
    assert seen.clock_least_hz == 600_000_000
    assert (seen.interval_s, seen.readings, seen.cpu_s) == (0.05, 101, 0.01)
    assert seen.read == [heat.column, cooler.column, *(clock.column for clock in clocks)]
    assert (seen.absent, seen.lost) == ({"fan": "none"}, {"zone.x": "gone"})
    assert (seen.throttled_s, seen.throttle_events) == ({}, {})


def test_without_sensors_of_heat_and_clock_neither_is_told() -> None:
    """No number, not 0."""
    seen = reported({METER: counter()})
    assert (seen.temperature_max_c, seen.clock_least_hz) == (None, None)


def test_throttling_is_the_longest_that_a_sensor_tells_of_its_cause() -> None:
    """Two sensors of one cause are not added up; a level that was always 0 is no cause."""
    seen = reported(
        {
            sensor("cooling.0", LEVEL, "heat"): from_to(10, 11, 1),
            sensor("cooling.1", LEVEL, "heat"): from_to(10, 12.5, 3),
            sensor("cooling.2", LEVEL, "heat"): from_to(10, 10.5, 1),
            sensor("cooling.3", LEVEL, "power"): from_to(0, 0, 1),
            sensor("core.0", EVENTS, "heat"): from_to(12, 99, 7, 5),
            sensor("core.1", EVENTS, "heat"): from_to(12, 99, 4, 1),
            sensor("core.2", EVENTS, "current"): from_to(0, 99, 9),
        }
    )
    assert seen.throttled_s == {"heat": pytest.approx(2.5)}
    assert seen.throttle_events == {"heat": 3}


def test_the_raspberry_pi_s_flags() -> None:
    """Bit 0 and its fellows are of now, those 16 above are of since the start: a rise counts."""
    seen = reported({sensor("pi", FLAGS): from_to(10, 11, 0b1 | 1 << 16, 1 << 16)})
    assert seen.throttled_s == {"under-voltage": pytest.approx(1)}
    # Between two readings: it rose, and for how long is not known.
    seen = reported({sensor("pi", FLAGS): from_to(11, 99, 1 << 18)})
    assert seen.throttled_s == {"the firmware throttles": 0}
    # From the start on: before this trial.
    assert reported({sensor("pi", FLAGS): from_to(0, 99, 0b1111 << 16)}).throttled_s == {}


def test_each_limit_of_a_walk_has_the_energy_of_its_time() -> None:
    """The first from when the process is there, the last to its end; sensors stand in the first."""
    log = rounds_log()
    told = readings({METER: counter((9, 11, 2), (11, 14, 4))}, 15, PACKAGE)
    steps = [
        WalkStep(Visit(None), None, start_ns=9 * S, end_ns=11 * S, events=log.events),
        WalkStep(Visit(5, "down"), 5, start_ns=11 * S, end_ns=13 * S, events=log.events),
        WalkStep(Visit(4, "down"), 4, start_ns=13 * S, end_ns=15 * S, events=log.events),
        WalkStep(Visit(3, "down"), 3, start_ns=14 * S, events=log.events),
    ]
    seen = with_walk_energy([made(log)] * 4, steps, told, (10 * S, 14 * S))
    joules = [one.energy and one.energy.j for one in seen]
    assert joules == [pytest.approx(2), pytest.approx(8), pytest.approx(4), 0]
    assert [one.sensors is not None for one in seen] == [True, False, False, False]
