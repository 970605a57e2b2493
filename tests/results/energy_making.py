"""A sweep whose trials have sensors' readings: power that is known at each limit."""

from __future__ import annotations

import io
from array import array
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from results_making import MIB, inference_events, make_sweep, record

from edgebench.cgroups.sampler_process import write_archive
from edgebench.measures.machine.sensors.sensor import (
    LEVEL,
    POWER,
    TEMPERATURE,
    PowerDomain,
    Sensor,
)
from edgebench.records import TrialRecord
from edgebench.run.sensor_watch import SensorReadings
from edgebench.run.trial_energy import with_energy

#: Watts of the module at each limit, whatever runs.
WATTS = {"max": 5.0, "150M": 4.0, "100M": 3.0}
ROUNDS, WARM = 4, 2
RAIL = Sensor("ina3221.VDD_IN", POWER, (Path("/nowhere"),))
HEAT = Sensor("zone.cpu", TEMPERATURE, (Path("/nowhere"),))
SLOW = Sensor("cooling.cpu", LEVEL, (Path("/nowhere"),), cause="temperature (cpu)")
DOMAIN = PowerDomain("module", (RAIL.column,))


def events_at(label: str) -> list[dict[str, Any]]:
    """Loading takes four times as long at 150M."""
    return inference_events(4.0 if label == "150M" else 1.0, ROUNDS, WARM)


def readings_of(events: list[dict[str, Any]], watts: float) -> SensorReadings:
    """Ten a second, from before the first event to after the last one."""
    start, end = events[0]["t_ns"] - 10**8, events[-1]["t_ns"] + 2 * 10**8
    rows = array("q")
    for t_ns in range(start, end, 10**8):
        rows.extend([t_ns, round(watts * 1e6), 45_000, 0])
    return SensorReadings((RAIL, HEAT, SLOW), rows, 0.1, 0.01, {"fan": "none"}, {}, (DOMAIN,))


def energy_record(trial: str, label: str, block: int) -> TrialRecord:
    """A trial of lenet with its energy; killed at 100M."""
    sizes = {"150M": 150 * MIB, "100M": 100 * MIB}
    if label == "100M":
        return record(trial, label=label, memory_bytes=sizes[label], outcome="oom-killed")
    from edgebench.spans import events_to_phases

    events = events_at(label)
    made = record(trial, label=label, memory_bytes=sizes.get(label), block=block, repeat=block)
    made = replace(made, phases=events_to_phases(events))
    # Repeats differ by a little.
    watts = WATTS[label] * (1 + 0.01 * block)
    window = events[0]["t_ns"], events[-1]["t_ns"]
    return with_energy(made, readings_of(events, watts), events, window)


def make_energy_sweep(root: Path) -> Path:
    """Three repeats of three limits, with events and samples."""
    import gzip
    import json

    folder = make_sweep(root, make=energy_record)
    for number, label in enumerate(list(WATTS) * 3):
        trial = f"{number + 1:04d}"
        if label == "100M":
            continue
        events = events_at(label)
        lines = "".join(json.dumps(event) + "\n" for event in events)
        (folder / f"events/{trial}.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
        watts = WATTS[label] * (1 + 0.01 * (number // 3))
        seen = readings_of(events, watts)
        target = io.BytesIO()
        fast = (("t_ns", "usage_bytes", "swap_bytes", "cpu_ns"), array("q", [1, 2, 3, 4]))
        write_archive(target, {"fast": fast, "sensors": (seen.columns, seen.rows)})
        (folder / f"samples/{trial}.npz").write_bytes(target.getvalue())
    return folder
