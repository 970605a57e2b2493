"""README.md."""

from __future__ import annotations

from collections.abc import Iterator

from claims import edgecaffe
from claims import model_scores as m
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
    given = m.points(m.COLUMNS[0], m.UNLIMITED, "total", m.SIMULATED)
    found, nothing = m.error(given), m.unslowed(given)
    assert found is not None
    assert nothing is not None
    yield says(
        'the median error is {} % at points slowed 1.5 times or more (predicting "no slowdown": {} %)',
        *(f"{100 * one[0]:.1f}" for one in (found, nothing)),
    )
    yield says("contain {} % there", f"{100 * (m.coverage(m.UNLIMITED, m.COLUMNS[0]) or 0):.0f}")
