"""docs/explanation/why-numbers-differ.md."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from claims.kept import MIB, figures, rows
from claims.texts import Claim, says, table

PAGE = "docs/explanation/why-numbers-differ.md"
#: The benchmarks of inference, of training and of heap profilers.
RESTS = ("reconcile_rests", "reconcile_training_rests", "reconcile_heap_rests")
#: The ledgers of the table, in the order from the first figure to the last.
STEPS = (
    *(("gnu-time", "process"), ("process", "kernel"), ("kernel", "process-own")),
    *(("process-own", "malloc"), ("malloc", "torch"), ("torch", "analytic")),
    *(("process-own", "memray"), ("memray", "torch")),
    *(("process-own", "tcmalloc"), ("tcmalloc", "torch")),
)


def claims() -> Iterator[Claim]:
    """In the page's order."""
    yield table("(`python benchmarks/layer_peaks.py`):", rows("layer_peaks"))
    yield table("AlexNet (copied weights, no limit):", _ledger("**alexnet, copy, no limit**"))
    yield table("## How much stays unexplained", map(_row, STEPS))
    yield says(
        "Of inference none of {} ledgers leaves more than {} MiB, or {} % of the larger figure; of"
        " training none of {} more than {} MiB, or {} %.",
        *_most(RESTS[0]),
        *_most(RESTS[1]),
    )


def _ledger(title: str) -> Iterator[list[str]]:
    """From GNU time's peak to the kernel's, and from own memory to torch's: no term twice."""
    lines = [line[:2] for line in rows("reconcile_ledgers", title)]
    names = [line[0] for line in lines]
    yield from lines[: names.index("= **kernel**") + 1]
    yield from lines[names.index("**process-own**") : names.index("= **torch**") + 1]


def _row(step: tuple[str, str]) -> list[str]:
    """A ledger's largest rest in each benchmark; empty where it has none."""
    rests = (
        [abs(x["unexplained_bytes"]) / MIB for x in _ledgers(one) if (x["from"], x["to"]) == step]
        for one in RESTS
    )
    return [" → ".join(step), *(f"{max(found):.2f}" if found else "" for found in rests)]


def _ledgers(benchmark: str) -> list[dict[str, Any]]:
    """All ledgers of its points."""
    return [ledger for point in figures(benchmark) for ledger in point["ledgers"]]


def _most(benchmark: str) -> tuple[int, str, str]:
    """How many ledgers there are, and the largest rest in MiB and as a share."""
    ledgers = _ledgers(benchmark)
    rests = [abs(ledger["unexplained_bytes"]) for ledger in ledgers]
    shares = [
        rest / max(ledger["from_bytes"], ledger["to_bytes"])
        for rest, ledger in zip(rests, ledgers, strict=True)
    ]
    return len(ledgers), f"{max(rests) / MIB:.1f}", f"{100 * max(shares):.1f}"
