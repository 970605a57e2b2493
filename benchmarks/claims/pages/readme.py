"""README.md."""

from __future__ import annotations

from collections.abc import Iterator

from claims import edgecaffe
from claims.pages.slowdown_model import scored
from claims.texts import Claim, says

PAGE = "README.md"


def claims() -> Iterator[Claim]:
    """In the page's order."""
    load, first, warm = (edgecaffe.ratio("alexnet", phase) for phase in edgecaffe.PHASES)
    yield says(
        "at {} MiB AlexNet takes {} times as long to load as unlimited, but {} to {} times as long to "
        "execute",
        *(edgecaffe.TIGHTEST_MIB, f"{load:.1f}", f"{first:.0f}", f"{warm:.0f}"),
    )
    yield from _predictions()


def _predictions() -> Iterator[Claim]:
    found = scored()
    known, free = (
        found["validation-one-thread", "steady", use] for use in ("unlimited known", "not slowed")
    )
    yield says(
        'the median error is {} % at points slowed 1.5 times or more (predicting "no slowdown": {} %)',
        *(row[2].split()[0] for row in (known, free)),
    )
    yield says("contain {} % there", known[4].split()[0])
