"""What runs inside a machine's Dask worker: it answers about the machine, and passes trials on.

No trial is made in the worker itself: a process of its own
(:mod:`edgebench.fleet.trial_service`) makes them, so the worker stays as small as it is at rest.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from edgebench import __version__
from edgebench.cache import cache_folder
from edgebench.fleet.content import stored_tables
from edgebench.fleet.keys import fleet_folder
from edgebench.fleet.messages import time_of_day_s, told_loss
from edgebench.identity import caller_identity
from edgebench.processes import own_program
from edgebench.results.live_file import boot_id

#: How long a service gets to clean up after its last trial.
_CLOSING_S = 60.0


class ServiceProcess:
    """The process that makes one sweep's trials here."""

    def __init__(self, sweep: str) -> None:
        self.sweep = sweep
        self.opened: dict[str, Any] = {}
        kept = {k: v for k, v in os.environ.items() if not k.startswith("DASK_")}
        self._process = subprocess.Popen(
            own_program("edgebench.fleet.trial_service"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=kept,
            text=True,
        )

    def answer(self, order: Mapping[str, Any]) -> dict[str, Any]:
        """What it answers to an order; an ``error`` if it ended."""
        assert self._process.stdin
        assert self._process.stdout
        try:
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            return {"error": told_loss(self._process.wait(), fleet_folder()), "ended": True}
        answered: dict[str, Any] = json.loads(line)
        return answered

    @property
    def is_alive(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    def close(self) -> None:
        """End it; it cleans up."""
        assert self._process.stdin
        # At its end both pipes are closed.
        with self._process:
            self._process.stdin.close()
            try:
                self._process.wait(_CLOSING_S)
            except subprocess.TimeoutExpired:
                self._process.kill()


#: The one service there is; a machine makes one trial at a time.
_services: list[ServiceProcess] = []
_lock = threading.Lock()


def describe_machine() -> dict[str, Any]:
    """Versions, clock, identity and free disk of this machine."""
    folder = cache_folder(caller_identity())
    there = next(one for one in (folder, *folder.parents) if one.exists())
    return {
        "edgebench": __version__,
        "python": platform.python_version(),
        "clock_s": time_of_day_s(),
        "boot_id": boot_id(),
        "pid": os.getpid(),
        "free_bytes": shutil.disk_usage(there).free,
        "folder": str(folder),
    }


def open_sweep(sweep: str, tables: Mapping[str, Any]) -> dict[str, Any]:
    """Make this machine ready for a sweep's trials; its ``manifest`` and ``environment``."""
    with _lock:
        if _services and _services[0].sweep == sweep and _services[0].is_alive:
            # Of a controller that was killed.
            return _services[0].opened
        for other in _services:
            other.close()
        _services[:] = [ServiceProcess(sweep)]
        opened = _services[0].answer({"tables": stored_tables(tables)})
        _services[0].opened = opened
        if "error" in opened:
            _services.pop().close()
        return opened


def make_trial(order: Mapping[str, Any]) -> dict[str, Any]:
    """A trial of the sweep that is open here: its ``records``, and its ``files`` whole.

    ``closed`` in place of them: another sweep is open, or none; ``error``: it could not be made.
    """
    with _lock:
        if not _services or _services[0].sweep != order["sweep"] or not _services[0].is_alive:
            return {"closed": True, "machine": _own_name()}
        answered = _services[0].answer({k: v for k, v in order.items() if k != "sweep"})
        if answered.get("ended"):
            _services.pop()
        files = answered.get("files", {})
        taken = {name: Path(path).read_bytes() for name, path in files.items()}
        return {**answered, "files": taken, "machine": _own_name()}


def close_sweep(sweep: str) -> None:
    """End the sweep's service, if it is open here."""
    with _lock:
        while _services and _services[0].sweep == sweep:
            _services.pop().close()


def check_this_machine() -> list[dict[str, Any]]:
    """The results of ``edgebench doctor`` here."""
    command = own_program("edgebench", "doctor", "--json")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        checks: list[dict[str, Any]] = json.loads(done.stdout)["checks"]
    except (ValueError, KeyError):
        says = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        return [{"check": "doctor", "status": "fail", "says": says, "remedy": None}]
    return checks


def probe_machine(sweep: str, planned: Sequence[Mapping[str, Any]], repeats: int) -> dict[str, Any]:
    """How long the same trials take here: ``times``, point → seconds of those that ended well.

    The first of the trials is unlimited and shows the demand that others are a share of.
    """
    times: dict[str, list[float]] = {one["point_id"]: [] for one in planned}
    demand = 0
    for one in [trial for _ in range(repeats) for trial in planned]:
        order = {"sweep": sweep, "planned": one, "demand_bytes": demand, "probe": True}
        answer = make_trial(order)
        if "records" not in answer:
            return answer
        record = answer["records"][0]
        demand = demand or record["demand_bytes"] or 0
        if record["outcome"] == "ok":
            times[one["point_id"]].append(record["wall_s"])
    return {"times": times}


def _own_name() -> str:
    """The name of this machine in the inventory, which its worker was given."""
    from distributed import get_worker

    return str(get_worker().name)
