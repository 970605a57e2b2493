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
    told = figures("walk_truth")["told"]
    networks = [name for name in told if " " not in name and name != "all"]
    yield table("By network, and of all:", [_row(name, told[name]) for name in (*networks, "all")])
    every = told["all"]
    slowed = [row for row in figures("walk_truth")["rows"] if _slows_alexnet(row)]
    factors = [row["slowdown"] for row in slowed]
    yield says(
        "AlexNet is slowed {} to {} times at {} limits, and a walk is at most {} % off there",
        *(f"{min(factors):.1f}", f"{max(factors):.1f}", len(slowed)),
        f"{100 * told['alexnet']['largest_of_slowed']:.1f}",
    )
    yield says(
        "of the {} limits outside the hysteresis that make rounds half as long again, the farthest is {} %"
        " off",
        every["slowed"],
        f"{100 * every['largest_of_slowed']:.0f}",
    )
    yield says(
        "Both ways differ by {} % in the median; fresh trials at limits that slow nothing differ by {} %"
        " among themselves, walks by {} %",
        *(
            f"{100 * every[name]:.1f}"
            for name in ("median_difference", "fresh_scatter", "walked_scatter")
        ),
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


def _slows_alexnet(row: Mapping[str, Any]) -> bool:
    """A limit at which AlexNet is slowed twice or more, outside the hysteresis."""
    return row["network"] == "alexnet" and row["slowdown"] >= 2 and not row["hysteresis"]


def _of_slowed(largest: float | None) -> str:
    return "-" if largest is None else f"{100 * largest:.1f} %"


def _row(name: str, told: Mapping[str, Any]) -> list[str]:
    return [
        name,
        str(told["points"]),
        str(told["points"] - told["outside_hysteresis"]),
        str(told["slowed"]),
        f"{100 * told['median_difference']:.1f} %",
        _of_slowed(told["largest_of_slowed"]),
        f"{100 * told['fresh_scatter']:.1f} %",
        f"{100 * told['walked_scatter']:.1f} %",
    ]
