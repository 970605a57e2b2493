"""How many small faults, put into the code one at a time, the quick tests find.

``nox -s mutation -- [MUTANTS [SEED [LABEL]]]``, as root: a random sample of mutmut's mutants of
what ``[tool.mutmut]`` in pyproject.toml names, in a copy of the repository. A mutant that no test
reaches counts as one that survives. Samples are kept by their labels.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from report import RESULTS, write
from scipy.stats import binomtest

ROOT = Path(__file__).parents[1]
_SAMPLE = 300
#: What mutmut's own words for an outcome come to; others (a flawed run) are no outcome.
_FOUND = {"killed": True, "timeout": True, "segfault": True, "survived": False, "no tests": False}
#: A process that a test starts in another folder finds no settings of mutmut, and fails while tests
#: are matched to functions. What it calls would be lost there anyway.
_CHILDREN = """
import os
if os.environ.get("MUTANT_UNDER_TEST") == "stats":
    os.environ["MUTANT_UNDER_TEST"] = ""
"""
#: A share and the interval it is in.
SHARE = ("share", "low", "high")


def main(words: list[str]) -> None:
    """Make the mutants, try a sample of them, write what became of them."""
    size, seed = int(words[0]) if words else _SAMPLE, int(words[1]) if words[1:] else 1
    label = words[2] if words[2:] else f"seed {seed}"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copy_to(folder)
        # No mutant has this name: mutants are made, and the tests are timed, and that is all.
        mutmut(folder, "run", "--max-children", "2", "none.such")
        mutants = sorted(mutants_in(folder))
        sample = random.Random(seed).sample(mutants, min(size, len(mutants)))
        mutmut(folder, "run", "--max-children", "2", *sample)
        lines = mutmut(folder, "results", "--all", "True")
        switch_off_swap(folder)
    outcomes = dict(re.findall(r"^\s*(\S+): (.+?)\s*$", lines, re.MULTILINE))
    tell(len(mutants), {mutant: outcomes[mutant] for mutant in sample}, label)


def copy_to(folder: Path) -> None:
    """The files that git knows, as they are now."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    copying = ["tar", "--create", "--null", "--files-from=-"]
    packed = subprocess.run(copying, cwd=ROOT, input=listed.stdout, capture_output=True, check=True)
    subprocess.run(["tar", "--extract"], cwd=folder, input=packed.stdout, check=True)


def mutmut(folder: Path, *words: str) -> str:
    """What the program says on stdout."""
    # A mutant may take a living harness for a dead one: it sees the claims of none but its own.
    alone = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs tmpfs /run && exec "$@"', "sh"]
    command = [*alone, sys.executable, "-m", "mutmut", *words]
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "sitecustomize.py").write_text(_CHILDREN)
        environment = {**os.environ, "PYTHONPATH": name}
        done = subprocess.run(
            command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=False
        )
    return done.stdout


def switch_off_swap(folder: Path) -> None:
    """A mutant may leave its swap on, and such a file can't be removed."""
    areas = [line.split()[0] for line in Path("/proc/swaps").read_text().splitlines()[1:]]
    for area in areas:
        if Path(area).is_relative_to(folder):
            subprocess.run(["swapoff", area], check=True)


def mutants_in(folder: Path) -> list[str]:
    """The names of all mutants that were made."""
    files = (folder / "mutants").rglob("*.meta")
    return [name for file in files for name in json.loads(file.read_text())["exit_code_by_key"]]


def module_of(mutant: str) -> str:
    """The module that a mutant is of."""
    return mutant.rpartition(".")[0]


def known() -> dict[str, dict[str, Any]]:
    """The samples that are kept, by their labels."""
    file = RESULTS / "mutation.json"
    return json.loads(file.read_text())["data"]["samples"] if file.exists() else {}


def told(outcomes: dict[str, str]) -> dict[str, Any]:
    """The share found with its 95 % interval, by module and in all, and what survived."""
    tried = {mutant: _FOUND[outcome] for mutant, outcome in outcomes.items() if outcome in _FOUND}
    of, found = Counter(map(module_of, tried)), Counter(module_of(m) for m in tried if tried[m])
    low, high = binomtest(sum(tried.values()), len(tried)).proportion_ci(method="wilson")
    return {
        "tried": len(tried),
        "found": sum(tried.values()),
        "share": sum(tried.values()) / len(tried),
        "low": low,
        "high": high,
        "modules": {module: [found[module], of[module]] for module in sorted(of)},
        "survived": sorted(mutant for mutant, was_found in tried.items() if not was_found),
        "untold": sorted(set(outcomes) - set(tried)),
    }


def tell(made: int, outcomes: dict[str, str], label: str) -> None:
    """Write the sample beside those that are kept."""
    samples = {**known(), label: told(outcomes)}
    rows = [
        [
            name,
            *(one[key] for key in ("tried", "found")),
            *(f"{100 * one[key]:.0f} %" for key in SHARE),
        ]
        for name, one in samples.items()
    ]
    write(
        "mutation",
        f"Mutants at random, of {made}, and how many the quick tests find.",
        ["sample", "mutants", "found", "share", "from", "to"],
        rows,
        {"made": made, "samples": samples},
    )


if __name__ == "__main__":
    main(sys.argv[1:])
