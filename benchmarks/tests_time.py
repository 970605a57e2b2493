"""How long the tests take, quiet and beside a load, and whether one of them fails by chance.

``python benchmarks/tests_time.py [--runs N] [--quick] [--loaded]`` runs ``scripts/test --all`` (or,
with ``--quick``, the quick tests) N times and adds the runs to those kept before. ``--loaded`` runs
four busy processes and a disk writer beside it. What it prints goes to
build/tests_time.txt.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import report

ROOT = Path(__file__).parents[1]
KEPT = report.RESULTS / "tests_time.json"
#: What the latest run printed.
OUTPUT = ROOT / "build" / "tests_time.txt"
_BUSY = 4
_SPIN = "while True: pass"
_WRITE = """
import os, sys
while True:
    with open(sys.argv[1], "wb") as file:
        file.write(os.urandom(1 << 20) * 64)
        os.fsync(file.fileno())
"""
_COUNTS = re.compile(r"(\d+) (passed|failed|errors?|skipped)")


def main() -> None:
    """Run the tests and keep what they took."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--loaded", action="store_true")
    asked = parser.parse_args()
    OUTPUT.parent.mkdir(exist_ok=True)
    kept: list[dict[str, Any]] = json.loads(KEPT.read_text())["data"] if KEPT.exists() else []
    for _ in range(asked.runs):
        with load() if asked.loaded else contextlib.nullcontext():
            kept.append({"loaded": asked.loaded, **one_run(asked.quick)})
        keep(kept)


@contextlib.contextmanager
def load() -> Iterator[None]:
    """Four busy processes and a disk writer."""
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as folder:
        words = [[_SPIN]] * _BUSY + [[_WRITE, f"{folder}/written"]]
        running = [subprocess.Popen([sys.executable, "-c", *one]) for one in words]
        try:
            yield
        finally:
            for one in running:
                one.kill()
                one.wait()


def one_run(quick: bool) -> dict[str, Any]:
    """Seconds on the clock, CPU seconds of all its processes, and how many tests ended how."""
    began, before = time.monotonic(), os.times()
    words = ["scripts/test", *([] if quick else ["--all"])]
    with OUTPUT.open("w") as file:
        done = subprocess.run(words, cwd=ROOT, stdout=file, stderr=subprocess.STDOUT, check=False)
    after = os.times()
    cpu_s = sum(
        getattr(after, of) - getattr(before, of) for of in ("children_user", "children_system")
    )
    lines = OUTPUT.read_text().splitlines()
    counts = dict.fromkeys(("passed", "failed", "error", "skipped"), 0)
    for number, what in _COUNTS.findall(lines[-1] if lines else ""):
        counts[what.rstrip("s") if what.startswith("error") else what] += int(number)
    failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return {
        "set": "quick" if quick else "full",
        "wall_s": round(time.monotonic() - began, 1),
        "cpu_s": round(cpu_s, 1),
        **counts,
        "failures": failed,
        "exit_code": done.returncode,
        "commit": commit.stdout.strip(),
        "date": datetime.now(timezone.utc).date().isoformat(),
    }


def keep(runs: list[dict[str, Any]]) -> None:
    """Write the table of all runs."""
    report.write(
        "tests_time",
        "Runs of the tests: `scripts/test --all` (full) and `scripts/test` (quick), set up before.",
        ("set", "machine", "wall s", "CPU s", "passed", "failed", "skipped", "commit", "date"),
        [
            (
                *(run["set"], "loaded" if run["loaded"] else "quiet"),
                *(f"{run['wall_s']:.0f}", f"{run['cpu_s']:.0f}", run["passed"]),
                *(run["failed"] + run["error"], run["skipped"], run["commit"], run["date"]),
            )
            for run in runs
        ],
        runs,
    )


if __name__ == "__main__":
    main()
