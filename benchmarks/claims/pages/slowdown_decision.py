"""docs/decisions/slowdown-model.md."""

from __future__ import annotations

from collections.abc import Iterator

from claims import model_scores as m
from claims.kept import rows
from claims.texts import Claim, says, table

PAGE = "docs/decisions/slowdown-model.md"
_USES = ((m.KNOWN, "total"), (m.UNLIMITED, "total"), (m.NEVER, "total"), (m.UNLIMITED, "start"))


def claims() -> Iterator[Claim]:
    """The comparison of forms."""
    yield table("the paired 90 % interval over workloads", _forms())
    told = {(row[0], row[3]): row[5].removesuffix(" %") for row in rows("counted_seconds")}
    yield says("opened afterwards, these are off by {} %", told["validation-test", "copy"])
    kept = {tuple(row[:3]): row[4].split()[0] for row in rows("one_walk")}
    one, two, free = m.COLUMNS
    asked = ((one, "total"), (two, "total"), (free, "total"), (free, "start"))
    yield says(
        "steady rounds are then off by {} % with one thread ({} %). With two threads it is {} % ({} %), and"
        " as is {} % ({} %). Only starts as is gain: {} % ({} %)",
        *(kept[(*place, walked)] for place in asked for walked in ("each in turn", "no")),
    )


def _forms() -> Iterator[tuple[str, ...]]:
    kept = {tuple(row[:4]): row[6:] for row in rows("model_forms")}
    for use, phase in _USES:
        for form in (m.SIMULATED, m.CLIFF, m.THROUGH):
            cells = []
            for sweep in m.COLUMNS:
                error, _, less = kept.get((sweep, use, phase, form), ("-", "", "-"))
                cells.append(error + ("" if less == "-" else f" ({less})"))
            if cells != ["-"] * len(cells):
                words = "steady" if phase == "total" else phase
                yield (f"{use}, {words}: {form}", *cells)
