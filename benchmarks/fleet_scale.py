"""How much a fleet's scheduling adds over the ideal finish, with made-up trials on 200 workers.

``python benchmarks/fleet_scale.py [TRIALS] [WORKERS] [CLOCK]``: Dask's scheduler, groups of
workers, and edgebench's controller are processes of this machine. A made-up trial of 0.2 to 5 s
sleeps a CLOCK-th of it, so what scheduling costs weighs CLOCK times as much as in a real fleet. The
ideal finish is the trials' time divided by the workers.
"""

from __future__ import annotations

import asyncio
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import report

from edgebench.fleet import machine
from edgebench.fleet.connection import CONTROLLER, connected
from edgebench.fleet.controller import FleetContext, FleetController
from edgebench.fleet.groups import FleetMachine, GroupOptions, MachineGroup
from edgebench.fleet.inventory import Inventory
from edgebench.fleet.keys import make_keys, tls_files
from edgebench.fleet.startup import label_resource, start_order, worker_resources
from edgebench.records import TrialRecord
from edgebench.scenario.scenario import scenario_of

POINTS = 10
#: Workers of one process: more of them wait for one another's interpreter, which no fleet's do.
TOGETHER = 25
LABEL = "all"


def trial_seconds(trial: str) -> float:
    """How long a made-up trial takes in a real fleet."""
    return random.Random(trial).uniform(0.2, 5.0)


def made_up(clock: float) -> dict[str, Any]:
    """What the workers run in place of the machine's own functions."""

    def make_trial(order: dict[str, Any]) -> dict[str, Any]:
        from distributed import get_worker

        planned, began_s = order["planned"], time.monotonic()
        seconds = trial_seconds(planned["trial"])
        time.sleep(seconds / clock)
        record = {
            **{key: planned[key] for key in ("trial", "block", "repeat")},
            "point": planned["point_id"],
            "settings": {"kind": "command"},
            "outcome": "ok",
            "limits": {"label": "max"},
            "started_utc": "",
            "wall_s": seconds,
            "notes": {"began_s": began_s},
        }
        return {"records": [record], "files": {}, "machine": str(get_worker().name)}

    return {
        "make_trial": make_trial,
        "open_sweep": lambda sweep, tables: {"manifest": {}, "environment": {}},
        "probe_machine": lambda sweep, planned, repeats: {"times": {"p001": [1.0] * repeats}},
        "close_sweep": lambda sweep: None,
    }


async def schedule() -> None:
    """The scheduler, until it is stopped."""
    from distributed import Scheduler

    async with Scheduler(host="tls://127.0.0.1", port=0, dashboard=False) as scheduler:
        print(scheduler.address, flush=True)
        await scheduler.finished()


async def work(address: str, clock: float, own: list[str]) -> None:
    """Some workers, until the scheduler is stopped."""
    from edgebench.fleet.dask_processes import QuietWorker

    for name, function in made_up(clock).items():
        setattr(machine, name, function)
    # In a fleet no trial waits for the interpreter of another one's worker.
    sys.setswitchinterval(0.0005)
    made = [
        QuietWorker(
            address,
            host="tls://127.0.0.1",
            nthreads=1,
            name=name,
            resources=worker_resources(name, [LABEL]),
            memory_limit=0,
            dashboard=False,
        )
        for name in own
    ]
    await asyncio.gather(*made)
    print("up", flush=True)
    await asyncio.gather(*(one.finished() for one in made))


def names(workers: int) -> list[str]:
    """The machines."""
    return [f"m{number:03d}" for number in range(workers)]


class Watch:
    """When trials began and ended."""

    def __init__(self) -> None:
        self.first_s, self.last_s, self.records = float("inf"), 0.0, 0

    def tell(self, text: str) -> None:
        """Nothing."""

    def made(self, group: MachineGroup, record: TrialRecord) -> None:
        """A trial is recorded."""
        self.first_s = min(self.first_s, record.notes["began_s"])
        self.last_s = time.monotonic()
        self.records += 1


