"""From nothing to the first answer about one's own program: commands and seconds, tool by tool.

``python benchmarks/first_answer.py``, with hyperfine on PATH and a folder of programs that holds
runexec (``pip install benchexec``) as ``RUNEXEC``; a tool that is absent is left out by name. The
questions: how much memory does ``first_answer_program.py`` need, at which limit is it killed, and
below which limit is it twice as slow? A tool that limits nothing answers a part of the first alone.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import report

#: Typed as a person would, beside the program.
PROGRAM = ["python3", "first_answer_program.py"]
#: The edge is known if the two limits around it differ by at most this.
_TARGET = 0.05
_MIB = 1 << 20
_HERE = Path(__file__).parent


@dataclass
class FirstAnswer:
    """What a tool told, and what it took; ``commands`` typed, ``wall_s`` waited for them."""

    tool: str
    commands: int
    wall_s: float
    answer: str
    questions: str


def _run(words: list[str]) -> str:
    """Everything the command prints; it may fail, as a killed program does."""
    ended = subprocess.run(words, capture_output=True, text=True, check=False, cwd=_HERE)
    return ended.stdout + ended.stderr


def edgebench_answer(folder: Path) -> tuple[int, str]:
    """One command, with swap so that slowdown is asked for too, and the kill with it."""
    verb = [str(Path(sys.executable).with_name("edgebench")), "minimum", "--swap", "1G"]
    printed = subprocess.run(
        [*verb, "--killed", "--results", str(folder), "--", *PROGRAM],
        capture_output=True,
        text=True,
        check=True,
        cwd=_HERE,
    )
    sentence, _, _ = printed.stdout.partition("\n\n")
    return 1, " ".join(sentence.split())


def gnu_time_answer(folder: Path) -> tuple[int, str]:
    """The high-water mark of one execution without a limit."""
    printed = _run(["/usr/bin/time", "-f", "%M", *PROGRAM])
    return 1, f"{int(printed.split()[-1]) / 1024:.0f} MiB resident at most"


def hyperfine_answer(folder: Path) -> tuple[int, str]:
    """Time, and with its JSON the high-water mark; no limit."""
    printed = _run(["hyperfine", "--style", "basic", " ".join(PROGRAM)])
    found = re.search(r"Time \(mean.*?\):\s*([\d.]+ \w+)", printed)
    assert found, printed
    return 1, f"takes {found[1]}"


def memray_answer(folder: Path) -> tuple[int, str]:
    """The heap's peak."""
    out = folder / "memray.bin"
    _run([sys.executable, "-m", "memray", "run", "-o", str(out), PROGRAM[1]])
    printed = _run([sys.executable, "-m", "memray", "stats", str(out)])
    found = re.search(r"Peak memory usage:\s*([\d.]+\s*\w+)", printed)
    assert found, printed
    return 2, f"heap {found[1]} at most"


def psrecord_answer(folder: Path) -> tuple[int, str]:
    """A log of the resident size; its largest line is found by hand (the second command)."""
    log = folder / "psrecord.log"
    tool = str(Path(sys.executable).with_name("psrecord"))
    _run([tool, "--include-children", "--interval", "0.01", "--log", str(log), " ".join(PROGRAM)])
    rows = [line.split() for line in log.read_text().splitlines() if not line.startswith("#")]
    return 2, f"{max(float(row[2]) for row in rows):.0f} MiB resident at most (sampled)"


def runexec_answer(folder: Path) -> tuple[int, str]:
    """One command a limit: without one, then between half of that and all of it until 5 % apart."""
    tool = [os.environ["RUNEXEC"], "--no-container", "--output", str(folder / "output.log")]
    printed = _run([*tool, "--", *PROGRAM])
    found = re.search(r"^memory=(\d+)B", printed, re.M)
    assert found, printed
    need, commands = int(found[1]), 1
    good, bad = need, 0
    limit = need // 2
    while good - bad > _TARGET * good:
        printed = _run([*tool, "--memlimit", f"{limit}B", "--", *PROGRAM])
        commands += 1
        if "terminationreason=memory" in printed:
            bad = limit
        else:
            good = limit
        limit = (good + bad) // 2
    return commands, f"{need / _MIB:.0f} MiB; killed below {good / _MIB:.0f} MiB"


TOOLS: dict[str, tuple[Callable[[Path], tuple[int, str]], str, Callable[[], bool]]] = {
    "edgebench minimum": (edgebench_answer, "need, kill, slowdown", lambda: True),
    "runexec": (runexec_answer, "need, kill", lambda: "RUNEXEC" in os.environ),
    "GNU time": (gnu_time_answer, "need", lambda: True),
    "psrecord": (psrecord_answer, "need", lambda: True),
    "memray": (memray_answer, "heap only", lambda: True),
    "hyperfine": (hyperfine_answer, "time only", lambda: bool(shutil.which("hyperfine"))),
}


def main() -> None:
    """Ask each tool, and write ``results/first_answer``."""
    asked: list[FirstAnswer] = []
    for tool, (ask, questions, present) in TOOLS.items():
        if not present():
            print(f"{tool} is left out: it is not here", file=sys.stderr)
            continue
        with tempfile.TemporaryDirectory() as folder:
            began = time.monotonic()
            commands, answer = ask(Path(folder))
            asked.append(FirstAnswer(tool, commands, time.monotonic() - began, answer, questions))
    rows = [
        (one.tool, one.commands, f"{one.wall_s:.0f}", one.questions, one.answer) for one in asked
    ]
    report.write(
        "first_answer",
        "Commands and seconds until each tool's nearest answer about a program of one or two "
        "seconds that fills 300 MiB; each tool once, nothing else running. runexec: the least "
        "limit by halving, one command each.",
        ("tool", "commands", "seconds", "answers", "printed"),
        rows,
        [asdict(one) for one in asked],
    )


if __name__ == "__main__":
    main()
