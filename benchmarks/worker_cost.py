"""What a fleet's worker costs its machine: memory, CPU time, and time of a trial beside it.

``python benchmarks/worker_cost.py [PAIRS [SECONDS]]`` (root): a worker as `edgebench fleet up`
starts it, at rest; then while a trial works on all cores; then on one. In pairs within one trial
the same work is done beside the worker and while it is frozen. The scheduler and the controller,
which in a fleet are on another computer, go on in both halves; where one core is measured, on the
others.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import report
from pairing import interval

PROGRAM = Path(__file__).with_name("worker_cost_program.py")
#: A worker's first seconds are its start's, not its rest.
_SETTLE_S = 5.0
_FLEET = """schema = 1
name = "worker-cost"
scheduler = "tls://127.0.0.1:{}"
[hosts.board]
local = true
"""
_SCENARIO = """schema = 1
name = "{}"
repeats = 1
timeout = "20m"
[workload]
kind = "command"
command = {}
"""


class LocalFleet:
    """A fleet of one worker on this machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        (folder / "fleet.toml").write_text(_FLEET.format(self._port))

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start a verb of `edgebench fleet`."""
        command = [sys.executable, "-m", "edgebench", "fleet", *words]
        return subprocess.Popen(command, cwd=self.folder, stdout=subprocess.PIPE, text=True)

    def worker(self) -> int:
        """The worker's process."""
        said, _ = self.start("status", "--json").communicate()
        return int(json.loads(said)["machines"]["board"]["pid"])

    def scheduler(self) -> int:
        """The scheduler's process."""
        for one in psutil.process_iter(["cmdline"]):
            words = one.info["cmdline"] or []
            if "distributed.cli.dask_scheduler" in words and str(self._port) in words:
                return int(one.pid)
        raise RuntimeError("no scheduler")

    def trial(self, name: str, *words: str) -> subprocess.Popen[str]:
        """Start a sweep of one trial, which runs the program with these words."""
        command = json.dumps([sys.executable, str(PROGRAM), *words])
        (self.folder / f"{name}.toml").write_text(_SCENARIO.format(name, command))
        return self.start("run", f"{name}.toml")

    def printed(self, name: str) -> Any:
        """What the trial of that sweep printed last."""
        [log] = self.folder.glob(f"results/board/*-{name}-*/logs/*.log")
        return json.loads(log.read_text().splitlines()[-1])


def ended_well(running: subprocess.Popen[str]) -> None:
    """Wait for it."""
    said, _ = running.communicate()
    assert running.returncode == 0, said


def bind(pid: int, cores: set[int]) -> None:
    """Keep a process on these cores: its threads, and what they start."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(task.name), cores)


def cpu_s(pid: int) -> float:
    """CPU time of a process, all its threads together, by its own clock: clock_getcpuclockid(3)."""
    return time.clock_gettime((~pid << 3) | 2)


def usage(pid: int, seconds: float) -> dict[str, Any]:
    """A process's memory, and its share of one core over so many seconds."""
    before, began = cpu_s(pid), time.monotonic()
    time.sleep(seconds)
    share = (cpu_s(pid) - before) / (time.monotonic() - began)
    return {"rss_bytes": psutil.Process(pid).memory_info().rss, "share": share}


def in_trial(fleet: LocalFleet, cores: int, worker: int, seconds: float) -> dict[str, Any]:
    """The worker's usage while a trial works; and the memory of the process that makes trials."""
    flag = fleet.folder / f"steady-{cores}"
    running = fleet.trial(flag.name, "steady", str(flag))
    while not flag.exists():
        assert running.poll() is None, "the trial did not begin"
        time.sleep(0.1)
    found = usage(worker, seconds)
    started = psutil.Process(worker).children()
    [maker] = [one for one in started if "edgebench.fleet.trial_service" in one.cmdline()]
    found["maker_rss_bytes"] = maker.memory_info().rss
    flag.unlink()
    ended_well(running)
    return found


def on_cores(
    fleet: LocalFleet, worker: int, cores: set[int], pairs: int, seconds: float
) -> dict[str, Any]:
    """What it costs where worker, harness and workload have these cores."""
    others = (os.sched_getaffinity(0) - cores) or cores
    bind(worker, cores)
    bind(fleet.scheduler(), others)
    os.sched_setaffinity(0, others)
    found = in_trial(fleet, len(cores), worker, seconds)
    name = f"pairs-{len(cores)}"
    ended_well(fleet.trial(name, "pairs", str(worker), str(pairs)))
    taken = fleet.printed(name)
    ratios = [beside / frozen for beside, frozen in taken]
    return {"cores": len(cores), **found, "seconds": taken, "ratios": ratios}


def measured(pairs: int, seconds: float) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """At rest; and on all cores, on one."""
    every = os.sched_getaffinity(0)
    with tempfile.TemporaryDirectory() as name:
        os.environ["EDGEBENCH_CACHE"] = str(Path(name) / "cache")
        fleet = LocalFleet(Path(name))
        ended_well(fleet.start("up"))
        worker = fleet.worker()
        try:
            time.sleep(_SETTLE_S)
            rest = usage(worker, seconds)
            found = []
            for cores in [every, {min(every)}] if len(every) > 1 else [every]:
                found.append(on_cores(fleet, worker, cores, pairs, seconds))
                os.sched_setaffinity(0, every)
            return rest, found
        finally:
            os.sched_setaffinity(0, every)
            with suppress(ProcessLookupError):
                os.kill(worker, signal.SIGCONT)
            fleet.start("stop").communicate()


def row(what: str, one: dict[str, Any]) -> list[str]:
    """A line of the table."""
    words = [what, f"{one['rss_bytes'] / 2**20:.1f} MiB", f"{one['share']:.2%}"]
    if "ratios" not in one:
        return [*words, ""]
    low, high = interval(one["ratios"])
    median, pairs = statistics.median(one["ratios"]), len(one["ratios"])
    return [*words, f"{median:.4f}, median of {pairs} pairs ({low:.4f} to {high:.4f})"]


def main(pairs: int, seconds: float) -> None:
    """Measure, and write what was found."""
    rest, found = measured(pairs, seconds)
    rows = [row("at rest", rest)]
    rows += [row(f"during a trial, cores: {one['cores']}", one) for one in found]
    says = (
        "A fleet's worker: memory, share of one core, and time of a trial's work beside it ÷ while "
        "it is frozen, with the 95 % interval of the median."
    )
    header = ["worker", "memory", "share of one core", "time beside it ÷ frozen"]
    report.write("worker_cost", says, header, rows, {"rest": rest, "cores": found})


if __name__ == "__main__":
    asked = sys.argv[1:]
    main(int(asked[0]) if asked else 20, float(asked[1]) if len(asked) > 1 else 40)
