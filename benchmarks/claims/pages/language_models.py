"""docs/how-to/language-models.md."""

from __future__ import annotations

from collections.abc import Iterator

from claims.kept import sweep
from claims.texts import Claim, table

PAGE = "docs/how-to/language-models.md"


def claims() -> Iterator[Claim]:
    """Tokens a second by loader and limit."""
    yield table("## What a limit costs", map(_row, ("copy", "mmap")))


def _row(loader: str) -> list[str]:
    trials = sweep("language-model").trials
    own = trials[(trials["loader"] == loader) & (trials["outcome"] == "ok")]
    rates = own.groupby("limit_label")["throughput_per_s"].agg(["median", "min", "max"])
    cells = [rates.loc[label] for label in ("max", "85%", "70%")]
    return [
        f"`{loader}`",
        *(f"{one['median']:.2g} ({one['min']:.2g} to {one['max']:.2g})" for one in cells),
    ]
