"""docs/explanation/observer-effect.md."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from statistics import median
from typing import Any

from observer.effect_table import rate_ratio
from pairing import interval

from claims.kept import MIB, figures
from claims.texts import Claim, says, table

PAGE = "docs/explanation/observer-effect.md"
HERE, V2 = "observer_kernel", "observer_kernel_v2"
#: In an emulated machine.
EMULATED, OLDER = "observer_kernel_v2_6.12", "observer_kernel_v2_6.1"
#: Benchmarks of kills by how a workload was watched, on version 1, and on version 2.
WATCHED = ("observer_effect_rounds", "observer_effect_alexnet")
WATCHED_V2 = ("observer_effect_v2_rounds8", "observer_effect_v2_rounds2")
#: Files that have a row of their own: those that flush the statistics.
NAMED = tuple(
    name if name == "nothing" else f"{name} all the time" for name in ("nothing", "memory.stat")
)
TITLES = {
    WATCHED[0]: "the program like a network",
    WATCHED[1]: "AlexNet, five rounds",
    WATCHED_V2[0]: "version 2: the program like a network",
    WATCHED_V2[1]: "version 2: two rounds of it",
}

Row = dict[str, Any]


def claims() -> Iterator[Claim]:
    """In the page's order."""
    files, of_v2 = rows(HERE, "files"), rows(V2, "files")
    yield says("of {} tries each, in random order", tries([*files, *of_v2]))
    yield table("| read meanwhile | version 1 |", side_by_side(files, of_v2, NAMED))
    kinds = [
        [f"{kernel}, {row['what']}", count(row)]
        for kernel, name in (
            ("6.18, version 1", HERE),
            ("6.18, version 2", V2),
            ("6.12, version 2, emulated", EMULATED),
            ("6.1, version 2, emulated", OLDER),
        )
        for row in rows(name, "kinds")
    ]
    yield table("| kernel, kind of lists |", kinds)
    yield table(
        "| workload, limit |", [row for name in (*WATCHED, *WATCHED_V2) for row in watched(name)]
    )
    yield from _costs()


def _costs() -> Iterator[Claim]:
    for name, what in (
        ("overhead", "÷ under GNU time alone"),
        ("overhead_one_core", "sampler and workload together"),
    ):
        ratios = figures(name)["ratios"]
        yield says(
            f"{what} | {{}}, median of {{}} pairs (95 % interval {{}} to {{}})",
            *(f"{median(ratios):.3f}", len(ratios), *(f"{end:.3f}" for end in interval(ratios))),
        )
    _, ours, psrecord, mprof = figures("sampler_cost")
    yield says(
        "empty cgroup: share of one core | {} % (psrecord {} %, mprof {} %)",
        *(f"{one[1] * 100:.1f}" for one in (ours, psrecord, mprof)),
    )
    yield says(
        "sampler: memory | {} MiB (psrecord {}, mprof {})",
        *(f"{one[2]:.1f}" for one in (ours, psrecord, mprof)),
    )


def rows(name: str, section: str) -> list[Row]:
    """A section's rows."""
    found: list[Row] = figures(name)[section]["rows"]
    return found


def side_by_side(*cells: Any) -> list[list[str]]:
    """Rows of both versions for the same things read; a dash where a version has no such file."""
    *versions, whats = cells
    found = [{row["what"]: count(row) for row in of} for of in versions]
    return [[code(what), *(of.get(what, "–") for of in found)] for what in whats]


def tries(of: Iterable[Row]) -> int:
    """How many tries each row had: the same number."""
    (number,) = {row["tries"] for row in of}
    return int(number)


def code(what: str) -> str:
    """Files as code."""
    name, _, often = what.partition(" ")
    return f"`{name}` {often}" if "." in name else what


def count(row: Row) -> str:
    """How many, and the interval of the share."""
    return f"{row['killed']} of {row['tries']} ({row['low']:.0%} to {row['high']:.0%})"


def watched(name: str) -> Iterator[list[str]]:
    """Each limit of a benchmark: killed unwatched, by default, with statistics; the ratio."""
    kept: list[Row] = figures(name)["rows"]
    for limit in sorted({row["limit_bytes"] for row in kept}):
        arms = {arm: of_arm(kept, limit, arm) for arm in ("nothing", "default", "stat-10ms")}
        cells = [f"{killed} of {of}" if of else "" for killed, of in arms.values()]
        ratio = rate_ratio(arms["default"], arms["nothing"])
        yield [f"{TITLES[name]}, {limit / MIB:.0f} MiB", *cells, ratio]


def of_arm(kept: list[Row], limit: int, arm: str) -> tuple[int, int]:
    """How many of how many were killed."""
    ended = [r["outcome"] for r in kept if (r["limit_bytes"], r["arm"]) == (limit, arm)]
    return ended.count("killed"), ended.count("killed") + ended.count("ok")
