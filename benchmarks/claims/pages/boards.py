"""docs/boards.md, and what README says of the same figure."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Any

from claims.kept import figures, rows
from claims.texts import Claim, table

PAGE = "docs/boards.md"
#: The emulated devices in words.
_DEVICES = {
    "one-core-sd": "one core, storage at 100 MB/s and 1,500 requests a second",
    "two-cores-emmc": "two cores, storage at 300 MB/s",
    "two-cores-zram": "two cores, zram",
}


def claims() -> Iterator[Claim]:
    """Seconds of an execution on each board; errors of other devices' constants."""
    yield table("## One network on four boards", in_short())
    yield table("## How good another device's constants are", _errors())


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


def _errors() -> Iterator[list[str]]:
    """A row a device: points, and the median error from its constants alone and corrected."""
    for device, points, own, carried in rows("emulated_devices"):
        alone = f"{100 * median(_off(device)):.1f}%"
        errors = (cell.replace("%", " %") for cell in (alone, own, carried))
        yield [_DEVICES[device], points, *errors]


def _off(device: str | None = None, *, starts: bool | None = None) -> list[float]:
    """By what share of it simulated slowdowns are off, with nothing fitted."""
    return [
        abs(point["simulated"] / point["measured"] - 1)
        for point in figures("emulated_devices")["points"]
        if device in (None, point["device"]) and starts in (None, point["phase"] == "start")
    ]


def _title(board: str) -> str:
    from edgebench.boards.board import board_title

    return board_title(board)


def _seconds(row: dict[str, Any] | None) -> str:
    return "killed" if row is None else f"{row['seconds']:.2f} s"
