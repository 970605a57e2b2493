"""What watching does to kills, seconds and faults of a workload under a memory limit.

Processes of one workload under the same limit and swap, each watched in one way (an arm), in
blocks of every limit and arm once, in an order drawn from the seed:

- ``nothing``: GNU time and the exit alone, in a bare cgroup;
- ``default``: as edgebench watches a timed trial: usage and swap every ms, and the worker reads
  usage and swap and resets the kernel's mark at each boundary; nothing that flushes statistics;
- ``stat-10ms``, ``stat-1s`` …: as ``default``, and ``memory.stat`` so often.

Every finished process is written down at once; started again with the same options it goes on.
Final counters are read after the process has ended. Needs root.

    benchmarks/observer_effect.py --limits 231M --minutes 60
    benchmarks/observer_effect.py --name small --limits 215M,231M --program ./hot --seconds 20
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import report
from observer.effect_table import Kept, table
from observer.watched_process import Arm, Bench, Words

from edgebench.cgroups.parent import check_limit
from edgebench.measures.machine.system_files import SystemFiles, swap_devices
from edgebench.processes import cache_folder
from edgebench.run.trial.session import Session, open_session
from edgebench.scenario.scenario import scenario_of
from edgebench.text import format_size, parse_duration, parse_size
from edgebench.workloads.preparation import prepare_networks
from edgebench.workloads.recorder import NO_DESCRIPTORS

ROUNDS = Path(__file__).parent / "observer" / "inference_rounds.py"
WARM = (
    "from edgebench.workloads.engines.torch import import_torch\n"
    "from edgebench.workloads.recorder import Recorder\n"
    "import_torch(Recorder())"
)


def inference(network: str, rounds: int, warm: int) -> tuple[Words, Words]:
    """The words of the limited process and of its mate; the weights are made if need be."""
    workload = {"kind": "inference", "network": network, "schedule": "bulk", "loader": "copy",
                "rounds": rounds, "warm": warm, "page_cache": "cold"}  # fmt: skip
    scenario = scenario_of({"schema": 1, "name": "observer-effect", "workload": workload})
    settings = next(iter(scenario.workload_settings()))
    manifest = prepare_networks(
        [network],
        cache=cache_folder(None),
        seed=scenario.seed,
        checkpoints={},
        image=None,
        identity=None,
    )
    weights = {network: manifest["networks"][network]["folder"]}

    def words(ends: bool) -> Words:
        def made(descriptors: dict[str, Any], turns: tuple[int, int]) -> list[str]:
            spec = {"kind": "inference", "settings": {**settings, "weights": weights},
                    "descriptors": descriptors}  # fmt: skip
            return [sys.executable, str(ROUNDS), json.dumps(spec), *map(str, turns), str(ends)]

        return made

    return words(False), words(True)


def main(words: Sequence[str]) -> None:
    """Make processes, block after block, until the time or their number is through."""
    asked = _options(words)
    # Ended from outside it still takes its swap and its cgroup away.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    arms, limits = asked.arms.split(","), [_bytes(word) for word in asked.limits.split(",")]
    about = {
        "workload": " ".join(asked.program) if asked.program else asked.network,
        "rounds": asked.rounds, "warm": asked.warm, "mate": asked.mate, "swap": asked.swap,
        "timeout": asked.timeout, "seed": asked.seed,
    }  # fmt: skip
    kept = Kept(report.RESULTS / f"{asked.name}.json", about)
    ends = time.monotonic() + 60 * asked.minutes
    with open_session() as session:
        check_limit(session.setup.parent)
        swap_bytes = _bytes(asked.swap)
        session.swap.use("file", swap_bytes)
        bench = _bench(asked, session, swap_bytes)
        for block in range(asked.blocks):
            order = [(limit, arm) for limit in limits for arm in arms]
            random.Random(f"{asked.seed} {block}").shuffle(order)
            for limit, arm in order:
                done = {(r["block"], r["limit_bytes"], r["arm"]) for r in kept.rows}
                if (block, limit, arm) in done:
                    continue
                if time.monotonic() > ends:
                    print("the time is through; start it again to go on")
                    _end(kept, arms)
                    return
                started = datetime.now(timezone.utc).isoformat(timespec="seconds")
                row = bench.process(Arm.of(arm), limit, f"o{block}-{order.index((limit, arm))}")
                row = {"block": block, "limit_bytes": limit, "arm": arm, **row}
                around = {"load": os.getloadavg()[0], "swaps": swap_devices(SystemFiles())}
                kept.add({**row, "started_utc": started, **around}, arms)
                size, took = format_size(limit), f"{row['wall_s']:.1f} s"
                print(f"{block} {size} {arm}: {row['outcome']} after {took}", flush=True)
    _end(kept, arms)


def _end(kept: Kept, arms: Sequence[str]) -> None:
    for line in (*table(kept.rows, arms)[1],):
        print(*line, sep=" | ")


def _bytes(word: str) -> int:
    size = parse_size(word)
    if size is None:
        sys.exit(f"{word} is no size")
    return size


def _bench(asked: argparse.Namespace, session: Session, swap_bytes: int) -> Bench:
    common = session, session.folder, swap_bytes, parse_duration(asked.timeout)
    if asked.program:
        return Bench(*common, lambda descriptors, turns: list(asked.program), None)
    limited, mate = inference(asked.network, asked.rounds, asked.warm)
    # The runtime's files are read once, so that no process is charged for them.
    subprocess.run([sys.executable, "-c", WARM], check=True)
    nothing = dict(NO_DESCRIPTORS)
    return Bench(*common, limited, (lambda turns: mate(nothing, turns)) if asked.mate else None)


def _options(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--name", default="observer_effect", help="of the results' files")
    add("--limits", default="231M", help="sizes, separated by commas")
    add("--swap", default="2G", help="size of a swap file of its own")
    add("--arms", default="nothing,default,stat-10ms,stat-100ms,stat-1s")
    add("--blocks", type=int, default=40, help="processes of each limit and arm")
    add("--minutes", type=float, default=60.0, help="begin no further process after these")
    add("--seed", type=int, default=1)
    add("--timeout", default="5m", help="of one process")
    add("--network", default="alexnet")
    add("--rounds", type=int, default=5, help="of the network")
    add("--warm", type=int, default=2, help="executions after a round's first")
    add("--mate", action=argparse.BooleanOptionalAction, default=True,
        help="another process of the network, unlimited, takes turns with it")  # fmt: skip
    add("--program", nargs=argparse.REMAINDER, default=[],
        help="a program and its arguments instead of the network; the last option")  # fmt: skip
    return parser.parse_args(words)


if __name__ == "__main__":
    main(sys.argv[1:])
