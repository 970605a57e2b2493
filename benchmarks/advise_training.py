"""One search of ``advise``: what makes a training below its memory faster, and by how much.

``python benchmarks/advise_training.py``, as root, on a machine that does nothing else: ResNet-18
trained by Adam at 250 MiB, five minutes of search. It writes ``results/advise_training``.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import report

SCENARIO = """schema = 1
name = "resnet"
timeout = "3m"
[workload]
kind = "training"
network = "resnet18"
data = "synthetic"
shape = "3x96x96"
optimizer = "adam"
learning_rate = 0.0001
batch = 16
steps = 6
[limits]
memory = ["max", "250M"]
swap = "2G"
"""


def main() -> None:
    """Search once, and write what was tried and what won."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "resnet.toml").write_text(SCENARIO)
        command = [sys.executable, "-m", "edgebench", "advise", "resnet.toml", "--json"]
        done = subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True)
    found = json.loads(done.stdout)
    header = ["remedy", "end", "time ÷ plain", "90 % interval"]
    report.write(
        "advise_training", said(found), header, [_row(one) for one in found["tried"]], found
    )


def said(found: Mapping[str, Any]) -> str:
    """The answer, and what the fresh trials came to."""
    answer, best = f"{found['name']} {found['sentence']}.", found["best"]
    if not best:
        return answer
    often = (
        f"it finished {best['finished']} of {best['trials']} times, plain {best['plain_finished']}"
    )
    if best["low"] is None:
        return f"{answer} Measured anew, {often}."
    ratio = f"{best['ratio']:.2f} ({best['low']:.2f} to {best['high']:.2f})"
    return f"{answer} Time ÷ plain in {best['pairs']} fresh pairs: {ratio}; {often}."


def _row(one: Mapping[str, Any]) -> list[str]:
    ratio, low, high = (one.get(key) for key in ("ratio", "low", "high"))
    between = "-" if low is None else f"{low:.2f} to {high:.2f}"
    return [one["name"], one["end"], "-" if ratio is None else f"{ratio:.2f}", between]


if __name__ == "__main__":
    main()
