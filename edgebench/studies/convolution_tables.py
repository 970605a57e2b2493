"""The convolution micro-benchmark's tables: cost, bends, stacks against one kernel."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from edgebench.studies.convolutions import cost_bends, cost_frame, stacked
from edgebench.studies.tables import Column, StudyTable

if TYPE_CHECKING:
    from edgebench.results.results import Results
    from edgebench.studies.convolutions import CostBend

_MIB = 1 << 20
#: What was done, and at which limit: the first columns of each table.
_WHERE = (Column("work", "pass", words=True), Column("limit_label", "limit", words=True))


def convolution_tables(results: Results) -> list[StudyTable]:
    """Cost per image of every point, its bends, and stacks against one kernel.

    Raises:
        ResultsError: no convolution finished in this sweep.
    """
    costs = cost_frame(results)
    keys = ["work", "limit_label", "stack", "kernel", "batch"]
    medians = costs.groupby(keys, as_index=False)[["image_s", "image_bytes"]].median()
    columns = (
        *_WHERE,
        Column("stack", "stacked", "{:g}"),
        Column("kernel", "kernel", "{:g}"),
        Column("batch", "batch", "{:g}"),
        Column("image_s", "ms an image", "{:.3f}", 1e-3),
        Column("image_bytes", "MiB an image", "{:.2f}", _MIB),
    )
    rows: list[dict[str, Any]] = medians.to_dict("records")  # type: ignore[assignment]
    told = [StudyTable("convolution", "What an image costs a convolution", columns, rows)]
    bends = list(cost_bends(costs))
    told += [_bends_table(bends)] if bends else []
    pairs = list(stacked(costs))
    if pairs:
        told.append(_stacked_table([asdict(pair) for pair in pairs]))
    return told


def _bends_table(bends: list[CostBend]) -> StudyTable:
    rows = [
        {
            **cost.shared,
            "along": cost.along,
            "other": cost.shared["batch" if cost.along == "kernel" else "kernel"],
            "at": cost.at if cost.bend.found else None,
            "low": cost.interval[0] if cost.bend.found else None,
            "high": cost.interval[1] if cost.bend.found else None,
            "steeper": cost.bend.after / cost.bend.before if cost.bend.before else None,
            "doubt": cost.bend.doubt,
        }
        for cost in bends
    ]
    columns = (
        *_WHERE,
        Column("along", "along", words=True),
        Column("stack", "stacked", "{:g}"),
        Column("other", "at the other's", "{:g}"),
        Column("at", "bend at", "{:.1f}"),
        Column("low", "from", "{:.1f}"),
        Column("high", "to", "{:.1f}"),
        Column("steeper", "slope after / before", "{:.2f}"),
        Column("doubt", "doubt", "{:.3f}"),
    )
    says = ("no place given: one straight line and its noise look as bent more than once in 20",)
    return StudyTable("bends", "Where the time an image takes bends", columns, rows, says)


def _stacked_table(rows: list[dict[str, Any]]) -> StudyTable:
    columns = (
        *_WHERE,
        Column("batch", "batch", "{:g}"),
        Column("stack", "stacked", "{:g}"),
        Column("small", "small kernel", "{:g}"),
        Column("large", "large kernel", "{:g}"),
        Column("ratio", "time small / large", "{:.2f}"),
        Column("low", "from", "{:.2f}"),
        Column("high", "to", "{:.2f}"),
        Column("bytes_ratio", "memory small / large", "{:.2f}"),
    )
    title = "Small kernels in a row against one large kernel of the same field"
    return StudyTable("stacked", title, columns, rows)
