"""How often ``compare`` tells equal sweeps apart, and how often it finds changes of 10 % and 5 %.

``python benchmarks/compare_rates.py [SWEEPS [SCENARIO]]`` runs the scenario so many times on this
machine (cut short, the next start makes what is missing; ``python benchmarks/compare_rates.py
RESULTS`` takes sweeps that are there) and compares every sweep with every other: as they are, and
with the second one's times 10 % and 5 % longer. The default scenario declares its storage.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import report

from edgebench.analysis.compare import compare_sweeps
from edgebench.cli.progress import LineProgress
from edgebench.records import TrialRecord
from edgebench.results.results import load
from edgebench.results.sweep_reader import Sweep
from edgebench.run.sweep import SweepOptions, run_sweep
from edgebench.scenario.scenario import load_scenario

#: How much slower the second sweep is made, in percent.
CHANGES = (10, 5)
_ROOT = Path("results-of-compare-rates")
_SCENARIO = Path(__file__).with_name("rates.toml")


def slower(sweep: Sweep, factor: float) -> Sweep:
    """The same sweep with all its times longer."""
    return replace(sweep, records=[_slower(record, factor) for record in sweep.records])


def _slower(record: TrialRecord, factor: float) -> TrialRecord:
    phases = [replace(phase, wall_s=phase.wall_s * factor) for phase in record.phases]
    wall_s = None if record.wall_s is None else record.wall_s * factor
    return replace(record, wall_s=wall_s, phases=phases)


def run(count: int, scenario: str) -> list[Sweep]:
    """So many whole sweeps of the scenario, one after the other; those that are there count."""
    while len(there := whole()) < count:
        options = SweepOptions(_ROOT, "this", fresh=True)
        run_sweep(load_scenario(scenario), options, LineProgress())
    return there


def whole() -> list[Sweep]:
    """The sweeps made so far that are through."""
    made = load(_ROOT).sweeps if any(_ROOT.glob("*/*/trials.jsonl")) else []
    return [sweep for sweep in made if sweep.complete]


def _found(pairs: Sequence[tuple[Sweep, Sweep]], percent: int) -> int:
    """In how many pairs a second sweep that is slower by so much is called slower.

    The threshold is half of the change, as the default one is of 10 %.
    """
    return sum(_is_slower(a, slower(b, 1 + percent / 100), percent) for a, b in pairs)


def _is_slower(a: Sweep, b: Sweep, percent: int) -> bool:
    return bool(compare_sweeps(a, b, threshold=percent / 200).regressions)


def main(words: Sequence[str]) -> None:
    """Get the sweeps, compare them, tell the rates."""
    if words and Path(words[0]).is_dir():
        sweeps = load(words[0]).sweeps
    else:
        count, scenario = int((*words, 20)[0]), ([*words[1:], str(_SCENARIO)])[0]
        sweeps = run(count, scenario)
    pairs = list(itertools.permutations(sweeps, 2))
    alarms = {percent: sum(_is_slower(a, b, percent) for a, b in pairs) for percent in CHANGES}
    wrong = alarms[10]
    found = {percent: _found(pairs, percent) for percent in CHANGES}
    tests = sum(len(compare_sweeps(a, b).rows) for a, b in pairs[:1])
    says = f"{len(sweeps)} sweeps, each with each: {len(pairs)} pairs of {tests} comparisons."
    rows = [
        [f"{words}, threshold {percent / 2:g} %", f"{n} of {len(pairs)}", f"{n / len(pairs):.1%}"]
        for percent in CHANGES
        for words, n in (
            ("equal sweeps, called a regression", alarms[percent]),
            (f"{percent} % slower, found", found[percent]),
        )
    ]
    data = {"sweeps": len(sweeps), "pairs": len(pairs), "wrong": wrong, "found": found[10]}
    data |= {"found_by_percent": found, "wrong_by_percent": alarms}
    report.write("compare_rates", says, ["what", "pairs", "rate"], rows, data)


if __name__ == "__main__":
    main(sys.argv[1:])
