"""docs/decisions/simulator.md."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any

from claims.kept import figures, rows
from claims.texts import Claim, says

PAGE = "docs/decisions/simulator.md"
SLOWED = "1.5 times or more"


def claims() -> Iterator[Claim]:
    """What the simulation misses by, of demand and of slowdown."""
    yield demand_claim("Demand of {} trainings without a limit is simulated with a median error of")
    *_, simulated, given_back, _ = next(
        row for row in rows("training_slowdown") if row[:2] == ["total", SLOWED]
    )
    yield says(
        f"a limit slows {SLOWED} are off by {{}} %; with freed memory given back at once, by {{}} %",
        *(simulated.removesuffix(" %"), given_back.removesuffix(" %")),
    )
    chosen, opened = (
        [cell.removesuffix(" %") for cell in row[-2:]]
        for row in rows("simulated_counts")
        if row[1:3] == [f"steady, {SLOWED}", "slowdown"]
    )
    yield says(
        'such points had {} % ("not slowed": {} %), in the others {} % ({} %)', *chosen, *opened
    )


def demand_claim(words: str) -> Claim:
    """How near simulated demands are, with the allocator and with all memory given back."""
    found = figures("training_demand")
    kept, back = (demand_errors(found, key) for key in ("simulated", "given_back"))
    return says(
        f"{words} {{}} %, {{}} of them within 3 %; without the allocator with {{}} %, {{}} of them",
        *(len(found), f"{median(kept):.1f}", sum(error <= 3 for error in kept)),
        *(f"{median(back):.1f}", sum(error <= 3 for error in back)),
    )


def demand_errors(found: Sequence[dict[str, Any]], key: str) -> list[float]:
    """Relative errors in percent, without their signs."""
    return [100 * abs(one[key] / one["measured"] - 1) for one in found]
