"""docs/verbs/run.md."""

from __future__ import annotations

from collections.abc import Iterator

from click.testing import CliRunner

from claims.texts import Claim, box
from edgebench.cli.run import run

PAGE = "docs/verbs/run.md"


def claims() -> Iterator[Claim]:
    """What the quick start would run."""
    done = CliRunner().invoke(run, ["quickstart", "--dry-run"], catch_exceptions=False)
    lines = ["$ edgebench run quickstart --dry-run", *done.stdout.splitlines()]
    yield box("## First see what it would run", lines)
