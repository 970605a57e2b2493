"""docs/studies/edgecaffe.md."""

from __future__ import annotations

from collections.abc import Iterator

from claims import edgecaffe as e
from claims.kept import MIB, sweep
from claims.texts import Claim, says, table

PAGE = "docs/studies/edgecaffe.md"
SCHEDULES = ("bulk", "deepeye", "deepeye-frugal", "partial", "admission", "linear")
LIMITS = ("max", "512M", "320M", "256M", "192M", "128M")
#: EdgeCaffe's own seconds of a round (Brouwer), at 4 GB and at 128 MB.
PUBLISHED = {
    "bulk": (38.8, 271.9),
    "linear": (40.0, 168.7),
    "partial": (32.3, 204.2),
    "deepeye": (33.5, 240.6),
}
#: The last to be slowed by half.
LATE = ("linear", "admission", "partial")


def claims() -> Iterator[Claim]:
    """In the page's order."""
    trials = sweep("edgecaffe").trials
    harness, wall = trials["harness_s"].sum(), trials["wall_s"].sum()
    killed = trials[trials["outcome"] != "ok"]
    assert set(killed["outcome"]) == {"oom-killed"}
    assert set(killed["limit_label"]) == {"128M"}
    assert killed["killed_with_swap_free"].all()
    yield says(
        "{} trials in {} minutes, of which the harness took {} %. {} trials were killed",
        *(len(trials), f"{(harness + wall) / 60:.0f}", f"{100 * harness / (harness + wall):.1f}"),
        len(killed),
    )
    yield table("medians of the trials that finished:", map(_row, SCHEDULES))
    order = {schedule: e.slowed_by_half(schedule) for schedule in SCHEDULES}
    assert order["bulk"] == max(order.values())
    assert {order[one] for one in LATE} == {min(order.values())}
    yield says("to take 1.5 times as long**, between {} and {} MiB; `linear`", *order["bulk"])
    yield says("are the last, between {} and {} MiB", *order["linear"])
    yield says(
        "At 192 MiB they take {} and {} s where `bulk` takes {} s",
        *_seconds("192M", "linear", "admission", "bulk"),
    )
    fastest = sorted(SCHEDULES, key=lambda one: e.round_s(one, "128M"))[:2]
    assert {*fastest} == {"linear", "deepeye"}
    yield says(
        "`linear` and `deepeye` are the fastest with {} and {} s",
        *_seconds("128M", "linear", "deepeye"),
    )
    yield from _layers()
    yield from _fits()


def _seconds(limit: str, *schedules: str) -> list[str]:
    return [f"{e.round_s(one, limit):.1f}" for one in schedules]


def _row(schedule: str) -> list[str]:
    seconds = (f"{e.round_s(schedule, limit):.2f}" for limit in LIMITS)
    return [schedule, f"{e.demand_mib(schedule):.0f} MiB", *seconds]


def _layers() -> Iterator[Claim]:
    load, first, warm = (e.ratio("alexnet", phase) for phase in e.PHASES)
    yield says("takes {} times as long at 128 MiB as unlimited", f"{load:.1f}")
    yield says(
        "at 128 MiB AlexNet's first execution takes {} times as long as unlimited, its warm one {} "
        "times",
        *(f"{first:.0f}", f"{warm:.0f}"),
    )
    first, warm = (e.layer_s("classifier.1", phase, "128M") for phase in ("first", "execute"))
    free = e.layer_s("classifier.1", "execute", "max")
    yield says(
        "({} MiB of weights) takes {} s at 128 MiB, {} s warm, and {} ms unlimited",
        *(f"{e.layer_bytes('classifier.1') / MIB:.0f}", f"{first:.1f}", f"{warm:.1f}"),
        f"{free * 1e3:.0f}",
    )


def _fits() -> Iterator[Claim]:
    yield says(
        "bulk {} to {}, linear {} to {}, partial {} to {}, deepeye {} to {}.",
        *(end for ends in PUBLISHED.values() for end in ends),
    )
