"""One search of ``advise``: what makes a training below its memory faster, and by how much.

``python benchmarks/advise_training.py``, as root, on a machine that does nothing else: ResNet-18
trained by Adam at 250 MiB, five minutes of search. It writes ``results/advise_training``.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

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
    rows = [[one["name"], one["end"], one.get("ratio")] for one in found["tried"]]
    best = found["best"]
    says = f"Best: {best and best['name']}, {json.dumps(best)}"
    report.write("advise_training", says, ["remedy", "end", "time ÷ plain"], rows, found)


if __name__ == "__main__":
    main()
