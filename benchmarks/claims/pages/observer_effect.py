"""docs/explanation/observer-effect.md."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from observer.effect_table import rate_ratio

from claims.kept import MIB, figures
from claims.texts import Claim, says, table

PAGE = "docs/explanation/observer-effect.md"
HERE, V2, OLDER = "observer_kernel", "observer_kernel_v2_6.12", "observer_kernel_v2_6.1"
#: Benchmarks of kills by how a workload was watched.
WATCHED = ("observer_effect_rounds", "observer_effect_alexnet")
#: Files of version 1 that have a row of their own.
NAMED = ("nothing", "memory.stat all the time", "memory.numa_stat all the time")
#: Those of version 2, before statistics were split by controller, that flush them.
FLUSHING = (
    "nothing",
    *(
        f"{name} all the time"
        for name in ("memory.stat", "memory.numa_stat", "cpu.stat", "io.stat")
    ),
)
TITLES = {WATCHED[0]: "the program like a network", WATCHED[1]: "AlexNet, five rounds"}

Row = dict[str, Any]


def claims() -> Iterator[Claim]:
    """In the page's order."""
    files = rows(HERE, "files")
    yield says("on Linux 6.18, version 1, of {} tries each, in random order", tries(files))
    yield table("| read meanwhile |", killed(row for row in files if row["what"] in NAMED))
    others = [row for row in files if row["what"] not in NAMED]
    yield says(
        "While one of {} other files of the cgroup was read, such as `memory.usage_in_bytes`: {} of {}.",
        len(others),
        sum(row["killed"] for row in others),
        sum(row["tries"] for row in others),
    )
    emulated = rows(V2, "files")
    yield says("in an emulated machine, of {} tries each", tries(emulated))
    flushing = [row for row in emulated if row["what"] in FLUSHING]
    yield table("| read on version 2 meanwhile |", killed(flushing))
    others = [row for row in emulated if row["what"] not in FLUSHING]
    yield says(
        "While one of {} other files was read: {} of {}.",
        *(len(others), sum(row["killed"] for row in others), sum(row["tries"] for row in others)),
    )
    kinds = [
        [f"{kernel}, {row['what']}", count(row)]
        for kernel, name in (("6.18", HERE), ("6.12, emulated", V2), ("6.1, emulated", OLDER))
        for row in rows(name, "kinds")
    ]
    yield table("| kernel, kind of lists |", kinds)
    yield table("| read in 8 rounds |", killed(rows(HERE, "rounds")))
    yield table("| limit | killed |", killed(rows(HERE, "limits"), lambda what: what[6:]))
    assert all(row["killed"] >= row["tries"] / 2 for row in rows(HERE, "settings"))
    yield table("| workload, limit |", [row for name in WATCHED for row in watched(name)])
    (cost,) = (row for row in rows(HERE, "cost") if row["what"] == "memory.stat every 10 ms")
    yield says("that reads every 10 ms takes {} % of one core", f"{100 * cost['core_share']:.2f}")


def rows(name: str, section: str) -> list[Row]:
    """A section's rows."""
    found: list[Row] = figures(name)[section]["rows"]
    return found


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


def killed(of: Iterable[Row], named: Callable[[str], str] = code) -> list[list[str]]:
    """What was done, and how many were killed."""
    return [[named(row["what"]), count(row)] for row in of]


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
