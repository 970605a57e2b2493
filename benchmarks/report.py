"""What every benchmark writes: its figures as JSON, and a table for people."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import psutil

RESULTS = Path(__file__).with_name("results")


def machine() -> str:
    """The machine in a line."""
    cores, ram = psutil.cpu_count(), psutil.virtual_memory().total / 2**30
    model = next(
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.lower().startswith(("model name", "model"))
        and not line.partition(":")[2].strip().isdigit()
    )
    system = f"Linux {platform.release()}, Python {platform.python_version()}"
    return f"{model}, {cores} cores, {ram:.0f} GiB, {system}"


def write(
    name: str, says: str, header: Sequence[str], rows: Sequence[Sequence[Any]], data: Any
) -> None:
    """Write ``results/<name>.json`` and ``.md``, and print the table."""
    RESULTS.mkdir(exist_ok=True)
    day = datetime.now(timezone.utc).date().isoformat()
    about = {"machine": machine(), "date": day, "says": says}
    (RESULTS / f"{name}.json").write_text(json.dumps({**about, "data": data}, indent=1) + "\n")
    lines = [f"| {' | '.join(map(str, row))} |" for row in (header, ["---"] * len(header), *rows)]
    table = "\n".join([says, "", *lines, "", f"{machine()}; {day}.", ""])
    (RESULTS / f"{name}.md").write_text(table)
    print(table)
