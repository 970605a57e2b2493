"""Whether a board has the memory to give, and lines that give it to a program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgebench.answers.table import headline, size
from edgebench.boards import Fit, find_board
from edgebench.text import MIB

if TYPE_CHECKING:
    from edgebench.answers.limits import WorkloadAnswer

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


def paste_lines(answer: WorkloadAnswer) -> dict[str, str]:
    """Lines for Docker and Podman, systemd and Kubernetes; none where the swap can't be written."""
    give, swap = answer.give_bytes, answer.swap_bytes
    if answer.swap_kind == "none":
        swap = 0
    if give is None or swap is None:
        return {}
    most = _short(give)
    lines = {
        "docker": f"docker run --memory={most.lower()} --memory-swap={_short(give + swap).lower()}",
        "systemd": f"systemd-run -p MemoryMax={most} -p MemorySwapMax={_short(swap)}",
    }
    if not swap:
        # A pod has no swap of its own.
        resources = f'requests: {{memory: "{most}i"}}, limits: {{memory: "{most}i"}}'
        lines["kubernetes"] = f"resources: {{{resources}}}"
    return lines


def _short(size_bytes: int) -> str:
    """``412M``, ``8192K``; rounded up."""
    if size_bytes % MIB == 0 or size_bytes >= 64 * MIB:
        return f"{-(-size_bytes // MIB)}M" if size_bytes else "0"
    return f"{-(-size_bytes // 1024)}K"
