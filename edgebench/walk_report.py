"""What a record says of the walk that it is of: a trial whose limit was moved while it lived."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

#: From where a walk came to a limit.
Direction = Literal["down", "up"]
UP: Direction = "up"


@dataclass(frozen=True)
class WalkReport:
    """Where in a walk this was measured: a trial whose limit was moved while it lived.

    Args:
        walk: the trial that was walked; the records of all its limits have the same.
        step: which of its limits this is, in the order of visits; 0 is the first, unlimited.
        round_s: every round at this limit, in order, with those before they repeat.
        reference_s: the median steady round without a limit, as it was around this step: the
            unlimited steps before and after it, weighted by how near they are. None: there was
            none after it.
    """

    walk: str
    step: int
    round_s: list[float] = field(default_factory=list)
    reference_s: float | None = None
