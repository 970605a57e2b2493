"""docs/explanation/walks.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from claims.kept import MIB, figures, rows
from claims.texts import Claim, says, table

PAGE = "docs/explanation/walks.md"
#: A working set this far from where rounds begin to read again tells that place.
_NEAR = 0.04


def claims() -> Iterator[Claim]:
    """In the page's order."""
    yield table("sets against the limits between which", _needs())
    shares = [float(cells[-1]) for cells in _needs()]
    near = sum(round(abs(share - 1), 2) <= _NEAR for share in shares)
    yield says(
        "For {} of {} the working set lies within {} % of the middle. The other {} hold",
        *(near, len(shares), f"{100 * _NEAR:.0f}", len(shares) - near),
    )
    same = [
        row["working_set_bytes"]
        for row in figures("working_sets")
        if (row["network"], row["loader"]) == ("resnet50", "mmap")
    ]
    yield says(
        "with mapped weights differs by {} % between the two",
        f"{100 * (max(same) / min(same) - 1):.0f}",
    )
    yield table("In seconds of the whole command", rows("walk_curve"))
    yield table("walks each network twice:", rows("walk_repeats"))
    told = figures("walk_truth")["told"]
    networks = [name for name in told if " " not in name and name != "all"]
    yield table("By network, and of all:", [_row(name, told[name]) for name in (*networks, "all")])
    every = told["all"]
    one = told["resnet50"]
    yield says(
        "both ways differ by {} % in the median. Of ResNet-50's they differ by {} %, but two fresh trials"
        " at a limit by {} %, and two walks by {} %",
        *_percents(every["median_difference"], one["median_difference"]),
        *_percents(one["fresh_scatter"], one["walked_scatter"]),
    )
    yield says("a walk is {} % off in the median, with its sign", f"{100 * every['bias']:+.1f}")
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


def _needs() -> Iterator[tuple[str, ...]]:
    """Working sets whose limits are known to a tenth."""
    for row in sorted(figures("working_sets"), key=_by_threads):
        low, high = row["reads_again_bytes"], row["reads_nothing_bytes"]
        if low and high and high <= 1.1 * low:
            sizes = (
                f"{row['working_set_bytes'] / MIB:.1f}",
                f"{low / MIB:.1f} to {high / MIB:.1f}",
            )
            share = f"{row['working_set_bytes'] / ((low + high) / 2):.2f}"
            yield (_threads(row), row["network"], row["loader"], *sizes, share)


def _by_threads(row: Mapping[str, Any]) -> tuple[str, str, str]:
    return _threads(row), row["loader"], row["network"]


def _threads(row: Mapping[str, Any]) -> str:
    # The sweep without a number of threads takes both cores.
    return "1" if row["threads"] else "2"


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
