"""README.md."""

from __future__ import annotations

from collections.abc import Iterator

from claims import edgecaffe
from claims import validation as v
from claims.kept import sweep
from claims.pages import engines
from claims.texts import Claim, says, table

PAGE = "README.md"


def claims() -> Iterator[Claim]:
    """In the page's order."""
    trials = sweep("edgecaffe").trials
    load, first, warm = (edgecaffe.ratio("alexnet", phase) for phase in edgecaffe.PHASES)
    yield says("*{} trials of four networks", len(trials))
    yield says(
        "At {} MiB AlexNet loads {} times slower than unlimited, but executes {} to {} times slower",
        *(edgecaffe.TIGHTEST_MIB, f"{load:.1f}", f"{first:.0f}", f"{warm:.0f}"),
    )
    yield table("## The same network in four engines", engines.in_short())
    yield from _predictions()


def _predictions() -> Iterator[Claim]:
    known = v.answers("network")
    intervals = sorted(v.coverage(v.answers(s)) or 0 for s in ("network-unrun", "held-out-unrun"))
    yield says(
        "{} % at points slowed down 1.5 times or more ({} % at twice or more)",
        *(f"{v.median_error([a for a in known if a.slowdown >= x]):.1f}" for x in (1.5, 2)),
    )
    yield says("{} % over all points", f"{v.median_error(known):.1f}")
    unslowed = v.median_error(v.answers("network", "unslowed"))
    yield says('"no slowdown" has an error of {} %', f"{unslowed:.1f}")
    yield says(
        "contain {} to {} % of them for networks that were never run",
        *(f"{share:.0f}" for share in intervals),
    )
