"""From a worker's events and the watch's readings to what a record says of an accelerator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from edgebench.records import AcceleratorReport, TrialRecord, is_count, is_number
from edgebench.run.accelerator_watch import AcceleratorReadings

_TOLD = frozenset(
    (
        *("title", "total_bytes", "limit_bytes", "allocated_bytes", "reserved_bytes", "retries"),
        *("peak_allocated_bytes", "peak_reserved_bytes", "ooms", "to_bytes", "to_s"),
        *("from_bytes", "from_s"),
    )
)
_NOT_STARTED = "the trial ended before the accelerator was started"
_NOTHING_TOLD = "the trial ended before its first phase on the accelerator did"


def with_accelerator(
    record: TrialRecord,
    events: Iterable[Mapping[str, Any]],
    readings: AcceleratorReadings | None,
) -> TrialRecord:
    """The record with what its worker and the driver told; unchanged where it used none."""
    name = record.settings.get("accelerator")
    if name is None or readings is None:
        return record
    told: dict[str, Any] = {}
    phases: list[dict[str, Any]] = []
    for event in events:
        if event.get("event") != "accelerator":
            continue
        told |= _numbers(event.get("identity")) | _numbers(event.get("total"))
        phases += [one for one in _listed(event.get("phases")) if isinstance(one, dict)]
    report = AcceleratorReport(
        **{"name": str(name), **told},
        phases=phases,
        process_peak_bytes=readings.process_peak_bytes,
        process_readings=readings.process_readings,
        system=readings.system,
        missing=_missing(readings, told),
    )
    return replace(record, accelerator=report)


def _numbers(data: object) -> dict[str, Any]:
    """What a worker says of itself is no more than its words: other keys and types are left out."""
    given = data if isinstance(data, Mapping) else {}
    return {key: value for key, value in given.items() if key in _TOLD and _sound(key, value)}


def _sound(key: str, value: object) -> bool:
    if key == "title":
        return isinstance(value, str)
    return is_number(value) if key.endswith("_s") else is_count(value)


def _listed(data: object) -> list[Any]:
    return data if isinstance(data, list) else []


def _missing(readings: AcceleratorReadings, told: Mapping[str, Any]) -> dict[str, str]:
    if "title" not in told:
        return {**readings.missing, "peak_allocated_bytes": _NOT_STARTED}
    if "peak_allocated_bytes" not in told:
        return {**readings.missing, "peak_allocated_bytes": _NOTHING_TOLD}
    return readings.missing
