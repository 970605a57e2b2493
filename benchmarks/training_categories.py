"""The kernel's mark of training, item by item, and whether the items add up to it.

Of a finished sweep of scenarios/training-mark.toml; docs/how-to/training.md has its table.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import report

from edgebench.measures.strategies.categories import BASE, BESIDE, MARK, NAMES, REST
from edgebench.results.results import Results, latest, load

MIB = 1 << 20
SAYS = (
    "The kernel's mark of the timed trial and of the trial that tells its items, MiB; what the "
    "latter consists of; last, their sum as a share of the mark. Aim: 97 % to 103 %."
)
ITEMS = (BASE, *NAMES, *BESIDE)


def timed_marks(results: Results) -> dict[tuple[str, int], float]:
    """Network and batch → the highest mark of its timed trials after the import, bytes."""
    steps = results.phases[results.phases["phase"] != "import"]
    return steps.groupby(["network", "batch"])["peak_bytes"].max().to_dict()


def row(about: tuple[str, int], timed: float, items: dict[str, float]) -> list[Any]:
    """A line of the table."""
    mark = sum(items.values())
    share = 1 - items[REST] / mark
    sizes = (timed, mark, *(items[name] for name in ITEMS))
    return [*about, *(f"{size / MIB:.1f}" for size in sizes), f"{share:.1%}"]


def write(path: Path) -> None:
    """The table of one sweep."""
    results = load(latest(path))
    timed = timed_marks(results)
    held = results.categories[results.categories["phase"] == MARK]
    points = {
        (str(network), int(batch)): rows.set_index("category")["held_bytes"].to_dict()
        for (network, batch), rows in held.groupby(["network", "batch"], sort=False)
    }
    rows = [row(about, timed[about], items) for about, items in sorted(points.items())]
    data = [{"about": about, "timed": timed[about], **items} for about, items in points.items()]
    header = ["network", "batch", "timed", "mark", *ITEMS, "told"]
    report.write("training_categories", SAYS, header, rows, data)


if __name__ == "__main__":
    for folder in sys.argv[1:]:
        write(Path(folder))
