"""docs/boards.md, and what README says of the same figure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from claims.kept import figures
from claims.texts import Claim, table

PAGE = "docs/boards.md"


def claims() -> Iterator[Claim]:
    """Seconds of an execution on each board."""
    yield table("## One network on four boards", in_short())


def in_short() -> Iterator[list[str]]:
    """A row a board: without a limit, and at each of the scenario's limits; empty: killed."""
    from boards_figure import DISTURBED

    found = figures("boards_figure")
    for board in dict.fromkeys(row["board"] for row in found["rows"]):
        own = {row["limit_mib"]: row for row in found["rows"] if row["board"] == board}
        yield [
            _title(board),
            f"{own[None]['storage']}, {own[None]['read_mb_per_s']:g} MB/s",
            *(
                "–" if (board, limit) in DISTURBED else _seconds(own.get(limit))
                for limit in (None, *found["limits_mib"])
            ),
        ]


def seconds_at_tightest(board: str) -> float:
    """Seconds of an execution at the tightest limit."""
    found = figures("boards_figure")
    (row,) = (
        row
        for row in found["rows"]
        if (row["board"], row["limit_mib"]) == (board, min(found["limits_mib"]))
    )
    return float(row["seconds"])


def _title(board: str) -> str:
    from edgebench.boards.board import board_title

    return board_title(board)


def _seconds(row: dict[str, Any] | None) -> str:
    return "killed" if row is None else f"{row['seconds']:.2f} s"
