"""What networks need at once: as ``predict --together`` says, and measured in one control group.

``python benchmarks/together.py`` (two minutes). Each network runs in its own plain program, which
executes it for some seconds, so that both are at their peak at the same time.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from typing import Any

import report
from claims.kept import folder

MIB = 1 << 20
PAIRS = (("alexnet", "mobilenet_v2"), ("resnet50", "squeezenet1_1"), ("vgg11", "resnet18"))
PROGRAM = """
import sys, time, torch
from edgebench.layers.known_networks import import_torchvision
net, picture = import_torchvision().get_model(sys.argv[1]).eval(), torch.rand(1, 3, 224, 224)
end_s = time.monotonic() + 15
with torch.inference_mode():
    while time.monotonic() < end_s: net(picture)
"""


def edgebench(*words: str) -> dict[str, Any]:
    """What a verb answers as JSON."""
    command = [sys.executable, "-m", "edgebench", words[0], "--json", *words[1:]]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def main() -> None:
    """Predict and measure each pair, and write the table."""
    rows, data = [], []
    for pair in PAIRS:
        words = ("--together", "--memory", "1G", "--results", str(folder("validation")))
        said = edgebench("predict", "+".join(pair), *words)["needs_bytes"]
        one = shlex.join([sys.executable, "-c", PROGRAM])
        both = f"{one} {pair[0]} & {one} {pair[1]} && wait $!"
        record = edgebench("measure", "--", "sh", "-c", both)
        assert record["exit_code"] == 0, record["reason"]
        measured = record["demand_bytes"]
        data.append({"networks": pair, "said_bytes": said, "measured_bytes": measured})
        sizes = (f"{size / MIB:.0f} MiB" for size in (said, measured))
        rows.append([" + ".join(pair), *sizes, f"{100 * (said / measured - 1):+.1f} %"])
    header = ("networks", "said", "measured", "difference")
    report.write("together", "What networks need at once.", header, rows, data)


if __name__ == "__main__":
    main()
