"""The same network in four engines: base, demand, least limit, times, slowdown at the same limits.

    python -m benchmarks.engines.compare [--repeats 3] [--storage 100MB/s] [--quick]

As root. Networks have the same random weights and are given the same input; that the outputs agree
is checked first. Sweeps are run in turn, an engine's repeats never one after another, with a swap
file whose reads are held to the speed. ``--quick``: one network, one repeat, two limits, written
beside as ``engines-quick``.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import edgebench
from benchmarks import report
from benchmarks.engines.figure import FIGURES, draw
from benchmarks.engines.same_network import ENGINES, NETWORKS, differences, make_files
from benchmarks.engines.sweeps import TORCH, Setting, Trial, median_s, sweep

#: The same for all engines: below the demand of the largest runtime, down to that of the smallest.
LIMITS = ("320M", "200M", "120M")
WARM = 10
_MIB = 2**20
_TIMES = ("import", "load", "first", "execute")


def main(
    networks: Sequence[str], repeats: int, limits: Sequence[str], storage: str, name: str
) -> None:
    """Measure, and write the table, its data, and the figure of the same name."""
    with tempfile.TemporaryDirectory(prefix="engines-") as place:
        folder = Path(place)
        make_files(folder, networks)
        apart = differences(folder, networks)
        setting = Setting(WARM, ("max", *limits), "2G", storage, "45s")
        trials = _sweeps(folder, networks, setting, repeats)
        least = {one: _least_limits(folder, one) for one in networks}
    rows = [
        _row(network, engine, [t for t in trials if (t.network, t.engine) == (network, engine)])
        | {"least_limit_bytes": least[network][engine], "apart": apart[network][engine]}
        for network in networks
        for engine in ENGINES
    ]
    says = (
        f"The same network and weights in four engines; one thread, {repeats} repeats; slowdown of "
        f"loading and {WARM + 1} executions, with swap read at {storage} at most. Median, and the "
        "range of the repeats."
    )
    header = ["network", "engine", "import's base", "demand", "least limit", *_TIMES]
    header += [f"slower at {limit}" for limit in limits]
    data = {"rows": rows, "trials": [asdict(one) for one in trials], "limits": list(limits)}
    report.write(name, says, header, [_cells(row, limits) for row in rows], data)
    (FIGURES / f"{name}.png").write_bytes(draw(rows, limits, report.machine()))


def _sweeps(folder: Path, networks: Sequence[str], setting: Setting, repeats: int) -> list[Trial]:
    """A repeat after another; within each torch's sweep and that of files in an order by chance."""
    groups = [[TORCH], [engine for engine in ENGINES if engine != TORCH]]
    rng, found = random.Random(1), []
    for number in range(repeats):
        for engines in rng.sample(groups, len(groups)):
            found += sweep(folder, engines, networks, setting, seed=number)
    return found


def _least_limits(folder: Path, network: str) -> dict[str, float | None]:
    """Engine → the least limit at which it finishes without swap, in bytes."""
    found: dict[str, float | None] = {}
    for engine, suffix in ENGINES.items():
        name = network if engine == TORCH else str(folder / f"{network}{suffix}")
        answer = edgebench.minimum(network=name, confirm=0, results=str(folder / "least"))
        good = answer.viable.good
        found[engine] = good.limit_bytes if good else None
        print(f"{network} in {engine} {answer.sentence}", flush=True)
    return found


def _row(network: str, engine: str, trials: Sequence[Trial]) -> dict[str, Any]:
    """What an engine's trials of a network come to: bytes, seconds, and the rounds' slowdown."""
    free = [one for one in trials if one.limit == "max"]
    whole_s = median_s(free, "round")
    slower = {
        limit: [one.seconds["round"] / whole_s for one in trials if _done_at(one, limit)]
        for limit in dict.fromkeys(one.limit for one in trials)
        if limit != "max" and whole_s
    }
    return {
        "network": network,
        "engine": engine,
        "base_bytes": [one.base_bytes for one in free if one.base_bytes],
        "demand_bytes": [one.demand_bytes for one in free if one.demand_bytes],
        "seconds": {p: [t.seconds[p] for t in free if p in t.seconds] for p in _TIMES},
        "slower": slower,
        "outcomes": {one: [t.outcome for t in trials if t.limit == one] for one in slower},
    }


def _done_at(trial: Trial, limit: str) -> bool:
    return trial.limit == limit and trial.outcome == "ok"


def _cells(row: dict[str, Any], limits: Sequence[str]) -> list[str]:
    sizes = [_spread([b / _MIB for b in row[key]], "{:.0f} MiB") for key in _SIZES]
    least = row["least_limit_bytes"]
    sizes.append("-" if least is None else f"{least / _MIB:.0f} MiB")
    times = [_spread([1000 * s for s in row["seconds"][p]], "{:.4g} ms") for p in _TIMES]
    slow = [
        _spread(row["slower"][limit], "{:.2f}×") or ", ".join(sorted(set(row["outcomes"][limit])))
        for limit in limits
    ]
    return [row["network"], row["engine"], *sizes, *times, *slow]


_SIZES = ("base_bytes", "demand_bytes")


def _spread(values: Sequence[float], how: str) -> str:
    """The median, and the range where there are several; nothing of nothing."""
    if not values:
        return ""
    known = how.format(report.spread(values)["median"])
    if len(values) == 1:
        return known
    return f"{known} ({min(values):.4g} to {max(values):.4g})"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--storage", default="100MB/s")
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    if given.quick:
        main(NETWORKS[1:], 1, LIMITS[:2], given.storage, "engines-quick")
    else:
        main(NETWORKS, given.repeats, LIMITS, given.storage, "engines")
