"""Whether what a board has is enough: one line for all that size a board."""

from __future__ import annotations

from edgebench.answers.table import headline, size
from edgebench.boards.board import Fit, find_board

_FITS = {
    Fit.ENOUGH: "enough",
    Fit.SLOW: "finishes, slower than asked for",
    Fit.LIBRARIES: "too little beside its libraries: they are read again and again",
    Fit.TOO_LITTLE: "too little",
}


def board_line(
    name: str | None,
    enough_bytes: float | None,
    finished_bytes: float | None,
    library_bytes: float | None,
) -> str:
    """``Raspberry Pi 4   leaves 3.6 GiB   libraries 12 MiB   enough``; empty without a board."""
    if name is None or enough_bytes is None:
        return ""
    board = find_board(name)
    libraries = f"libraries {size(library_bytes)}" if library_bytes else ""
    fit = board.fit(enough_bytes, finished_bytes, library_bytes)
    return headline(board.title, f"leaves {size(board.left_bytes)}", libraries, _FITS[fit])
