"""The study of CNN training, its trials shared by three workers on ports of this machine.

``python benchmarks/fleet_study.py [BATCH…]`` (root): the verbs of docs/how-to/fleet.md, one after
the other, with ``scenarios/cnn-batch.toml`` as it is, or cut down to these batches and one repeat.
The whole takes some 40 minutes and up to 18 GiB of memory. What counts is that each trial is
recorded once, and that ``show`` and ``study`` read the results as any sweep's. Times mean nothing,
since the three share the machine.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import report

STUDY = Path(__file__).parents[1] / "scenarios" / "cnn-batch.toml"
NAMES = ("one", "two", "three")
_HOST = '[hosts.{}]\nlocal = true\nlabels = ["vm"]\n'
_FLEET = """schema = 1
name = "study"
scheduler = "tls://127.0.0.1:{}"
"""


def cut_down(batches: list[int]) -> str:
    """The study's scenario; with these batches, if any, each trial once."""
    if not batches:
        return STUDY.read_text()
    text = re.sub(r"(?m)^batch = .*$", f"batch = {batches}", STUDY.read_text())
    return re.sub(r"(?m)^repeats = .*$", "repeats = 1", text)


def said(folder: Path, *words: str) -> str:
    """What a verb prints; it must end well."""
    command = [sys.executable, "-m", "edgebench", *words]
    return subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, check=True).stdout


def run(folder: Path) -> dict[str, Any]:
    """Share the study's trials, and read the results back."""
    began = time.monotonic()
    said(folder, "fleet", "run", "cnn-batch.toml", "--shared", "vm")
    took_s = time.monotonic() - began
    [sweep] = (folder / "results" / "vm").iterdir()
    records = [json.loads(line) for line in (sweep / "trials.jsonl").read_text().splitlines()]
    planned = [one["trial"] for one in json.loads((sweep / "resolved.json").read_text())["plan"]]
    shown = json.loads(said(folder, "show", "results/vm", "--json"))
    tables = json.loads(said(folder, "show", "--study", "results/vm", "--json"))
    return {
        "planned": len(planned),
        "once_each": Counter(one["trial"] for one in records) == Counter(planned),
        "complete": (sweep / "complete.json").exists(),
        "outcomes": Counter(one["outcome"] for one in records),
        "machines": Counter(one["machine"] for one in records),
        "shown": {key: shown[key] for key in ("state", "recorded")},
        "study": {one["name"]: len(one["rows"]) for one in tables["tables"]},
        "took_s": took_s,
    }


def main(batches: list[int]) -> None:
    """Start three workers, run, stop them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["EDGEBENCH_CACHE"] = str(folder / "cache")
        (folder / "fleet.toml").write_text(_FLEET.format(port) + "".join(map(_HOST.format, NAMES)))
        (folder / "cnn-batch.toml").write_text(cut_down(batches))
        said(folder, "fleet", "up")
        try:
            found = run(folder)
        finally:
            said(folder, "fleet", "stop")
    killed = found["outcomes"].get("oom-killed", 0)
    shares = ", ".join(str(found["machines"].get(name, 0)) for name in NAMES)
    says = "The study of CNN training, its trials shared by three workers of one machine."
    header = ["batches", "trials", "once each", "killed by the limit", "of each worker"]
    row = [
        ", ".join(map(str, batches)) or "all",
        found["planned"],
        found["once_each"],
        killed,
        shares,
    ]
    report.write("fleet_study", says, header, [row], {"batches": batches, **found})


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]])
