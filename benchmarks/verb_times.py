"""How long verbs that only read take on the kept quick start: the whole process, from its start.

``python benchmarks/verb_times.py`` writes a table with the aims; the same are timed by ``python -m
pytest benchmarks/test_verbs.py``. Figures are drawn in as many processes as there are cores.
"""

from __future__ import annotations

import compileall
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import report
from claims.kept import FRESH_QUICKSTART

REPOSITORY = Path(__file__).parents[1]
KEPT = REPOSITORY / "results" / "vm-2core-24g"
#: Verb → its words before the sweep, and the seconds that it should take at most.
VERBS: dict[str, tuple[list[str], float]] = {
    "show": ([], 0.5),
    "fit": ([], 3.0),
    "report": ([], 3.0),
    "plot": ([], 6.0),
    "predict": (["resnet18", "--memory", "50%", "--results"], 3.0),
}
_TIMES = 3


def copied_sweep(folder: Path) -> Path:
    """A copy of the quick start by fresh trials and of calibrations, without what is derived."""
    device = folder / KEPT.name
    device.mkdir()
    for file in KEPT.glob("calibration-*.json"):
        shutil.copy(file, device)
    kept = KEPT / FRESH_QUICKSTART
    derived = shutil.ignore_patterns("fits", "figures", "report.*")
    return Path(shutil.copytree(kept, device / kept.name, ignore=derived))


def compile_modules() -> None:
    """Write the byte code of all modules, as pip does: else it is made anew at each start."""
    compileall.compile_dir(REPOSITORY / "edgebench", quiet=1)


def use(verb: str, sweep: Path) -> None:
    """Call the verb once, as a person does."""
    command = [sys.executable, "-m", "edgebench", verb, *VERBS[verb][0], str(sweep)]
    subprocess.run(command, cwd=sweep.parent, check=True, capture_output=True)


def main() -> None:
    """Time each verb several times, one after the other, and write ``results/verb_times``."""
    compile_modules()
    seconds: dict[str, list[float]] = {verb: [] for verb in VERBS}
    with tempfile.TemporaryDirectory() as folder:
        sweep = copied_sweep(Path(folder))
        for _ in range(_TIMES):
            for verb, times in seconds.items():
                began = time.monotonic()
                use(verb, sweep)
                times.append(time.monotonic() - began)
    report.write(
        "verb_times",
        f"Seconds of a verb on the kept quick start, from the process's start to its end; "
        f"{_TIMES} times each, in turns. Figures, fits and reports are made anew.",
        ("verb", "median", "least", "most", "aim"),
        [
            (verb, *(f"{f(times):.2f}" for f in (statistics.median, min, max)), VERBS[verb][1])
            for verb, times in seconds.items()
        ],
        seconds,
    )


if __name__ == "__main__":
    main()
