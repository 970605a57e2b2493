"""How often ``compare`` tells equal sweeps apart, and how often it finds changes of 10 % and 5 %.

``python benchmarks/compare_rates.py [SWEEPS]`` runs ``rates.toml`` so many times on this machine
(cut short, the next start makes what is missing; ``python benchmarks/compare_rates.py RESULTS…``
takes sweeps that are there). Pairs are compared as they are, and with the second one's times 10 %
and 5 % longer:

- every sweep with every other;
- one kept sweep whose blocks are divided in two in each possible way: halves that differ by chance
  and by what the machine did between blocks, but not from sweep to sweep.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import report
from msgspec import structs

from edgebench.analysis.compare import compare_sweeps
from edgebench.analysis.comparison import SweepComparison
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
#: Five blocks of 32 points.
_DIVIDED = Path(__file__).parents[1] / "results/vm-2core-24g/20261121T072843Z-edgecaffe-f7f2d1"
#: What the interval over all times can be the widest of.
_OVERS = ("kinds", "points", "blocks")

Pair = tuple[Sweep, Sweep]


def slower(sweep: Sweep, factor: float) -> Sweep:
    """The same sweep with all its times longer."""
    return replace(sweep, records=[_slower(record, factor) for record in sweep.records])


def _slower(record: TrialRecord, factor: float) -> TrialRecord:
    phases = [structs.replace(phase, wall_s=phase.wall_s * factor) for phase in record.phases]
    wall_s = None if record.wall_s is None else record.wall_s * factor
    return structs.replace(record, wall_s=wall_s, phases=phases)


def run(count: int, scenario: str) -> list[Sweep]:
    """So many whole sweeps of the scenario, one after the other; those that are there count."""
    while len(there := complete(_ROOT)) < count:
        options = SweepOptions(_ROOT, "this", fresh=True)
        run_sweep(load_scenario(scenario), options, LineProgress())
    return there


def complete(root: Path) -> list[Sweep]:
    """All sweeps there that are through."""
    made = load(root).sweeps if any(root.glob("*/*/trials.jsonl")) else []
    return [sweep for sweep in made if sweep.complete]


def divided(sweep: Sweep) -> list[Pair]:
    """The sweep's blocks divided in two in each way, both ways round."""
    blocks = sorted({record.block for record in sweep.records})
    chosen = itertools.combinations(blocks, len(blocks) // 2)
    halves = [(_of_blocks(sweep, c), _of_blocks(sweep, set(blocks) - set(c))) for c in chosen]
    return [pair for a, b in halves for pair in ((a, b), (b, a))]


def _of_blocks(sweep: Sweep, blocks: Sequence[int] | set[int]) -> Sweep:
    return replace(sweep, records=[record for record in sweep.records if record.block in blocks])


def counted(pairs: Sequence[Pair]) -> dict[str, Any]:
    """Of equal pairs and of pairs made unequal: how many are called slower, and by what.

    The threshold is half of the change, as the default one is of 10 %.
    """
    trials = sum(len(sweep.records) for sweep in pairs[0])
    found: dict[str, Any] = {"pairs": len(pairs), "trials": trials}
    for percent in CHANGES:
        equal = [compare_sweeps(a, b, threshold=percent / 200) for a, b in pairs]
        changed = [
            compare_sweeps(a, slower(b, 1 + percent / 100), threshold=percent / 200)
            for a, b in pairs
        ]
        found[str(percent)] = {"wrong": _called(equal), "found": _called(changed)}
    overall = [one.overall for one in equal if one.overall is not None]
    found["rows"], found["times"] = len(equal[0].rows), overall[0].times
    found["widths"] = report.spread([o.ratio_high / o.ratio - 1 for o in overall])
    found["ratios"] = report.spread([o.ratio for o in overall])
    found["widest"] = {over: sum(o.widest == over for o in overall) for over in _OVERS}
    found["held"] = sum(o.ratio_low <= 1 <= o.ratio_high for o in overall)
    return found


def _called(compared: Sequence[SweepComparison]) -> dict[str, int]:
    return {
        "single": sum(bool(one.regressions) for one in compared),
        "overall": sum(one.is_slower_overall for one in compared),
        "either": sum(bool(one.regressions) or one.is_slower_overall for one in compared),
    }


def table(what: str, found: dict[str, Any]) -> list[list[str]]:
    """The rows of one kind of pairs."""
    return [
        [f"{what}: {words}, threshold {percent / 2:g} %"]
        + [f"{n} of {found['pairs']}" for n in found[str(percent)][key].values()]
        for percent in CHANGES
        for key, words in (("wrong", "equal, called slower"), ("found", f"{percent} % slower"))
    ]


def main(words: Sequence[str]) -> None:
    """Get the sweeps, compare them, tell the rates."""
    if words and Path(words[0]).is_dir():
        sweeps = [sweep for root in words for sweep in complete(Path(root))]
    else:
        sweeps = run(int((*words, 5)[0]), str(_SCENARIO))
    kinds = {
        "sweeps": counted(list(itertools.permutations(sweeps, 2))),
        "halves": counted(divided(load(_DIVIDED).sweeps[0])),
    }
    says = (
        f"{len(sweeps)} sweeps, each with each: {kinds['sweeps']['pairs']} pairs of "
        f"{kinds['sweeps']['rows']} comparisons. Halves of one sweep's blocks: "
        f"{kinds['halves']['pairs']} pairs of {kinds['halves']['rows']}. Median width of the "
        "interval over all times, to one side: "
        + ", ".join(f"{100 * found['widths']['median']:.1f} %" for found in kinds.values())
        + "."
    )
    rows = [row for what, found in kinds.items() for row in table(what, found)]
    header = ["pairs", "a single comparison", "all times together", "either"]
    report.write("compare_rates", says, header, rows, {"count": len(sweeps), **kinds})


if __name__ == "__main__":
    main(sys.argv[1:])
