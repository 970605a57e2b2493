"""From a trial's sensor readings to its record: energy, throttling, temperature."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from edgebench.measures.machine.sensors.energy import Energy, SensorSeries, Window, energy_of
from edgebench.measures.machine.sensors.places import PI_CAUSES
from edgebench.measures.machine.sensors.sensor import (
    CLOCK,
    EVENTS,
    FLAGS,
    LEVEL,
    TEMPERATURE,
    PowerDomain,
)
from edgebench.records import EnergyReport, SensorReport, TrialRecord
from edgebench.results.rounds import START, STEADY, round_stages
from edgebench.spans import Span, finished_spans

if TYPE_CHECKING:
    from edgebench.run.sensor_watch import SensorReadings
    from edgebench.run.walk_control import WalkStep

#: Rounds that fill less of the time from the first to the last are not one stretch of time.
_LEAST_FILLED = 0.9
NOT_READ = "the sensors were not read"
_TOO_SHORT = "too short for the sensor: it was read less than twice within it"


@dataclass(frozen=True)
class _Times:
    """Which times of a trial energy is told of."""

    whole: Window
    rounds: list[Window]
    executions: list[Window]
    passes: int

    @classmethod
    def of(cls, record: TrialRecord, spans: Sequence[Span], whole: Window) -> _Times:
        """Its rounds that repeat (its start, where only one was run) and what they execute."""
        stages = round_stages(record)
        wanted = STEADY if STEADY in stages.values() else START
        own = [s for s in spans if stages.get(s.round) == wanted]
        rounds = [_window(s) for s in own if s.phase == "round"]
        # A pass of a whole network, or of one of a pipeline: not the layers in it.
        executions = [_window(s) for s in own if s.phase == "execute" and s.layer is None]
        networks = Counter(s.network for s in own if s.phase == "execute" and s.layer is None)
        passes = max(networks.values(), default=0)
        return cls(whole, sorted(rounds), sorted(executions), passes)


def with_energy(
    record: TrialRecord,
    readings: SensorReadings | None,
    events: Iterable[dict[str, Any]],
    whole: Window,
) -> TrialRecord:
    """The record with what the sensors told of it.

    Args:
        record: one trial's.
        readings: None: they were not read.
        events: its worker's.
        whole: from when to when it ran, monotonic ns.
    """
    if readings is None:
        return replace(record, missing={**record.missing, "energy": NOT_READ})
    # Of a long training to read them takes a while.
    spans = finished_spans(events) if readings.domains else []
    told = list(_domains(readings, _Times.of(record, spans, whole)))
    seen = _report(readings)
    best = next(((domain, one) for domain, one in told if one.get("j") is not None), None)
    record = replace(record, sensors=seen)
    if best is None:
        return replace(record, missing={**record.missing, "energy": _why_none(readings, told)})
    every = [{"domain": d.name, "columns": list(d.columns), **one} for d, one in told]
    report = EnergyReport(**best[1], domains=every)
    missing = dict(record.missing)
    if report.round_j is None and any(span.phase == "round" for span in spans):
        missing["energy_round"] = _TOO_SHORT
    return replace(record, energy=report, energy_domain=best[0].name, missing=missing)


def with_walk_energy(
    records: Sequence[TrialRecord],
    steps: Sequence[WalkStep],
    readings: SensorReadings | None,
    whole: Window,
) -> list[TrialRecord]:
    """Each limit's record with the energy of its time; what is said of all stands in the first.

    ``whole`` is from when to when the process ran.
    """
    made = []
    for number, (record, step) in enumerate(zip(records, steps, strict=True)):
        # The first limit is there before the process is.
        start_ns = max(step.start_ns, whole[0])
        ended_ns = min(step.end_ns or start_ns, whole[1])
        told = with_energy(record, readings, step.every_event(), (start_ns, ended_ns))
        made.append(told if number == 0 else replace(told, sensors=None))
    return made


def _domains(
    readings: SensorReadings, times: _Times
) -> Iterator[tuple[PowerDomain, dict[str, float | None]]]:
    """Each domain with its joules."""
    by_column = {sensor.column: sensor for sensor in readings.sensors}
    for domain in readings.domains:
        if not set(domain.columns) <= set(by_column):
            continue
        series = [readings.series(by_column[column]) for column in domain.columns]
        whole = energy_of(series, [times.whole])
        own = {"j": whole, "round_j": _each_round(series, times)}
        own["execution_j"] = _each_execution(series, times)
        yield domain, _numbers(own)


def _numbers(energies: Mapping[str, Energy | None]) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for name, energy in energies.items():
        found[name] = energy.energy_j if energy else None
        found[name.removesuffix("j") + "error_j"] = energy.error_j if energy else None
    return found


def _each_round(series: Sequence[SensorSeries], times: _Times) -> Energy | None:
    """The mean of the rounds: of the stretch from the first to the last, where they fill it."""
    if not times.rounds:
        return None
    stretch = times.rounds[0][0], times.rounds[-1][1]
    filled = _length(times.rounds) / max(1, stretch[1] - stretch[0])
    if filled < _LEAST_FILLED:
        energy = energy_of(series, times.rounds)
    else:
        energy = energy_of(series, [stretch])
        energy = energy.share(filled) if energy else None
    return energy.share(1 / len(times.rounds)) if energy else None


def _each_execution(series: Sequence[SensorSeries], times: _Times) -> Energy | None:
    energy = energy_of(series, times.executions) if times.executions else None
    if energy is None or energy.error_j >= energy.energy_j:
        return None
    return energy.share(1 / times.passes)


def _report(readings: SensorReadings) -> SensorReport:
    told = {sensor: readings.series(sensor) for sensor in readings.sensors}
    hot = [v for s, one in told.items() if s.quantity is TEMPERATURE for v in one.values]
    cores = [s for s in told if s.quantity is CLOCK and s.name.startswith("cpu.")]
    slow = [value for sensor in cores for value in told[sensor].values if value > 0]
    throttled: dict[str, float] = {}
    events: dict[str, int] = {}
    for sensor, one in told.items():
        if sensor.quantity is EVENTS and (count := _rise(one.values)):
            events[sensor.cause] = max(count, events.get(sensor.cause, 0))
        if sensor.quantity is LEVEL and any(value > 0 for value in one.values):
            _longest(throttled, sensor.cause, _seconds(one, lambda level: level > 0))
        if sensor.quantity is FLAGS:
            for bit, cause in PI_CAUSES.items():
                now, since = 1 << bit, 1 << bit + 16
                rose = any(~a & b & since for a, b in pairwise(one.values))
                if rose or any(value & now for value in one.values):
                    _longest(throttled, cause, _seconds(one, lambda word, now=now: word & now > 0))
    return SensorReport(
        interval_s=readings.interval_s,
        readings=readings.count,
        cpu_s=readings.cpu_s,
        read=[sensor.column for sensor in readings.sensors],
        absent=readings.absent,
        lost=readings.lost,
        throttled_s=throttled,
        throttle_events=events,
        temperature_max_c=max(hot) * TEMPERATURE.scale if hot else None,
        clock_least_hz=min(slow, default=None),
    )


def _longest(throttled: dict[str, float], cause: str, seconds: float) -> None:
    """Two sensors may tell of the same cause."""
    throttled[cause] = max(seconds, throttled.get(cause, 0.0))


def _seconds(series: SensorSeries, is_so: Any) -> float:
    """For how long it was so, each reading standing for the time until the next one."""
    times, values = series.times_ns, series.values
    return sum(times[n + 1] - times[n] for n in range(len(times) - 1) if is_so(values[n])) / 1e9


def _rise(values: Sequence[int]) -> int:
    return values[-1] - values[0] if values else 0


def _why_none(readings: SensorReadings, told: Sequence[object]) -> str:
    if not readings.domains:
        return readings.absent.get("power", "no sensor tells power")
    if readings.lost:
        return "; ".join(f"{name}: {reason}" for name, reason in readings.lost.items())
    return _TOO_SHORT if told else NOT_READ


def _window(span: Span) -> Window:
    return span.start_ns, span.end_ns


def _length(windows: Iterable[Window]) -> int:
    return sum(end - start for start, end in windows)
