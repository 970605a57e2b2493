"""Whether what a board has is enough: the one sentence for all that size a board."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgebench.boards.board import Fit, find_board
from edgebench.units import brief_size, format_size

if TYPE_CHECKING:
    from edgebench.boards.board import Board
    from edgebench.records import TrialRecord
    from edgebench.results.facts import WorkloadFacts
    from edgebench.run.advice_answer import Advice
    from edgebench.run.minimum_answer import Minimum


def minimum_board_sentence(found: Minimum, board: Board) -> str:
    """Whether it is enough for what a search found."""
    viable = found.viable.good
    good = viable if found.fast is None else found.fast.good
    enough = min([found.need.total_bytes, *([good.limit_bytes] if good else [])])
    finished = viable.limit_bytes if viable else None
    return _sentence(board, enough, finished, found.library_bytes)


def workload_board_sentence(workload: WorkloadFacts) -> str:
    """Whether it is enough for a workload that was measured on the emulated board; else empty."""
    name = next((p.limits.board for p in workload.points if p.limits.board), None)
    if name is None or workload.need is None:
        return ""
    sizes = [point.limit_bytes for point in workload.viable if point.limit_bytes is not None]
    enough, finished = workload.need.total_bytes, min(sizes, default=None)
    return _sentence(find_board(name), enough, finished, workload.library_bytes)


def advice_board_sentence(found: Advice, name: str | None) -> str:
    """Whether it is enough for what remedies were tried on; empty without a board."""
    if name is None or found.needed_bytes is None:
        return ""
    finished = found.limit_bytes if found.plain_end == "ok" else None
    return _sentence(find_board(name), found.needed_bytes, finished, found.library_bytes)


def trial_board_sentence(record: TrialRecord) -> str:
    """Whether it is enough for a trial that finished on the emulated board; else empty."""
    if record.limits.board is None or record.outcome != "ok" or record.peak_bytes is None:
        return ""
    board, libraries = find_board(record.limits.board), record.library_bytes
    # The memory that was given instead of the board's may be more.
    limit = board.left_bytes if record.limit_bytes is None else record.limit_bytes
    if record.saturated and libraries and limit <= board.left_bytes:
        # What of it were cached files, which can be dropped, is not known below a limit.
        return (
            f"{_leaves(board)}: it used {format_size(limit)} there, and the {brief_size(libraries)}"
            " of libraries that it maps are not counted. edgebench minimum --board tells whether "
            "both fit."
        )
    return _sentence(board, record.peak_bytes, None, libraries)


def _leaves(board: Board) -> str:
    return f"{board.title} leaves {format_size(board.left_bytes)}"


def _sentence(
    board: Board, enough_bytes: float, finished_bytes: float | None, library_bytes: float | None
) -> str:
    libraries = (
        f"the {brief_size(library_bytes)} of libraries that it maps" if library_bytes else ""
    )
    with_them = f" with {libraries}" if libraries else ""
    words = {
        Fit.ENOUGH: f"enough{with_them}",
        Fit.SLOW: f"it finishes{with_them}, but slower than asked for",
        Fit.LIBRARIES: f"too little for {libraries} beside, so these are read from its storage "
        "again and again",
        Fit.TOO_LITTLE: "too little",
    }
    fit = board.fit(enough_bytes, finished_bytes, library_bytes)
    return f"{_leaves(board)}: {words[fit]}."
