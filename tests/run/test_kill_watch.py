"""What is reported of a kill, decided from injected readings of swap and of the kernel's log."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from edgebench.records import KillReport
from edgebench.run.trial.outcome import (
    KillLog,
    KillReadings,
    LoggedKill,
    SystemSwap,
    is_in,
    kill_report,
    parse_kills,
)

MIB = 1 << 20
OWN = "edgebench-1-t"
LISTS = {"total_active_anon": 7 * MIB, "total_inactive_anon": MIB, "total_swapcached": 2 * MIB}


def kill(struck: str | None, **usage: tuple[int, int | None]) -> LoggedKill:
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


#: As a 6.18 kernel prints it on version 1 (stack left out); another program's lines between.
V1 = """\
4,1777,627188854,-;python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0
4,1778,627188865,-;CPU: 1 UID: 0 PID: 8602 Comm: python Not tainted 6.18.44 #1 PREEMPT(none)
6,1804,627188954,-;memory: usage 102400kB, limit 102400kB, failcnt 24
6,1805,627188956,-;memory+swap: usage 112640kB, limit 364544kB, failcnt 0
6,1806,627188956,-;kmem: usage 472kB, limit 9007199254740988kB, failcnt 0
6,1807,627188957,-;Memory cgroup stats for /some/where/edgebench-8597-0001:
6,1808,627188979,-;swapcached 8
6,1823,627188980,-;inactive_anon 1
6,1824,627188981,-;active_anon 2
6,1845,627188985,-;total_swapcached 4194304
6,1846,627188986,-;total_inactive_anon 104062976
6,1847,627188986,-;total_active_anon 4096
12,1848,627188986,-;a driver says 17
6,1850,627188988,-;Tasks state (memory values in pages):
6,1855,627188994,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/some/where/edgebench-8597-0001,task_memcg=/some/where/edgebench-8597-0001/below,task=python,pid=8602,uid=0
3,1856,627189010,-;Memory cgroup out of memory: Killed process 8602 (python) total-vm:318584kB
"""
#: On version 2, without a limit of swap; the process has a cunning name.
V2 = """\
4,1,5000000,-;x invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0
6,2,5000001,-;memory: usage 51200kB, limit 51200kB, failcnt 24
6,3,5000002,-;swap: usage 1024kB, limit 9007199254740988kB, failcnt 0
6,4,5000003,-;Memory cgroup stats for /edgebench-1-0002:
6,5,5000004,-;active_anon 51000000
6,6,5000005,-;swapcached 8192
6,7,5000006,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),oom_memcg=/edgebench-1-0002,task_memcg=/edgebench-1-0002/below,task=x,task_memcg=/other,pid=1,uid=0
"""
MACHINE = """\
4,1,9000000,-;x invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0
6,7,9000006,-;oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/edgebench-1-0002,task=x,pid=1,uid=0
"""


def lines(*texts: str) -> list[bytes]:
    """As ``/dev/kmsg`` gives them, the last line of a block with what belongs to it."""
    return [line.encode() + b"\n" for text in texts for line in text.splitlines()]


def test_version_1s_lines() -> None:
    (kill,) = parse_kills(lines(V1))
    assert kill.at_s == 627.188854
    assert kill.struck == "/some/where/edgebench-8597-0001"
    assert kill.victim == f"{kill.struck}/below"
    assert kill.size_of("inactive_anon") == 104062976
    assert kill.size_of("says") is None
    assert kill.swap_taken_bytes == (10 << 20) + 4194304
    assert kill.usage["memory"] == (100 << 20, 100 << 20)


@pytest.mark.parametrize(
    ("changes", "left_kib"),
    [
        # On version 1 what the sum's limit leaves, and never more than it is above memory's.
        ((V1, "", ""), 364544 - 112640),
        ((V1, "swap: usage 112640kB", "swap: usage 50000kB"), 364544 - 102400),
        ((V1, "limit 364544kB", "limit 112000kB"), 0),
        ((V1, "memory+swap:", "kept:"), None),
        ((V2, "", ""), None),
        ((V2, "swap: usage 1024kB, limit 9007199254740988kB", "swap: usage 1kB, limit 9kB"), 8),
    ],
)
def test_how_much_swap_was_left(changes: tuple[str, str, str], left_kib: int | None) -> None:
    text, old, new = changes
    (kill,) = parse_kills(lines(text.replace(old, new)))
    assert kill.swap_left_bytes == (None if left_kib is None else left_kib << 10)


def test_version_2s_lines() -> None:
    """A name that looks like the kernel's own words misleads nobody; a limit that is none is."""
    (kill,) = parse_kills(lines(V2))
    assert kill.victim == "/edgebench-1-0002/below"
    assert kill.swap_taken_bytes == 1 << 20
    assert kill.size_of("active_anon") == 51000000


def test_torn_and_mixed_lines() -> None:
    first, second = lines(V1), lines(V2)
    assert [kill.at_s for kill in parse_kills(first[4:] + second)] == [5.0]
    (kill,) = parse_kills(first[:-3] + second)
    assert kill.size_of("inactive_anon") is None
    assert [kill.struck for kill in parse_kills(lines(MACHINE))] == [None]
    assert list(parse_kills([b"", b"\xff\xfe;;;", b";oom-kill:", b" KEY=value\n"])) == []


def test_paths_of_other_cgroups() -> None:
    assert is_in("/a/edgebench-1-0002/below", "edgebench-1-0002")
    assert not is_in("/a/edgebench-1-00021", "edgebench-1-0002")


def test_a_log_that_can_not_be_read_says_why(tmp_path: Path) -> None:
    log = KillLog(tmp_path / "kmsg")
    assert log.kills_in("edgebench-1-0002") == []
    assert "No such file" in str(log.reason)
    log.close()
