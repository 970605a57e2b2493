"""The workload's time while somebody watches ÷ while nobody does, in pairs within trials."""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import psutil
from serve_bench import MIB, Bench, bench, browser, reader, server

from edgebench.results.live.sweep import SweepTail
from edgebench.results.live.trial import TrialTail

#: Seconds of a half, and how much of its beginning doesn't count: who wakes up has to catch up.
_HALF_S, _SETTLING_S = 5.0, 1.0
#: Pairs in a trial: more of them would make its events a burden of their own.
_IN_A_TRIAL = 5
#: Before the first pair of a trial: its start, and a round that is slower than the others.
_START_S = 1.0
_WATCHERS: dict[str, Any] = {"the stream is read": reader, "Chromium on this machine": browser}


def measure(pairs: int) -> dict[str, dict[str, Any]]:
    """Watcher → ``ratios``, one a pair, and the server's largest memory ``server_mib``."""
    told = {}
    with bench() as made:
        rounds = made.rounds_in(_IN_A_TRIAL * 2 * _HALF_S + 2 * _START_S)
        for name, watcher in _WATCHERS.items():
            told[name] = _watched(made, name, watcher, pairs, rounds)
    return told


def _watched(made: Bench, name: str, watcher: Any, pairs: int, rounds: int) -> dict[str, Any]:
    rng = random.Random(7)
    ratios: list[float] = []
    most = 0.0
    with server(made.root) as (process, port):
        while len(ratios) < pairs:
            number = f"{watcher.__name__}-{len(ratios):04d}"
            ratios += _trial(made, number, rounds, process, watcher(port), rng)[
                0 : pairs - len(ratios)
            ]
            most = max(most, process.memory_info().rss / MIB)
            print(f"{name}: {len(ratios)} of {pairs} pairs", file=sys.stderr)
    return {"ratios": ratios, "server_mib": most}


def _trial(
    made: Bench,
    number: str,
    rounds: int,
    process: psutil.Process,
    watcher: AbstractContextManager[list[psutil.Process]],
    rng: random.Random,
) -> list[float]:
    """The ratios of one trial's pairs; those that it didn't last for are left out."""
    ended: list[list[tuple[int, int]]] = []
    trial = threading.Thread(target=lambda: ended.append(made.trial(number, rounds)))
    with watcher as watching:
        trial.start()
        _wait_for_rounds(made, number, trial)
        halves = [_pair([process, *watching], rng) for _ in range(_IN_A_TRIAL)]
        trial.join()
    (spans,) = ended
    found = [{on: _mean_ns(spans, *half) for on, half in pair.items()} for pair in halves]
    return [on / off for pair in found if (on := pair[True]) and (off := pair[False])]


def _wait_for_rounds(made: Bench, number: str, thread: threading.Thread) -> None:
    """Wait until that trial's first round is surely over."""
    tail = SweepTail(made.folder.path)
    while thread.is_alive() and not _has_rounds(tail.poll().trial, number):
        time.sleep(0.2)
    time.sleep(_START_S)


def _has_rounds(trial: TrialTail | None, number: str) -> bool:
    if trial is None or trial.live.trial != number:
        return False
    return any(span.phase == "round" and span.round for span in trial.open)


def _pair(watching: Sequence[psutil.Process], rng: random.Random) -> dict[bool, tuple[int, int]]:
    """When, in ns, all of them ran, and when none did: stopped, they take no time at all."""
    halves = {}
    for on in rng.sample([True, False], 2):
        for one in watching:
            one.resume() if on else one.suspend()
        time.sleep(_SETTLING_S)
        begins = time.monotonic_ns()
        time.sleep(_HALF_S - _SETTLING_S)
        halves[on] = (begins, time.monotonic_ns())
    for one in watching:
        one.resume()
    return halves


def _mean_ns(spans: Sequence[tuple[int, int]], begins: int, ends: int) -> float | None:
    """What a round took on the mean, of those that lie within; None if there were none."""
    took = [end - start for start, end in spans if begins <= start and end <= ends]
    return sum(took) / len(took) if took else None
