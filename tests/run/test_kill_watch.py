"""What is reported of a kill, decided from injected readings of swap and of the kernel's log."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from edgebench.cgroups.interface import Counters
from edgebench.records import KillReport
from edgebench.run.trial import outcome
from edgebench.run.trial.outcome import KillReader, LoggedKill, SystemSwap, kill_report
from edgebench.run.trial.readers import Finished

MIB = 1 << 20
OWN = "edgebench-1-t"
LISTS = {"total_active_anon": 7 * MIB, "total_inactive_anon": MIB, "total_swapcached": 2 * MIB}


class Log:
    """A kernel log that holds these kills; with a reason it can't be read."""

    def __init__(self, kills: Sequence[LoggedKill], reason: str | None = None) -> None:
        self.kills, self.reason, self.closed = list(kills), reason, False

    def kills_in(self, cgroup: str) -> list[LoggedKill]:
        """All, once: a log is read on from where the last reading ended."""
        assert cgroup == OWN
        kills, self.kills = self.kills, []
        return kills

    def close(self) -> None:
        """Nothing more is read."""
        self.closed = True


def kill(struck: str | None, **usage: tuple[int, int | None]) -> LoggedKill:
    """A logged kill in the trial's cgroup; sizes in MiB."""
    sizes = {
        name.replace("_and_", "+"): (used * MIB, None if limit is None else limit * MIB)
        for name, (used, limit) in usage.items()
    }
    return LoggedKill(12.5, f"/x/{OWN}", struck, sizes, LISTS)


def report(
    monkeypatch: pytest.MonkeyPatch,
    log: Log,
    *,
    swap: int | None,
    kills: int | None = 1,
    peak: int | None = None,
    free: tuple[int, int] = (1000, 1000),
) -> tuple[KillReport | None, dict[str, str]]:
    """What is reported; sizes in MiB, the machine's free swap before and after."""
    system = [SystemSwap(1000 * MIB, mib * MIB) for mib in free]
    monkeypatch.setattr(outcome.SystemSwap, "now", lambda: system.pop(0))
    monkeypatch.setattr(outcome, "KillLog", lambda: log)
    reader = KillReader(OWN)
    reader.start()
    seen = reader.stop(Finished(Counters(), None))
    reader.close()
    assert log.closed
    allowed = None if swap is None else swap * MIB
    return kill_report(seen, OWN, allowed, kills, None if peak is None else peak * MIB)


@pytest.mark.parametrize("kills", [0, None])
def test_without_a_kill_there_is_no_report(
    monkeypatch: pytest.MonkeyPatch, kills: int | None
) -> None:
    """Whatever the log holds."""
    log = Log([kill(f"/x/{OWN}", swap=(1, 2))])
    assert report(monkeypatch, log, swap=10, kills=kills) == (None, {})


def test_a_kill_with_swap_left_tells_how_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """The least of what its limit and what the machine had left; and the page lists."""
    log = Log([kill(f"/x/{OWN}", swap=(28, 128))])
    found, why = report(monkeypatch, log, swap=128, free=(1000, 300))
    assert found is not None
    assert why == {}
    assert found.logged_s == 12.5
    assert found.group_swap_free_bytes == 100 * MIB
    assert found.system_swap_free_bytes == 272 * MIB
    assert found.swap_free_bytes == 100 * MIB
    assert found.swap_allowed_bytes == 128 * MIB
    assert (found.active_anon_bytes, found.swapcached_bytes) == (7 * MIB, 2 * MIB)


def test_a_full_machine_counts_more_than_room_below_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The trial may use 128 MiB more, but the machine's swap has 5 MiB left."""
    log = Log([kill(f"/x/{OWN}", swap=(20, 148))])
    found, _ = report(monkeypatch, log, swap=148, free=(25, 700))
    assert found is not None
    assert found.swap_free_bytes == found.system_swap_free_bytes == 5 * MIB


def test_swap_on_version_1_is_told_from_memory_and_swap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its use is memory + swap less memory, and what lies in both; its room, what the limit has."""
    log = Log([kill(f"/x/{OWN}", memory=(64, 64), memory_and_swap=(90, 192))])
    found, _ = report(monkeypatch, log, swap=128)
    assert found is not None
    assert found.group_swap_free_bytes == 102 * MIB
    assert found.system_swap_free_bytes == (1000 - 26 - 2) * MIB


def test_room_is_never_more_than_allowed_nor_below_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Readings of different moments may not add up."""
    more = Log([kill(f"/x/{OWN}", swap=(0, 500))])
    found, _ = report(monkeypatch, more, swap=128)
    assert found is not None
    assert found.group_swap_free_bytes == 128 * MIB
    none_left, _ = report(monkeypatch, Log([]), swap=10, peak=11, free=(5, 5))
    assert none_left is not None
    assert (none_left.group_swap_free_bytes, none_left.system_swap_free_bytes) == (0, 0)


def test_without_lines_in_the_log_the_samples_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    """Room is the limit less the most that was seen; the lists are missing, with the reason."""
    found, why = report(monkeypatch, Log([]), swap=128, peak=100)
    assert found is not None
    assert found.group_swap_free_bytes == 28 * MIB
    assert found.logged_s is None
    assert found.active_anon_bytes is None
    assert "no line" in why["kill_lists"]
    _, why = report(monkeypatch, Log([], "not readable"), swap=128, peak=100)
    assert why == {"kill_lists": "not readable"}


def test_nothing_known_is_no_guess(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a log and without samples the room is unknown, not 0 and not all."""
    found, _ = report(monkeypatch, Log([]), swap=128, peak=None)
    assert found is not None
    assert (found.swap_free_bytes, found.group_swap_free_bytes) == (None, None)


@pytest.mark.parametrize(("struck", "words"), [("/x", "limit above"), (None, "machine's memory")])
def test_a_kill_for_another_limit_is_not_the_trials(
    monkeypatch: pytest.MonkeyPatch, struck: str | None, words: str
) -> None:
    """A limit above the trial's own, or the machine's memory: no report of swap, but why."""
    found, why = report(monkeypatch, Log([kill(struck, swap=(1, 2))]), swap=128)
    assert found is None
    assert words in why["kill"]


def test_the_first_kill_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Later kills of the same trial found other lists."""
    log = Log([kill(f"/x/{OWN}", swap=(28, 128)), kill(f"/x/{OWN}", swap=(128, 128))])
    found, _ = report(monkeypatch, log, swap=128, kills=2)
    assert found is not None
    assert found.group_swap_free_bytes == 100 * MIB
