"""The examples on the verbs' pages: what a verb prints of a kept sweep, or printed of live trials.

The latter lie in docs/examples, where ``scripts/examples`` writes them.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from click.testing import CliRunner

from claims.kept import DEVICE, FRESH_QUICKSTART, ROOT, folder
from claims.texts import Claim, box
from edgebench.cli.verbs import load_verb

LIVE = ROOT / "docs" / "examples"
#: Command, as it is typed above the folder of the kept sweep, and how many lines of its answer are
#: shown. A page's are those of its verb.
KEPT = {
    "show results/DEVICE/SWEEP": 9,
    "fit results/DEVICE/SWEEP": 7,
    "predict alexnet --results results/DEVICE/SWEEP --memory 80%,55%,50%": 5,
    "layers alexnet --memory 40% --from results/DEVICE/SWEEP": 12,
    "reconcile results/DEVICE/SWEEP --network alexnet": 12,
    "plot results/DEVICE/SWEEP": 3,
    "export results/DEVICE/SWEEP -o trials.csv": 2,
    "boards": 4,
    "data": 8,
    "init resnet18": 2,
}


def claims(verb: str) -> Iterator[Claim]:
    """The first box of a verb's page, and of ``minimum`` also that with swap."""
    title = f"# edgebench {verb}\n"
    if kept := [command for command in KEPT if command.split()[0] == verb]:
        yield box(title, answer(kept[0]))
    elif (LIVE / f"{verb}.txt").is_file():
        yield box(title, (LIVE / f"{verb}.txt").read_text().splitlines())
    if verb == "minimum":
        yield box("With swap (root)", (LIVE / "minimum-swap.txt").read_text().splitlines())


def answer(command: str) -> Iterator[str]:
    """Run it on the quick start; its first lines. Of files that it wrote, stderr tells."""
    verb, *words = command.split()
    sweep = folder("quickstart") if verb == "show" else folder(FRESH_QUICKSTART)
    runner = CliRunner()
    with runner.isolated_filesystem():
        device = Path("results", "DEVICE")
        shutil.copytree(sweep, device / "SWEEP")
        for file in DEVICE.glob("calibration-*.json"):
            shutil.copy(file, device)
        called = load_verb(verb)
        done = runner.invoke(called, words, catch_exceptions=False)
    lines = [line.rstrip() for line in (done.stdout or done.stderr).splitlines()]
    yield f"$ edgebench {command}"
    yield from lines[: KEPT[command]]
    if len(lines) > KEPT[command]:
        yield "…"
