"""docs/explanation/observer-effect.md."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from observer.effect_table import rate_ratio
from scipy.stats import fisher_exact

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
    name if name == "nothing" else f"{name} all the time"
    for name in ("nothing", "memory.stat", "memory.numa_stat", "memory.zswap.current")
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
    yield says("`memory.usage_in_bytes`: {} of {} on version 1, {} of {} on", *others(files, of_v2))
    flushing = {row["what"]: row for row in rows(EMULATED, "files")}
    told = [flushing[f"{name} all the time"] for name in ("cpu.stat", "io.stat")]
    yield says("`cpu.stat` ({} of {}) and `io.stat` ({} of {})", *numbers(told))
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
    yield table("| read in 8 rounds |", killed(rows(HERE, "rounds")))
    assert all(row["killed"] >= row["tries"] / 2 for row in rows(HERE, "settings"))
    yield table(
        "| workload, limit |", [row for name in (*WATCHED, *WATCHED_V2) for row in watched(name)]
    )
    yield says("two rounds on version 2 p is {}", f"{by_chance(WATCHED_V2[1]):.2f}")
    (cost,) = (row for row in rows(HERE, "cost") if row["what"] == "memory.stat every 10 ms")
    yield says("that reads every 10 ms takes {} % of one core", f"{100 * cost['core_share']:.2f}")


def rows(name: str, section: str) -> list[Row]:
    """A section's rows."""
    found: list[Row] = figures(name)[section]["rows"]
    return found


def side_by_side(*cells: Any) -> list[list[str]]:
    """Rows of both versions for the same things read; a dash where a version has no such file."""
    *versions, whats = cells
    found = [{row["what"]: count(row) for row in of} for of in versions]
    return [[code(what), *(of.get(what, "–") for of in found)] for what in whats]


def others(*versions: list[Row]) -> list[int]:
    """Killed, of how many, while a file without a row of its own was read."""
    left = [[row for row in of if row["what"] not in NAMED] for of in versions]
    return [sum(row[key] for row in of) for of in left for key in ("killed", "tries")]


def numbers(of: Iterable[Row]) -> list[int]:
    """Killed, of how many, for each."""
    return [row[key] for row in of for key in ("killed", "tries")]


def by_chance(name: str) -> float:
    """Fisher's exact test, two-sided: watched by edgebench against unwatched, all limits."""
    arms = [killed_in_all(name, arm) for arm in ("nothing", "default")]
    return float(fisher_exact([[killed, of - killed] for killed, of in arms]).pvalue)


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


def killed(of: Iterable[Row]) -> list[list[str]]:
    """What was done, and how many were killed."""
    return [[code(row["what"]), count(row)] for row in of]


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


def killed_in_all(name: str, arm: str) -> tuple[int, int]:
    """How many of how many were killed at all limits together."""
    kept: list[Row] = figures(name)["rows"]
    each = [of_arm(kept, limit, arm) for limit in {row["limit_bytes"] for row in kept}]
    return sum(killed for killed, _ in each), sum(of for _, of in each)