def run(address: str, trials: int, workers: int, clock: float) -> dict[str, Any]:
    """Run the sweep; what it took."""
    hosts = {name: {"local": True, "labels": [LABEL]} for name in names(workers)}
    inventory = Inventory.model_validate({"schema": 1, "scheduler": address, "hosts": hosts})
    tables = {
        "schema": 1,
        "name": "scale",
        "repeats": trials // POINTS,
        "workload": {"kind": "command", "command": ["true"]},
        "limits": {"memory": [f"{64 + n}M" for n in range(POINTS - 1)]},
    }
    watch = Watch()
    # Without a disk: each record's sync is the disk's time, not scheduling's.
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        options = GroupOptions(Path(folder), shared=True)
        machines = [FleetMachine(name) for name in hosts]
        scenario = scenario_of(tables)
        group = MachineGroup(LABEL, label_resource(LABEL), machines, scenario, tables, options)
        with connected(inventory, CONTROLLER) as connection:
            FleetController(FleetContext(connection, {}, watch), [group]).run()
            assert group.sweep
            # What follows checks the results, which is not the controller's.
            used = resource.getrusage(resource.RUSAGE_SELF)
            planned = [f"{n:0{len(str(trials))}d}" for n in range(1, trials + 1)]
            recorded = sorted(record.trial for record in group.sweep.folder.records())
            connection.shut_down()
    took_s = watch.last_s - watch.first_s
    ideal_s = sum(map(trial_seconds, group.sweep.trials)) / workers / clock
    return {
        "trials": trials,
        "workers": workers,
        "clock": clock,
        "once_each": len(recorded) == len(planned) == len(set(recorded)),
        "took_s": took_s,
        "ideal_s": ideal_s,
        "overhead": took_s / ideal_s - 1,
        # Of a real fleet: scheduling's seconds over trials that are not made shorter.
        "overhead_unscaled": (took_s - ideal_s) / (ideal_s * clock),
        "controller_rss_bytes": used.ru_maxrss * 1024,
        "controller_share": (used.ru_utime + used.ru_stime) / took_s,
    }


def started(*words: str) -> tuple[subprocess.Popen[str], str]:
    """A process of this program, and the first line that it prints: then it is ready."""
    quiet = Inventory.model_validate({"schema": 1, "hosts": {"m": {"local": True}}})
    make_keys(quiet)
    file, tls = tls_files(quiet).key, "DASK_DISTRIBUTED__COMM__TLS__"
    keys = [f"{role}__{kind}" for role in ("SCHEDULER", "WORKER") for kind in ("CERT", "KEY")]
    environment = {
        **os.environ,
        **start_order("worker", "m", [], quiet)["environment"],
        **{f"{tls}{key}": file for key in ("CA_FILE", *keys)},
        "DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "True",
    }
    command = [sys.executable, __file__, *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True)
    assert process.stdout
    return process, process.stdout.readline().strip()


def main(words: list[str]) -> int:
    """Start the scheduler and the workers, run, and print the figures."""
    if words[:1] == ["schedule"]:
        asyncio.run(schedule())
        return 0
    if words[:1] == ["work"]:
        asyncio.run(work(words[1], float(words[2]), words[3:]))
        return 0
    trials, workers, clock = (*map(int, words), *(10_000, 200, 4)[len(words) :])
    scheduler, address = started("schedule")
    processes = [scheduler]
    try:
        own = names(workers)
        for first in range(0, workers, TOGETHER):
            group = own[first : first + TOGETHER]
            processes.append(started("work", address, str(clock), *group)[0])
        data = run(address, trials, workers, clock)
    finally:
        for one in processes:
            one.kill()
            one.wait()
    says = "Made-up trials of 0.2 to 5 s, made shorter by the clock, shared by simulated workers."
    shown = [trials, workers, clock, f"{data['overhead']:.1%}", f"{data['overhead_unscaled']:.1%}"]
    row = [*shown, f"{data['controller_rss_bytes'] / 1e6:.0f} MB", data["once_each"]]
    header = ["trials", "workers", "clock", "over the ideal finish", "of a real clock"]
    report.write("fleet_scale", says, [*header, "controller", "once each"], [row], data)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
