"""What a record says of the accelerator that a trial computed on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

#: What of it is a column of tables of trials.
ACCELERATOR_COLUMNS = (
    *("total_bytes", "limit_bytes", "peak_allocated_bytes", "peak_reserved_bytes"),
    *("process_peak_bytes", "retries", "ooms", "to_bytes", "to_s", "from_bytes", "from_s"),
)


@dataclass(frozen=True)
class AcceleratorReport:
    """An accelerator's memory, and what was copied to it and back.

    Args:
        name: as the scenario has it: ``cuda``.
        title: what its driver calls it.
        total_bytes: all of its memory, as the driver tells it.
        limit_bytes: what torch's allocator was held to; None: it was not.
        allocated_bytes, reserved_bytes: in tensors, and taken from the driver, when the trial
            ended, by torch's allocator.
        peak_allocated_bytes, peak_reserved_bytes: the most of each.
        retries: how often the allocator gave back what it kept and tried again.
        ooms: how often it had no memory to give.
        to_bytes, to_s, from_bytes, from_s: what was copied to the accelerator and back, and the
            seconds that these copies took on its own clock.
        phases: the copies and peaks of each round's phases; keys as here, with ``round``,
            ``network`` and ``phase``.
        process_peak_bytes: the most that the trial's processes held of it, by its driver.
        process_readings: how many readings that is of.
        system: what the whole machine told meanwhile, by the figure's name: ``before_bytes``,
            ``peak_bytes`` and ``source``.
        missing: what could not be measured → why.
    """

    name: str
    title: str | None = None
    total_bytes: int | None = None
    limit_bytes: int | None = None
    allocated_bytes: int | None = None
    reserved_bytes: int | None = None
    peak_allocated_bytes: int | None = None
    peak_reserved_bytes: int | None = None
    retries: int | None = None
    ooms: int | None = None
    to_bytes: int | None = None
    to_s: float | None = None
    from_bytes: int | None = None
    from_s: float | None = None
    phases: list[dict[str, Any]] = field(default_factory=list)
    process_peak_bytes: int | None = None
    process_readings: int | None = None
    system: dict[str, Any] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
