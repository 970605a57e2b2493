"""Calibrations made up for tests, with constants known in advance."""

from __future__ import annotations

from typing import Any

from edgebench.slowdown.calibration import SCHEMA, Calibration, Constant


def constant(value: float, unit: str) -> Constant:
    return Constant(value, 0.9 * value, 1.1 * value, unit, 5)


def calibration(**changes: Any) -> Calibration:
    constants = {
        "swap_in_bytes_per_s": constant(500e6, "bytes/s"),
        "swap_out_bytes_per_s": constant(400e6, "bytes/s"),
        "file_read_bytes_per_s": constant(900e6, "bytes/s"),
        "file_fault_bytes_per_s": constant(700e6, "bytes/s"),
        "fault_s": constant(80e-6, "s"),
        "minor_fault_s": constant(0.5e-6, "s"),
        "pages_per_fault": constant(8, "pages"),
        "file_pages_per_fault": constant(32, "pages"),
        "base_bytes": constant(150 << 20, "bytes"),
        "hot_base_bytes": constant(90 << 20, "bytes"),
    }
    about = {"created_utc": "2025-01-01T00:00:00+00:00", "schema": SCHEMA, "environment": {}}
    made: dict[str, Any] = {"device": "board", "swap_kind": "file", **about, **constants}
    return Calibration(**{**made, **changes})
