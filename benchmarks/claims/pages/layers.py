"""docs/verbs/layers.md."""

from __future__ import annotations

from collections.abc import Iterator

from claims.kept import FRESH_QUICKSTART, folder
from claims.texts import Claim, box

PAGE = "docs/verbs/layers.md"


def claims() -> Iterator[Claim]:
    """What the verb prints of the quick start, without the last lines, which name the folder."""
    from click.testing import CliRunner

    from edgebench.cli.layers import layers

    words = ["alexnet", "--from", str(folder(FRESH_QUICKSTART)), "--memory", "40%", "--no-figure"]
    said = CliRunner().invoke(layers, words, catch_exceptions=False).stdout
    lines = [line for line in said.splitlines() if not line.startswith(("results:", "next:"))]
    yield box("Which layers are slow under", lines)
