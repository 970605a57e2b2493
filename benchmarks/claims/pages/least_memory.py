"""docs/how-to/least-memory.md."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from claims.kept import figures
from claims.texts import Claim, table

PAGE = "docs/how-to/least-memory.md"
TOOLS = {
    "edgebench minimum": ("`edgebench minimum --swap 1G --killed`", "needs, killed, twice as slow"),
    "runexec": ("runexec (BenchExec), a limit halved by hand", "needs, killed"),
    "GNU time": ("GNU time", "needs"),
    "psrecord": ("psrecord", "needs, sampled"),
    "memray": ("memray", "heap only"),
    "hyperfine": ("hyperfine", "time only"),
}


def claims() -> Iterator[Claim]:
    """What each tool takes for its nearest answer."""
    yield table("## Beside other tools", map(_row, figures("first_answer")))


def _row(one: dict[str, Any]) -> list[object]:
    label, answers = TOOLS[one["tool"]]
    return [label, one["commands"], f"{one['wall_s']:.0f}", answers]
