"""What is reported of a kill, decided from injected readings of swap and of the kernel's log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from edgebench.records import KillReport
from edgebench.run.trial.outcome import KillReadings, LoggedKill, SystemSwap, kill_report

MIB = 1 << 20
OWN = "edgebench-1-t"
LISTS = {"total_active_anon": 7 * MIB, "total_inactive_anon": MIB, "total_swapcached": 2 * MIB}


def kill(struck: str | None, **usage: tuple[int, int | None]) -> LoggedKill:
    """A logged kill in the trial's cgroup; sizes in MiB."""
    sizes = {
        name.replace("_and_", "+"): (used * MIB, None if limit is None else limit * MIB)
        for name, (used, limit) in usage.items()
    }
    return LoggedKill(12.5, f"/x/{OWN}", struck, sizes, LISTS)


def report(
    kills: Sequence[LoggedKill],
    *,
    swap: int | None,
    killed: int | None = 1,
    peak: int | None = None,
    free: tuple[int, int] = (1000, 1000),
    unlogged: str = "no line",
) -> tuple[KillReport | None, dict[str, str]]:
    """What is reported; sizes in MiB, the machine's free swap before and after."""
    before, after = (SystemSwap(1000 * MIB, mib * MIB) for mib in free)
    readings = KillReadings(before, after, kills, unlogged)
    allowed = None if swap is None else swap * MIB
    return kill_report(readings, OWN, allowed, killed, None if peak is None else peak * MIB)


@pytest.mark.parametrize("killed", [0, None])
def test_without_a_kill_there_is_no_report(killed: int | None) -> None:
    assert report([kill(f"/x/{OWN}", swap=(1, 2))], swap=10, killed=killed) == (None, {})


IN_SWAP_28 = kill(f"/x/{OWN}", swap=(28, 128))
NO_LINE = "no line"


@pytest.mark.parametrize(
    ("kills", "asked", "group", "system", "free", "reason"),
    [
        # The least of what its limit and what the machine had left.
        ([IN_SWAP_28], {"swap": 128, "free": (1000, 300)}, 100, 272, 100, None),
        # The trial may use 128 MiB more, but the machine's swap has 5 MiB left.
        (
            [kill(f"/x/{OWN}", swap=(20, 148))],
            {"swap": 148, "free": (25, 700)},
            *(128, 5, 5, None),
        ),
        # Version 1: memory + swap less memory, and what lies in both; its room, what the limit has.
        (
            [kill(f"/x/{OWN}", memory=(64, 64), memory_and_swap=(90, 192))],
            {"swap": 128},
            *(102, 1000 - 26 - 2, 102, None),
        ),
        # Room is never more than allowed nor below nothing: readings may not add up.
        ([kill(f"/x/{OWN}", swap=(0, 500))], {"swap": 128}, 128, 1000, 128, None),
        ([], {"swap": 10, "peak": 11, "free": (5, 5)}, 0, 0, 0, NO_LINE),
        # Without lines in the log, the samples; without these nothing is known.
        ([], {"swap": 128, "peak": 100}, 28, 900, 28, NO_LINE),
        ([], {"swap": 128}, None, None, None, NO_LINE),
        # Later kills of the same trial found other lists.
        (
            [IN_SWAP_28, kill(f"/x/{OWN}", swap=(128, 128))],
            {"swap": 128, "killed": 2},
            *(100, 972, 100, None),
        ),
    ],
)
def test_a_kill_tells_how_much_swap_was_left(
    kills: list[LoggedKill],
    asked: dict[str, Any],
    group: int | None,
    system: int | None,
    free: int | None,
    reason: str | None,
) -> None:
    found, why = report(kills, **asked)
    assert found is not None
    sizes = found.group_swap_free_bytes, found.system_swap_free_bytes, found.swap_free_bytes
    assert [size if size is None else size / MIB for size in sizes] == [group, system, free]
    assert found.swap_allowed_bytes == asked["swap"] * MIB
    if reason is None:
        assert why == {}
        assert found.logged_s == 12.5
        assert (found.active_anon_bytes, found.swapcached_bytes) == (7 * MIB, 2 * MIB)
    else:
        assert reason in why["kill_lists"]
        assert (found.logged_s, found.active_anon_bytes) == (None, None)


@pytest.mark.parametrize(("struck", "words"), [("/x", "limit above"), (None, "machine's memory")])
def test_a_kill_for_another_limit_is_not_the_trials(struck: str | None, words: str) -> None:
    found, why = report([kill(struck, swap=(1, 2))], swap=128)
    assert found is None
    assert words in why["kill"]
