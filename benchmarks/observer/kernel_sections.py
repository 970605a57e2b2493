"""The sections of observer_kernel.py: what is read, how often, at which limit and lists."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from observer.attempts import Bench, Ended, Look, attempt, in_turns
from observer.kill_trace import lines_of, printed_lists, tracing
from scipy.stats import fisher_exact

#: Idle, hot, weights, passes, rounds, rest and loading of the program like a network.
ROUNDS = ("60", "8", "90", "3", "8", "0.2", "0.5")
#: Just below its weights and what is hot.
NEAR_MIB = 94
#: No file is read meanwhile.
UNREAD = Look()


def smallest(bench: Bench, look: Look) -> Ended:
    """The smallest program under 64 MiB."""
    return attempt(bench, 64, [bench.all_active, "56", "24"], look)


def files(bench: Bench) -> list[dict[str, Any]]:
    """Each readable file of a group's folder, or those that were asked for."""
    group = bench.parent.create(f"{os.getpid()}-observer-files")
    names = sorted(path.name for path in group.path.iterdir() if _readable(path))
    group.remove()
    looks = [Look(), *(Look(name) for name in names if not bench.only or name in bench.only)]
    arms = [(str(k), lambda k=k: smallest(bench, k)) for k in looks]
    return in_turns(bench, arms, bench.tries, bench.at_once)


def _readable(path: Path) -> bool:
    if not path.is_file():
        return False
    try:
        path.read_bytes()
    except OSError:
        return False
    return True


def interval(bench: Bench) -> list[dict[str, Any]]:
    """More memory than in the other sections: filling it takes some tenths of a second."""
    looks = [Look(), *(Look("memory.stat", ms) for ms in (1, 3, 10, 30, 100, 300, 1000))]
    command = [bench.all_active, "280", "80"]
    arms = [(str(k), lambda k=k: attempt(bench, 300, command, k)) for k in looks]
    return in_turns(bench, arms, bench.tries, bench.at_once)


def like_a_network(bench: Bench, mib: float, look: Look = UNREAD) -> Ended:
    """The rounds' program, with the settings of all sections."""
    return attempt(bench, mib, [bench.rounds, *ROUNDS], look)


def some_rounds(bench: Bench, look: Look) -> Ended:
    """So few of its rounds, or such a limit, that some tries are killed and some not."""
    words = [*ROUNDS[:4], str(bench.some_rounds), *ROUNDS[5:]]
    return attempt(bench, bench.some_mib, [bench.rounds, *words], look)


def rounds(bench: Bench) -> list[dict[str, Any]]:
    """By how it is read."""
    stat = [Look("memory.stat", ms) for ms in (10, 100, 1000)]
    usage = [name for name in ("memory.usage_in_bytes", "memory.current") if _has(bench, name)]
    looks = [Look(), *(Look(name, 10) for name in usage), *stat]
    arms = [(str(k), lambda k=k: like_a_network(bench, NEAR_MIB, k)) for k in looks]
    return in_turns(bench, arms, bench.tries, bench.at_once)


def _has(bench: Bench, name: str) -> bool:
    return (bench.parent.path / name).exists()


def limits(bench: Bench) -> list[dict[str, Any]]:
    """The weights and what is hot are 98 MiB."""
    arms = [
        (f"limit {mib} MiB", lambda mib=mib: like_a_network(bench, mib))
        for mib in (104, 98, 96, 94, 88, 70)
    ]
    return in_turns(bench, arms, bench.tries, bench.at_once)


def seldom(bench: Bench) -> list[dict[str, Any]]:
    """Where the kernel kills some tries and others not, by how seldom it is read.

    Beside each way of reading Fisher's exact test against nothing, two-sided.
    """
    looks = [Look(), *(Look("memory.stat", ms) for ms in (100, 300, 1000))]
    arms = [(str(k), lambda k=k: some_rounds(bench, k)) for k in looks]
    unread, *read = in_turns(bench, arms, bench.tries, bench.at_once)
    for row in read:
        table = [[one["killed"], one["tries"] - one["killed"]] for one in (unread, row)]
        row["p"] = float(fisher_exact(table).pvalue)
        print(f"  {row['what']}: p = {row['p']:.2g}", flush=True)
    return [unread, *read]


def kinds(bench: Bench) -> list[dict[str, Any]]:
    """Active and inactive lists, and multi-generation lists where the kernel has both."""
    switch = Path("/sys/kernel/mm/lru_gen/enabled")
    if not switch.exists():
        return in_turns(bench, [("two lists", lambda: smallest(bench, Look()))], bench.tries)
    before, rows = switch.read_text(), []
    try:
        for word, says in (("n", "two lists"), ("y", "multi-generation lists")):
            switch.write_text(word)
            rows += in_turns(bench, [(says, lambda: smallest(bench, Look()))], bench.tries)
    finally:
        switch.write_text(before)
    return rows


def lists(bench: Bench) -> list[dict[str, Any]]:
    """Lists as the kernel prints them at a kill; what reclaim did in vain before it."""
    for _ in range(20):
        with Path("/dev/kmsg").open("rb", buffering=0) as log, tracing() as trace:
            os.set_blocking(log.fileno(), False)
            os.lseek(log.fileno(), 0, os.SEEK_END)
            ended = smallest(bench, Look())
            lines = lines_of(log)
            events = trace()
        if ended.killed:
            return [{"what": "one kill", "printed": printed_lists(lines), "events": events}]
    raise SystemExit("none of 20 tries was killed")


_ALL = (files, interval, lists, rounds, limits, seldom, kinds)
SECTIONS = {section.__name__: section for section in _ALL}
