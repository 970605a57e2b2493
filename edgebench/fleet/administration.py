"""Starts, checks, shows and stops the machines of a fleet."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from edgebench.errors import FleetError
from edgebench.fleet.connection import FleetWorker, connected, is_reached
from edgebench.fleet.groups import listed_twice, same_machines, unfit_reason
from edgebench.fleet.inventory import Inventory
from edgebench.fleet.keys import make_keys, tls_files
from edgebench.fleet.machine import check_this_machine
from edgebench.fleet.messages import seconds_since
from edgebench.fleet.startup import WorkerStart, start_scheduler, start_workers, worker_words
from edgebench.run.checks import CheckResult, is_fit

_CHECKS_S = 300.0


def bring_up(
    inventory: Inventory, names: Sequence[str], tell: Callable[[str], None]
) -> list[WorkerStart]:
    """Start what is not there yet: the scheduler, and the workers of these machines.

    Raises:
        FleetError: the scheduler can't be started, or one is there that has another key.
    """
    make_keys(inventory)
    if is_reached(inventory):
        with connected(inventory) as connection:
            there = set(connection.workers())
    else:
        tell(f"starting the scheduler at {inventory.scheduler}")
        scheduler, there = start_scheduler(inventory), set()
        if scheduler.says:
            raise FleetError(
                f"the scheduler can't be started: {scheduler.says}",
                where=inventory.scheduler,
                remedy=scheduler.remedy,
            )
    wanted = [n for n in names if n not in there and inventory.hosts[n].started]
    others = [n for n in names if n not in there and not inventory.hosts[n].started]
    made = {one.name: one for one in start_workers(inventory, wanted, tell)}
    waiting = "no worker is there, and the inventory says neither ssh nor local"
    made |= {name: WorkerStart(name, waiting, _worker_by_hand(inventory, name)) for name in others}
    return [made.get(name, WorkerStart(name)) for name in names]


def _worker_by_hand(inventory: Inventory, name: str) -> str:
    files = tls_files(inventory)
    words = worker_words(name, inventory.hosts[name], inventory)
    words += ["--tls-ca-file", files.ca, "--tls-cert", files.cert, "--tls-key", files.key]
    return "start it, with a copy of the key: " + shlex.join(
        ["python3", "-m", "distributed.cli.dask_worker", *words]
    )


@dataclass(frozen=True)
class MachineChecks:
    """The checks of one machine."""

    machine: str
    checks: Sequence[CheckResult]

    @property
    def fit(self) -> bool:
        """Whether nothing failed."""
        return is_fit(self.checks)

    def status_of(self, check: str) -> str:
        """The status of a check; empty where the machine has no such check."""
        return next((str(row.status) for row in self.checks if row.check == check), "")

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"fit": self.fit, "checks": [asdict(row) for row in self.checks]}


def check_machines(inventory: Inventory, names: Sequence[str]) -> list[MachineChecks]:
    """The doctor's checks of these machines, made at the same time.

    Raises:
        FleetError: no scheduler answers.
    """
    with connected(inventory) as connection:
        there = connection.workers().items()
        workers = {name: worker for name, worker in there if name in names}
        described = connection.describe(connection.answering(workers.values()))
        reasons = _reasons(inventory, described)
        asked = {
            name: connection.on_machine(check_this_machine, name)
            for name in workers
            if name in described and name not in reasons
        }
        found = []
        for name in names:
            if name in asked:
                rows = _answered(asked[name])
            elif name in reasons:
                rows = [_failed("fleet", reasons[name], None)]
            else:
                says = "it does not answer" if name in workers else "no worker is there"
                rows = [_failed("worker", says, f"edgebench fleet up --host {name}")]
            found.append(MachineChecks(name, rows))
        return found


def _reasons(inventory: Inventory, described: Mapping[str, Any]) -> dict[str, str]:
    """Why machines can't take part."""
    order = [name for name in inventory.hosts if name in described]
    twice = same_machines({name: described[name] for name in order})
    found = {}
    for name in order:
        reason = unfit_reason(described[name], shared=False)
        if not reason and name in twice:
            reason = listed_twice(name, twice[name], inventory)
        if reason:
            found[name] = reason
    return found


def _answered(future: Any) -> list[CheckResult]:
    try:
        return [CheckResult(**row) for row in future.result(timeout=_CHECKS_S)]
    except Exception as error:
        return [_failed("doctor", f"no answer: {type(error).__name__}: {error}", None)]


def _failed(check: str, says: str, remedy: str | None) -> CheckResult:
    return CheckResult(check, "fail", says, remedy)


def machine_states(inventory: Inventory) -> dict[str, dict[str, str]]:
    """Machine → its state (``down``, ``no answer``, ``idle`` or a task), and what is known of it.

    Raises:
        FleetError: no scheduler answers.
    """
    with connected(inventory) as connection:
        workers, busy = connection.workers(), connection.busy()
        # Asking a frozen machine takes seconds, which are not added.
        seen_s = {name: seconds_since(one.last_seen) for name, one in workers.items()}
        described = connection.describe(connection.answering(workers.values()))
        reasons = _reasons(inventory, described)
        found = {}
        for name, host in inventory.hosts.items():
            worker = workers.get(name)
            answer = described.get(name)
            pid = answer["pid"] if isinstance(answer, dict) else None
            tasks = busy.get(worker.address, ()) if worker else ()
            found[name] = {
                "state": _state(worker, answer, tasks),
                "labels": ", ".join(host.labels),
                "seen": f"{seen_s[name]:.0f} s ago" if worker else "",
                "worker": worker.address if worker else "",
                "pid": str(pid or ""),
                "problem": reasons.get(name, ""),
            }
        return found


def stop_fleet(inventory: Inventory) -> str:
    """End the workers of the fleet, and its scheduler if ``fleet up`` started it; what was ended.

    Raises:
        FleetError: no scheduler answers.
    """
    with connected(inventory) as connection:
        workers = connection.workers()
        if connection.owner() == inventory.name:
            connection.shut_down()
            return f"The scheduler and {len(workers)} workers are stopped."
        connection.retire(workers.values())
        return f"{len(workers)} workers are stopped; the scheduler was started by somebody else."


def _state(worker: FleetWorker | None, answer: object, tasks: Sequence[str]) -> str:
    if worker is None:
        return "down"
    if answer is None:
        return "no answer"
    return next(iter(tasks), "idle")
