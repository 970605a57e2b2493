"""What is left unexplained between two strategies' figures, of finished sweeps with strategies.

Writes the table of rests and, of the networks named in ``SHOWN``, the ledgers themselves;
docs/why-numbers-differ.md has both.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import report

from edgebench.measures.ledger import Ledger
from edgebench.reconciling.reconciliation import Reconciliation, reconcile
from edgebench.results import latest, load

MIB = 1 << 20
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
)
#: Network, loader and whether limited: points whose ledgers are written out.
SHOWN = (("alexnet", "copy", False), ("mobilenet_v2", "mmap", True))


def about(point: Reconciliation) -> tuple[str, str, str]:
    """Its network, loader and limit in words."""
    settings, limit = point.record.settings, point.record.limit_bytes
    network = "+".join(settings.get("networks", ()))
    return network, settings["loader"], "no limit" if limit is None else f"{limit / MIB:.0f} MiB"


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
    return [*about(point), peak, *rests, f"{closed} of {len(ledgers)}"]


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
    return f"**{', '.join(about(point))}**\n\n{table}\n"


def is_shown(point: Reconciliation) -> bool:
    """Whether its ledgers are written out."""
    network, loader, _ = about(point)
    return (network, loader, point.record.limit_bytes is not None) in SHOWN


def main(paths: Sequence[str]) -> None:
    """Reconcile the newest sweep of each folder."""
    points = [point for path in paths for point in reconcile(load(latest(Path(path))).sweeps[0])]
    says = (
        "What each ledger leaves unexplained, MiB; bold where it is more than 2 % of the larger "
        "figure and more than 2 MiB. Last: how many of the layers' ledgers are within that."
    )
    header = ["network", "loader", "limit", "peak", *(f"{a} → {b}" for a, b in STEPS), "layers"]
    data = [
        {"about": about(point), "ledgers": [ledger.to_json() for ledger in point.ledgers]}
        for point in points
    ]
    report.write("reconcile_rests", says, header, [row(point) for point in points], data)
    ledgers = "\n".join(shown(point) for point in points if is_shown(point))
    (report.RESULTS / "reconcile_ledgers.md").write_text(ledgers)
    print(ledgers)


if __name__ == "__main__":
    main(sys.argv[1:])
