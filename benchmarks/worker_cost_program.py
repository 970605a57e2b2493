"""What a trial of ``worker_cost.py`` runs: the same work on all its cores, again and again.

``steady FLAG`` makes the file and works until it is gone. ``pairs WORKER PAIRS`` prints pairs of
seconds as JSON: of the work beside the process WORKER, and of the work while that one is frozen
(SIGSTOP), in random order.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import time
from pathlib import Path

from pairing import in_pairs

_UNIT_BYTES = 32 << 20
#: About how long one half of a pair lasts.
_HALF_S = 1.5
#: What a process that was frozen does first is not counted.
_SETTLE_S = 0.3


def work(units: int) -> None:
    """Touch fresh memory, and hash it."""
    for _ in range(units):
        data = bytearray(_UNIT_BYTES)
        data[::4096] = b"x" * len(data[::4096])
        hashlib.sha256(data).digest()


def work_s(units: int) -> float:
    """Seconds until that work is done on each core."""
    began = time.perf_counter()
    children = [_child(units) for _ in range(len(os.sched_getaffinity(0)) - 1)]
    work(units)
    for child in children:
        os.waitpid(child, 0)
    return time.perf_counter() - began


def _child(units: int) -> int:
    child = os.fork()
    if not child:
        work(units)
        os._exit(0)
    return child


def pairs_beside(worker: int, pairs: int) -> list[tuple[float, float]]:
    """Seconds beside the worker, and while it is frozen."""
    units = max(1, round(_HALF_S * 4 / work_s(4)))

    def seconds(beside: bool) -> float:
        if not beside:
            os.kill(worker, signal.SIGSTOP)
        try:
            time.sleep(_SETTLE_S)
            return work_s(units)
        finally:
            os.kill(worker, signal.SIGCONT)

    return in_pairs(seconds, pairs, seed=3)


def main(words: list[str]) -> None:
    """Do what the words say."""
    if words[0] == "pairs":
        print(json.dumps(pairs_beside(int(words[1]), int(words[2]))))
        return
    flag = Path(words[1])
    flag.touch()
    while flag.exists():
        work_s(4)


if __name__ == "__main__":
    main(sys.argv[1:])
