"""docs/decisions/0090-the-allocator-is-simulated.md."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any

from claims.kept import figures, rows, sweep
from claims.texts import Claim, says, table

PAGE = "docs/decisions/0090-the-allocator-is-simulated.md"
PHASES = {"start": "start", "total": "steady"}


def claims() -> Iterator[Claim]:
    """What the simulation misses by, of demand and of slowdown."""
    yield demand_claim("Demand of {} trainings without a limit is simulated with a median error of")
    yield says(
        "its repeats differ by {} % in the median of its whole steps",
        f"{100 * repeats_apart():.0f}",
    )
    yield table("Median error of trainings' slowdowns", list(slowdown_rows()))


def demand_claim(words: str) -> Claim:
    """How near simulated demands are, with the allocator and with all memory given back."""
    found = figures("training_demand")
    kept, back = (demand_errors(found, key) for key in ("simulated", "given_back"))
    return says(
        f"{words} {{}} %, {{}} of them within 3 %; without the allocator with {{}} %, {{}} of them",
        *(len(found), f"{median(kept):.1f}", sum(error <= 3 for error in kept)),
        *(f"{median(back):.1f}", sum(error <= 3 for error in back)),
    )


def repeats_apart() -> float:
    """Median distance of two repeats' median later steps, as a share of the faster one."""
    phases = sweep("training-limits").phases
    later = phases[(phases["phase"] == "round") & (phases["round"] > 0)]
    each = later.groupby(["network", "limit_label", "trial"])["wall_s"].median()
    pairs = each.groupby(level=[0, 1]).agg(["min", "max"])
    return float((pairs["max"] / pairs["min"] - 1).median())


def demand_errors(found: Sequence[dict[str, Any]], key: str) -> list[float]:
    """Relative errors in percent, without their signs."""
    return [100 * abs(one[key] / one["measured"] - 1) for one in found]


def slowdown_rows() -> Iterator[list[str]]:
    """The table's rows, whole steps before their phases."""
    found = rows("training_slowdown")
    order = [*PHASES, "data", "forward", "backward", "step"]
    for phase, *cells in sorted(found, key=lambda row: order.index(row[0])):
        yield [PHASES.get(phase, f"`{phase}`"), *cells]
