"""What a calibration takes from the records of its trials."""

from __future__ import annotations

from typing import Any

from edgebench.errors import MachineError
from edgebench.records import TrialRecord
from edgebench.slowdown.calibration.scans import Scan


def finished(record: TrialRecord) -> TrialRecord:
    """The record of a trial that finished; without one of them there are no constants."""
    if record.outcome != "ok":
        raise MachineError(
            f"the scan at {record.limits.label} ended as {record.outcome}: {record.reason}",
            remedy="end other programs that use memory; give more swap if it is small: --swap 2G",
        )
    return record


def scans_of(record: TrialRecord) -> list[Scan]:
    """A trial's passes, as its worker noted them."""
    about: dict[str, Any] = {"trial": record.trial, "block": record.block}
    about["storage"] = record.limits.storage
    return [Scan(**about, **made) for made in record.notes.get("passes", ())]


def base_bytes(record: TrialRecord) -> float:
    """The runtime's footprint before its limit was set.

    Raises:
        MachineError: the kernel doesn't tell it.
    """
    if record.base_bytes is None:
        raise MachineError(
            "this kernel doesn't tell what a cgroup uses, so the runtime's base is unknown",
            remedy="edgebench doctor",
        )
    return float(record.base_bytes)


def hot_bytes(record: TrialRecord) -> float:
    """What a pressed runtime keeps: of the limit, all that the scan could not have."""
    assert record.limit_bytes
    return float(record.limit_bytes - record.notes["passes"][-1]["resident_bytes"])
