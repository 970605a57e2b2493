"""docs/verbs/report.md."""

from __future__ import annotations

from collections.abc import Iterator

from claims.kept import ROOT, folder
from claims.quickstart import answer
from claims.texts import Claim, box

PAGE = "docs/verbs/report.md"


def claims() -> Iterator[Claim]:
    """The quick start."""
    files = ["figure: …/figures/slowdown-alexnet.svg", "report: …/report.html"]
    kept = folder("quickstart").relative_to(ROOT)
    lines = [f"$ edgebench report {kept}", *answer(), "…", *files]
    yield box("How do I give a sweep's results to others?", lines)
