"""How long ``edgebench calibrate`` takes, and how far its constants differ between calibrations.

``python benchmarks/calibration_time.py [TIMES [SWAP…]]``, as root. Each calibration is the command
as a person types it, timed from its start to its end.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import report

#: Constants that tell the storage, in the order of the table.
CONSTANTS = (
    *("swap_in_bytes_per_s", "swap_out_bytes_per_s", "fault_s", "pages_per_fault"),
    *("file_fault_bytes_per_s", "file_read_bytes_per_s", "minor_fault_s", "base_bytes"),
    *("hot_base_bytes", "request_s", "disk_read_bytes_per_s", "swap_request_bytes", "held_share"),
)


def calibrated(swap: str) -> dict[str, Any]:
    """Seconds, the trials' passes in them, and the median of each constant, of one calibration."""
    verb = [str(Path(sys.executable).with_name("edgebench")), "calibrate", "--json"]
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        done = subprocess.run(
            [*verb, "--swap", swap, "--results", folder, "--device", "timed"],
            capture_output=True,
            text=True,
            check=True,
        )
        wall_s = time.monotonic() - began
    made = json.loads(done.stdout)
    return {
        "swap": swap,
        "wall_s": wall_s,
        "passes_s": sum(scan["seconds"] for scan in made["scans"]),
        "blocks": len({scan["block"] for scan in made["scans"]}),
        "warnings": made["warnings"],
        "constants": {name: made[name] and made[name]["value"] for name in CONSTANTS},
    }


def main(times: int, swaps: Sequence[str]) -> None:
    """Calibrate so many times with each swap, in turn."""
    found = [calibrated(swap) for _ in range(times) for swap in swaps]
    rows = [_row(swap, [one for one in found if one["swap"] == swap]) for swap in swaps]
    says = "`edgebench calibrate`: seconds of the command, and of its passes over memory and files."
    header = ["swap", "times", "seconds", "lowest to highest", "of it passes", "blocks"]
    report.write("calibration_time", says, header, rows, {"calibrations": found})


def _row(swap: str, found: list[dict[str, Any]]) -> list[Any]:
    walls = [one["wall_s"] for one in found]
    passes, blocks = (median(one[key] for one in found) for key in ("passes_s", "blocks"))
    between = f"{min(walls):.1f} to {max(walls):.1f}"
    return [swap, len(found), f"{median(walls):.1f}", between, f"{passes:.1f}", f"{blocks:.0f}"]


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5, sys.argv[2:] or ["2G"])
