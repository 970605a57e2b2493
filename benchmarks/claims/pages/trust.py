"""docs/explanation/trust.md."""

from __future__ import annotations

from collections.abc import Iterator

from claims.kept import figures
from claims.texts import Claim, says

PAGE = "docs/explanation/trust.md"


def claims() -> Iterator[Claim]:
    """How many small faults the tests find."""
    told = figures("mutation")
    quick = told["samples"]["quick"]
    yield says(
        "(`nox -s mutation`), the quick tests find {} % of {} (95 %: {} to {} %)",
        *(f"{100 * quick['share']:.0f}", quick["tried"]),
        *(f"{100 * quick[key]:.0f}" for key in ("low", "high")),
    )
