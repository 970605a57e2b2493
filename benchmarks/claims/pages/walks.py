"""docs/explanation/walks.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from claims.kept import figures
from claims.texts import Claim, says, table

PAGE = "docs/explanation/walks.md"


def claims() -> Iterator[Claim]:
    """In the page's order."""
    told = figures("walk_truth")["told"]
    networks = [name for name in told if " " not in name and name != "all"]
    yield table("By network, and of all:", [_row(name, told[name]) for name in (*networks, "all")])
    every = told["all"]
    assert every["slowed"] == 0
    yield says(
        "Both ways differ by {} % in the median; fresh trials at limits that slow nothing differ by {} %"
        " among themselves, walks by {} %",
        *(
            f"{100 * every[name]:.1f}"
            for name in ("median_difference", "fresh_scatter", "walked_scatter")
        ),
    )


def _row(name: str, told: Mapping[str, Any]) -> list[str]:
    return [
        name,
        str(told["points"]),
        str(told["points"] - told["outside_hysteresis"]),
        f"{100 * told['median_difference']:.1f} %",
        f"{100 * told['fresh_scatter']:.1f} %",
        f"{100 * told['walked_scatter']:.1f} %",
    ]
