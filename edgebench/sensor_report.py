"""What a record says of the machine's sensors while a trial ran, and of its energy."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class EnergyReport:
    """Energy of a trial, in joules, of the domain that the record names in ``energy_domain``.

    Each ``…error_j`` is how far off the integration may be (see
    :mod:`edgebench.measures.machine.sensors.energy`); the sensor's own error is not in it.

    Args:
        j, error_j: the whole trial, from its process's start to its end.
        round_j, round_error_j: one steady round (the start, where only one was run): of training
            a step. The mean of them.
        execution_j, execution_error_j: one warm execution within those rounds; the mean of them.
        domains: the same of every domain that is told: its name as ``domain``, and the ``columns``
            of readings that are added up.
    """

    j: float | None = None
    error_j: float | None = None
    round_j: float | None = None
    round_error_j: float | None = None
    execution_j: float | None = None
    execution_error_j: float | None = None
    domains: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class SensorReport:
    """How the machine's sensors were read, and what they saw beside energy.

    Args:
        interval_s: between two readings; a sensor that takes long is read less often.
        readings: how many there were.
        cpu_s: what they cost the harness; None: the last one did not return.
        read: the columns that were read.
        absent: kind of sensor → why there is none, or why some are not read.
        lost: sensor → why it was not read to the end.
        throttled_s: cause → seconds for which something was slowed down. 0.0: for less than
            between two readings.
        throttle_events: cause → how often.
        temperature_max_c: the highest of all.
        clock_least_hz: the lowest of the cores.
    """

    interval_s: float
    readings: int
    cpu_s: float | None = None
    read: list[str] = field(default_factory=list)
    absent: dict[str, str] = field(default_factory=dict)
    lost: dict[str, str] = field(default_factory=dict)
    throttled_s: dict[str, Any] = field(default_factory=dict)
    throttle_events: dict[str, Any] = field(default_factory=dict)
    temperature_max_c: float | None = None
    clock_least_hz: float | None = None
