"""How long ``show`` and ``load`` take on many results lines: ``many_lines.py [LINES]``.

The lines are those that a trial of a command leaves, written without making the trials.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import report
from msgspec import to_builtins

from edgebench.records import LimitSetting, TrialRecord
from edgebench.results.folder import ResultsFolder

_LIMITS = 20
_SHOW = (
    "from click.testing import CliRunner\nfrom edgebench.cli.show import show\n"
    "done = CliRunner().invoke(show, [path])\nassert done.exit_code == 0, done.output\n"
)
#: What each child is told to do with the folder, one after the other.
_PROGRAMS = {
    "show": _SHOW,
    "load": "import edgebench\nedgebench.load(path)\n",
    "load, and the frame of trials": "import edgebench\nassert len(edgebench.load(path).trials)\n",
}


def one(number: int) -> TrialRecord:
    """A trial of a command under one of the limits."""
    at = number % _LIMITS
    limits = LimitSetting(f"{100 + at}M", (100 + at) << 20)
    return TrialRecord(
        trial=f"{number:07d}",
        point=f"p{at:02d}",
        block=number // _LIMITS,
        repeat=number // _LIMITS,
        settings={"kind": "command", "command": ["/bin/true"]},
        limits=limits,
        outcome="ok",
        started_utc="2026-01-02T03:04:05.678+00:00",
        wall_s=0.001 * (1 + at),
        cpu_s=0.001,
        limit_bytes=limits.memory_bytes,
        peak_bytes=3 << 20,
        peak_source="kernel",
        saturated=False,
    )


def lines_from(first: int, count: int) -> Iterator[str]:
    """The lines of so many trials; what tells them apart is put into one line for each limit."""
    made = [json.dumps(one(at).to_json(), separators=(",", ":")) + "\n" for at in range(_LIMITS)]
    for number in range(first, first + count):
        line = made[number % _LIMITS].replace(f"{number % _LIMITS:07d}", f"{number:07d}", 1)
        repeat = number // _LIMITS
        yield line.replace('"block":0,"repeat":0', f'"block":{repeat},"repeat":{repeat}', 1)


def make(root: Path, lines: int) -> Path:
    """A complete sweep of so many trials."""
    points = [
        {"id": f"p{at:02d}", "settings": one(at).settings, "limits": to_builtins(one(at).limits)}
        for at in range(_LIMITS)
    ]
    resolved = {"fingerprint": "f00d", "points": points, "plan": []}
    with ResultsFolder.create(root, "many", "many", "", resolved, {}) as folder:
        with (folder.path / "trials.jsonl").open("a") as file:
            file.writelines(lines_from(0, lines))
        folder.finish({"trials": lines})
        return folder.path


def timed(program: str, path: Path) -> tuple[float, float]:
    """Seconds, and the largest resident set in bytes, of a process of its own."""
    code = (
        f"import sys, resource\npath = {str(path)!r}\n{program}"
        "sys.stderr.write(str(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss))"
    )
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return time.monotonic() - began, int(done.stderr.split()[-1]) * 1024


def main(lines: int) -> None:
    """Make the lines, read them, tell what that took."""
    rows, data = [], {}
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        path = make(Path(folder), lines)
        size = (path / "trials.jsonl").stat().st_size
        for name, program in _PROGRAMS.items():
            seconds, peak = timed(program, path)
            rows.append([name, f"{seconds:.1f} s", f"{peak / 2**20:.0f} MiB"])
            data[name] = {"seconds": seconds, "peak_bytes": peak}
    says = f"Reading {lines} results lines ({size / 2**20:.0f} MiB)."
    report.write("many_lines", says, ["what", "time", "peak"], rows, {"lines": lines, **data})


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
