"""Does a real sweep show what it is for? Each network's loading at its tightest viable limit.

Reads a finished sweep: ``python benchmarks/loading_slows.py RESULTS``. One trial's loading is the
median over its rounds; the spread is the repeats' standard deviation (as in every warning of
edgebench's), of the unlimited trials or of those at the tightest limit at which every repeat ended
``ok``, whichever is larger.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import report

import edgebench

if TYPE_CHECKING:
    import pandas as pd

WORKLOAD = ["network", "schedule", "loader", "swap_kind"]
UNLIMITED = float("inf")


def loading(path: Path) -> pd.DataFrame:
    """One row a trial and network: the limit in bytes and the seconds of loading."""
    results = edgebench.load(path)
    phases, trials = results.phases, results.trials
    killed = set(trials.loc[trials.outcome != "ok", "point"])
    rows = phases[(phases.phase == "load") & ~phases.point.isin(killed)]
    rows = rows.assign(memory_bytes=rows.memory_bytes.fillna(UNLIMITED))
    return rows.groupby([*WORKLOAD, "trial", "memory_bytes"]).wall_s.median().reset_index()


def judged(table: pd.DataFrame) -> list[list[object]]:
    """A row for each workload: its tightest viable limit against none, in spreads."""
    rows: list[list[object]] = []
    for names, group in table.groupby(WORKLOAD):
        tightest = group.memory_bytes.min()
        free = group[group.memory_bytes == UNLIMITED].wall_s
        if tightest == UNLIMITED or free.empty:
            continue
        tight = group[group.memory_bytes == tightest].wall_s
        spread = max(free.std(), tight.std())
        slower = tight.median() - free.median()
        numbers = [tightest / 2**20, free.median(), tight.median(), spread]
        says = "yes" if slower > 3 * spread else "no"
        rows.append([" ".join(names), *(f"{number:.4g}" for number in numbers), says])
    return rows


def main(path: Path) -> None:
    """Judge one sweep."""
    says = f"Loading at the tightest viable limit against none, of {path.name}."
    header = ["workload", "limit, MiB", "unlimited, s", "limited, s", "spread, s", "> 3 spreads"]
    rows = judged(loading(path))
    data = [dict(zip(header, row, strict=True)) for row in rows]
    report.write("loading_slows", says, header, rows, data)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
