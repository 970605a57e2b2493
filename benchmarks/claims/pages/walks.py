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
    yield table(
        "at the declared speed, as a share of a round:",
        [_row(name, told[name]) for name in (*networks, "all")],
    )
    every = told["all"]
    one = told["resnet50"]
    yield says(
        "Both ways differ by {} % in the median. Of ResNet-50's they differ by {} %, but two fresh trials"
        " at a limit by {} %, and two walks by {} %",
        *_percents(every["median_difference"], one["median_difference"]),
        *_percents(one["fresh_scatter"], one["walked_scatter"]),
    )
    yield says(
        "The signed difference of a walk is {} % in the median", f"{100 * every['bias']:+.1f}"
    )
    yield says(
        "seconds agree as well: AlexNet's differ by {} %",
        *_percents(told["alexnet"]["median_difference"]),
    )
    yield says(
        "what they read differs by {} % of a round in the median",
        f"{100 * every['median_read_difference']:.1f}",
    )
    yield says(
        "at the {} limits outside the hysteresis that slow, by at most {} %; their seconds by at most {} %",
        *(every["slowed"], f"{100 * every['largest_read_of_slowed']:.0f}"),
        f"{100 * every['largest_of_slowed']:.0f}",
    )


def _percents(*shares: float) -> list[str]:
    return [f"{100 * share:.1f}" for share in shares]


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"


def _row(name: str, told: Mapping[str, Any]) -> list[str]:
    return [
        name,
        str(told["points"]),
        str(told["points"] - told["outside_hysteresis"]),
        *(_percent(told[name]) for name in ("median_difference", "median_read_difference")),
        str(told["slowed"]),
        *(_percent(told[name]) for name in ("largest_of_slowed", "largest_read_of_slowed")),
        *(_percent(told[name]) for name in ("fresh_scatter", "walked_scatter")),
    ]
