"""docs/explanation/slowdown-model.md."""

from __future__ import annotations

from collections.abc import Iterator

from claims import model_scores as m
from claims import validation as v
from claims.kept import MIB, figures, rows, sweep
from claims.texts import Claim, says, table

PAGE = "docs/explanation/slowdown-model.md"


def claims() -> Iterator[Claim]:
    """In the page's order."""
    yield table("In brackets the 90 % interval over workloads", _table())
    told = {(*row[:2], row[3]): row[5].removesuffix(" %") for row in rows("counted_seconds")}
    yield says(
        "opened once; {} were slowed so much: from counted bytes {} %",
        _networks("validation-test", "read=100MB/s"),
        told["validation-test", "read=100MB/s", "all"],
    )
    knees = next(row for row in rows("knees") if row[0] == "all")
    yield says("of {} of {} walked workloads is simulated within 5 %", knees[2], knees[1])
    edges = v.edges()
    yield says(
        "Of {} limits below which networks that never ran are killed, {} % are predicted within 3 %; "
        "{} killed",
        *(edges["edges"], f"{100 * edges['within_3']:.0f}", edges["dangerous"]),
    )
    asked = (
        ("validation-storage", "read=50MB/s"),
        ("validation-storage", "read=300MB/s,read_iops=5000"),
        ("validation-zram", "zram"),
    )
    yield says(
        "{} % at 50 MB/s ({} networks), {} % at 300 MB/s and 5,000 requests a second ({}), {} % in zram"
        " ({})",
        *(said for place in asked for said in (told[(*place, "all")], _networks(*place))),
    )
    base = sweep("edgecaffe").trials["base_bytes"].median() / MIB
    yield says("leaves about {} MiB of anonymous memory", f"{base:.0f}")


def _table() -> Iterator[tuple[str, ...]]:
    """What the model reaches, by column; beside it the rules without a model."""
    for words, use, phase in (
        ("a limit left out: steady", m.KNOWN, "total"),
        ("unlimited trials known: steady", m.UNLIMITED, "total"),
        ("never run: steady", m.NEVER, "total"),
        ("unlimited trials known: start", m.UNLIMITED, "start"),
    ):
        own = [_cell(m.points(one, use, phase, m.SIMULATED)) for one in m.COLUMNS]
        yield (words, *own)
    nothing = (m.points(one, m.UNLIMITED, "total", m.SIMULATED) for one in m.COLUMNS)
    yield ("“not slowed”: steady", *(_said(m.unslowed(one)) for one in nothing))
    cliff = (m.points(one, m.UNLIMITED, "total", m.CLIFF) for one in m.COLUMNS)
    yield ("a formula of five numbers (CLIFF), unlimited trials known: steady", *map(_cell, cliff))
    known = {(row[0], *row[2:4]): row[5] for row in rows("counted_seconds")}
    counted = [known[one, one, "all"] for one in m.COLUMNS[:2]]
    yield ("from counted bytes: steady", *counted, "-")
    held = (
        " · ".join(v.per_cent(m.coverage(use, one), 0) for use in (m.KNOWN, m.UNLIMITED, m.NEVER))
        for one in m.COLUMNS
    )
    yield ("90 % intervals hold: a limit left out · unlimited known · never run", *held)


def _networks(sweep: str, storage: str) -> int:
    """How many have points that were computed from counted bytes."""
    points = figures("counted_seconds")
    return len({p["network"] for p in points if (p["sweep"], p["storage"]) == (sweep, storage)})


def _cell(points: tuple[m.Point, ...]) -> str:
    return _said(m.error(points))


def _said(found: tuple[float, float, float] | None) -> str:
    if found is None:
        return "-"
    middle, low, high = (100 * one for one in found)
    return f"{middle:.1f} % ({low:.1f} to {high:.1f})"
