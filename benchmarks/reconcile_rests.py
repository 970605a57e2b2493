"""What is left unexplained between two strategies' figures, of finished sweeps with strategies.

Of each sweep a table of rests and, of the points in ``SHOWN``, the ledgers themselves;
docs/explanation/why-numbers-differ.md has the largest rests and one point's ledgers.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import report

from edgebench.analysis.reconcile.reconciliation import Reconciliation, reconcile_sweep
from edgebench.measures.ledger import Ledger
from edgebench.results.results import latest, load

MIB = 1 << 20
SAYS = (
    "What each ledger leaves unexplained, MiB; bold where it is more than 2 % of the larger figure "
    "and more than 2 MiB. Last: how many of the layers' ledgers are within that."
)
#: The ledgers of the table, in the order from the first figure to the last.
STEPS = (
    ("gnu-time", "process"),
    ("process", "kernel"),
    ("kernel", "process-own"),
    ("process-own", "malloc"),
    ("malloc", "torch"),
    ("torch", "analytic"),
    ("process-own", "memray"),
    ("memray", "torch"),
    ("process-own", "tcmalloc"),
    ("tcmalloc", "torch"),
)
#: Scenario, network, loader and whether limited: points whose ledgers are written out.
SHOWN = (
    ("reconcile", "alexnet", "copy", False),
    ("reconcile", "mobilenet_v2", "mmap", True),
    ("reconcile-training", "resnet18", "", False),
)


def about(point: Reconciliation) -> tuple[str, str, str]:
    """Its network, loader and limit in words."""
    settings, limit = point.record.settings, point.record.limit_bytes
    network = settings.get("network") or "+".join(settings.get("networks", ()))
    limited = "no limit" if limit is None else f"{limit / MIB:.0f} MiB"
    return network, settings.get("loader", ""), limited


def rest(point: Reconciliation, step: tuple[str, str]) -> str:
    """One ledger's rest in MiB; marked where it isn't small."""
    for ledger in point.ledgers:
        if (ledger.source.strategy, ledger.target.strategy) == step:
            words = f"{ledger.unexplained_bytes / MIB:+.2f}"
            return words if ledger.closes else f"**{words}**"
    return ""


def row(point: Reconciliation) -> list[str]:
    """A line of the table."""
    ledgers = [ledger for layer in point.layers for ledger in layer.ledgers]
    closed = sum(ledger.closes for ledger in ledgers)
    peak = f"{(point.record.peak_bytes or 0) / MIB:.0f}"
    rests = (rest(point, step) for step in STEPS)
    return [*about(point), peak, *rests, f"{closed} of {len(ledgers)}" if ledgers else ""]


def without_empty(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """The table without columns in which nothing stands below the head."""
    kept = [n for n in range(len(rows[0])) if any(cells[n] for cells in rows[1:])]
    return [[cells[n] for n in kept] for cells in rows]


def ledger_lines(ledger: Ledger) -> Iterator[list[str]]:
    """One figure, the terms after it, and what is left."""
    source = ledger.source
    yield [f"**{source.strategy}**", f"{source.size_bytes / MIB:.2f}", source.where]
    for term in ledger.terms:
        yield [term.name, f"{term.size_bytes / MIB:+.2f}", term.says]
    yield ["unexplained", f"{ledger.unexplained_bytes / MIB:+.2f}", ""]
    target = ledger.target
    yield [f"= **{target.strategy}**", f"{target.size_bytes / MIB:.2f}", target.where]


def shown(point: Reconciliation) -> str:
    """Its ledgers as one table."""
    steps = {(led.source.strategy, led.target.strategy): led for led in point.ledgers}
    made = [list(ledger_lines(steps[step])) for step in STEPS if step in steps]
    rows = [
        ["", "MiB", "what it is"],
        ["---", "---:", "---"],
        *(r for lines in made for r in lines),
    ]
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in rows)
    return f"**{', '.join(filter(None, about(point)))}**\n\n{table}\n"


def write(path: Path) -> None:
    """The tables of one sweep."""
    results = load(latest(path))
    scenario = results.path.name.split("-", 1)[1].rpartition("-")[0]
    points = reconcile_sweep(results.sweeps[0])
    header = ["network", "loader", "limit", "peak", *(f"{a} → {b}" for a, b in STEPS), "layers"]
    head, *rows = without_empty([header, *map(row, points)])
    data = [
        {"about": about(point), "ledgers": [ledger.to_json() for ledger in point.ledgers]}
        for point in points
    ]
    name = scenario.replace("-", "_")
    report.write(f"{name}_rests", SAYS, head, rows, data)
    limited = (point.record.limit_bytes is not None for point in points)
    keys = [
        (scenario, *about(point)[:2], some) for point, some in zip(points, limited, strict=True)
    ]
    ledgers = [shown(point) for point, key in zip(points, keys, strict=True) if key in SHOWN]
    if ledgers:
        (report.RESULTS / f"{name}_ledgers.md").write_text("\n".join(ledgers))


if __name__ == "__main__":
    for folder in sys.argv[1:]:
        write(Path(folder))
