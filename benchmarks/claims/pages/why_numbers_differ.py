"""docs/explanation/why-numbers-differ.md."""

from __future__ import annotations

from collections.abc import Iterator

from claims.kept import MIB, figures, rows
from claims.texts import Claim, says, table

PAGE = "docs/explanation/why-numbers-differ.md"


def claims() -> Iterator[Claim]:
    """In the page's order."""
    yield table("how\nmany MiB each peak of such a layer is off", rows("layer_peaks"))
    yield table("(`python benchmarks/layer_peaks_cost.py`):", rows("layer_peaks_cost"))
    yield table("## Results for four networks", rows("reconcile_rests"))
    yield says(
        "None of these {} ledgers leaves more than {} MiB, or {} % of the larger figure. The largest",
        *_most("reconcile_rests"),
    )
    for title in ("**alexnet, copy, no limit**", "**mobilenet_v2, mmap, 199 MiB**"):
        yield table(title, rows("reconcile_ledgers", title))
    yield table("(`scenarios/reconcile-training.toml`):", rows("reconcile_training_rests"))
    yield says(
        "None of these {} ledgers leaves more than {} MiB, or {} % of the larger figure.\n\n**resnet18",
        *_most("reconcile_training_rests"),
    )
    title = "**resnet18, no limit**"
    yield table(title, rows("reconcile_training_ledgers", title))
    yield table("(`scenarios/reconcile-heap.toml`):", rows("reconcile_heap_rests"))


def _most(benchmark: str) -> tuple[int, str, str]:
    """How many ledgers there are, and the largest rest in MiB and as a share."""
    ledgers = [ledger for point in figures(benchmark) for ledger in point["ledgers"]]
    rests = [abs(ledger["unexplained_bytes"]) for ledger in ledgers]
    shares = [
        rest / max(ledger["from_bytes"], ledger["to_bytes"])
        for rest, ledger in zip(rests, ledgers, strict=True)
    ]
    return len(ledgers), f"{max(rests) / MIB:.1f}", f"{100 * max(shares):.1f}"
