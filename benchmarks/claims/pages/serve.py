"""docs/verbs/serve.md."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from pairing import interval

from claims.kept import figures
from claims.texts import Claim, says

PAGE = "docs/verbs/serve.md"


def claims() -> Iterator[Claim]:
    """What watching costs."""
    cost = figures("serve_cost")
    pairs = cost["pairs"]["measured"]
    read, browser = (
        pairs[how]["ratios"] for how in ("the stream is read", "Chromium on this machine")
    )
    yield says(
        "takes {} times as long as one without a browser (median of {} pairs, 95 % interval {} to {})",
        *(f"{median(read):.3f}", len(read), *(f"{end:.3f}" for end in interval(read))),
    )
    yield says(
        "measuring machine itself it takes {} times as long ({} to {})",
        *(f"{ratio:.3f}" for ratio in (median(browser), *interval(browser))),
    )
