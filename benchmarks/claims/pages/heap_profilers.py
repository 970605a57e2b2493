"""docs/explanation/heap-profilers.md."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from claims.kept import figures
from claims.texts import Claim, table

PAGE = "docs/explanation/heap-profilers.md"
RUNS = (("memray", "alexnet"), ("massif", "lenet"))
PHASES = ("trial", "import", "load", "first", "execute")


def claims() -> Iterator[Claim]:
    """What a profiler costs."""
    yield table("## What they cost", (_row(profiler, network) for profiler, network in RUNS))


def _row(profiler: str, network: str) -> list[object]:
    pairs = figures(f"heap_cost_{network}")
    ratios = (median(pair[profiler][p] / pair["none"][p] for pair in pairs) for p in PHASES)
    return [f"`{profiler}`", network, len(pairs), *(f"{ratio:.1f}" for ratio in ratios)]
