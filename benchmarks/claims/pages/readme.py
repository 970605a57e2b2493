"""README.md."""

from __future__ import annotations

from collections.abc import Iterator

from claims import edgecaffe
from claims.kept import ROOT, folder
from claims.pages.slowdown_model import scored
from claims.quickstart import answer
from claims.texts import Claim, box, says

PAGE = "README.md"


def claims() -> Iterator[Claim]:
    """In the page's order."""
    kept = folder("quickstart").relative_to(ROOT)
    yield box("You have a neural network", [f"$ edgebench show {kept}", *answer()])
    load, first, warm = (edgecaffe.ratio("alexnet", phase) for phase in edgecaffe.PHASES)
    yield says(
        "at {} MiB AlexNet takes {} times as long to load as unlimited, but {} to {} times as long to "
        "execute",
        *(edgecaffe.TIGHTEST_MIB, f"{load:.1f}", f"{first:.0f}", f"{warm:.0f}"),
    )
    yield from _predictions()


def _predictions() -> Iterator[Claim]:
    found = scored()
    steady, free, start, own_steady, own_start = (
        found[sweep, stage, use][2].split()[0]
        for sweep, stage, use in (
            ("validation-one-thread", "steady", "unlimited known"),
            ("validation-one-thread", "steady", "not slowed"),
            ("validation-one-thread", "start", "unlimited known"),
            ("validation", "steady", "unlimited known"),
            ("validation", "start", "unlimited known"),
        )
    )
    yield says(
        "slows a network 1.5 times or more, a round's predicted time is off by {} % (median), "
        "a start's by {} %",
        *(steady, start),
    )
    yield says('"No slowdown" would be off by {} %', free)
    yield says("on another machine's disk as it is, by {} and {} %", own_steady, own_start)
