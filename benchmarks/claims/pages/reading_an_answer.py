"""docs/reading-an-answer.md."""

from __future__ import annotations

from collections.abc import Iterator

from claims.kept import folder
from claims.texts import Claim, box

PAGE = "docs/reading-an-answer.md"


def claims() -> Iterator[Claim]:
    """What `show --verbose` prints of AlexNet in a walked sweep."""
    from click.testing import CliRunner

    from edgebench.cli.show import show

    words = [str(folder("validation-one-thread")), "--verbose"]
    printed = CliRunner().invoke(show, words, catch_exceptions=False).stdout
    yield box("This is AlexNet in a kept sweep", printed.partition("\n\n")[0].splitlines())
