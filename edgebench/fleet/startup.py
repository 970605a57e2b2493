"""What a fleet's scheduler and workers are started with, and how: here, or over SSH."""

from __future__ import annotations

import json
import shlex
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from edgebench import __version__
from edgebench.errors import FleetError
from edgebench.fleet.inventory import HostKeys, Inventory
from edgebench.fleet.keys import tls_texts
from edgebench.identity import caller_identity

#: One of it makes one trial at a time a machine; Dask hands out no more.
MACHINE = "machine"
#: The variable by which a scheduler tells whose it is.
OWNER = "EDGEBENCH_FLEET"
#: SSH's own exit code for: no connection.
_NO_CONNECTION = 255
_START = "edgebench.fleet.start"
_SSH_S = 120.0
_ROOTS_PYTHON = "its python = … would be started as root, which sudo's caller may not decide"
_OTHER_PYTHON = (
    "leave python out: its worker uses this installation; or start the fleet without sudo: "
    'python = "sudo -n /opt/edgebench/.venv/bin/python"'
)
#: What Dask does beside running tasks, and how seldom it does it on a fleet's machine.
_QUIET = {
    "WORKER__PROFILE__ENABLED": "False",
    "ADMIN__TICK__INTERVAL": "30s",
    "ADMIN__TICK__LIMIT": "1h",
    "ADMIN__SYSTEM_MONITOR__INTERVAL": "60s",
    "ADMIN__SYSTEM_MONITOR__DISK": "False",
    "WORKER__MEMORY__MONITOR_INTERVAL": "60s",
    "DIAGNOSTICS__NVML": "False",
    "DIAGNOSTICS__CUDF": "False",
    "SCHEDULER__HTTP__ROUTES": "[]",
    "WORKER__HTTP__ROUTES": "[]",
}


@dataclass(frozen=True)
class WorkerStart:
    """What became of one start: ``says`` is empty if it runs."""

    name: str
    says: str = ""
    remedy: str | None = None


def host_resource(name: str) -> str:
    """The Dask resource that only this machine has."""
    return f"host-{name}"


def label_resource(label: str) -> str:
    """The Dask resource that machines of a label have."""
    return f"label-{label}"


def worker_resources(name: str, labels: Sequence[str]) -> dict[str, float]:
    """The resources that a machine's worker has."""
    return {MACHINE: 1, host_resource(name): 1, **{label_resource(one): 1 for one in labels}}


def start_order(role: str, name: str, words: Sequence[str], inventory: Inventory) -> dict[str, Any]:
    """What :mod:`edgebench.fleet.start` reads.

    Raises:
        FleetError: a TLS file can't be read.
    """
    environment = {f"DASK_DISTRIBUTED__{key}": value for key, value in _QUIET.items()}
    environment |= {
        "DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "True",
        "DASK_EDGEBENCH__HEARTBEAT_S": str(inventory.heartbeat_s),
        "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": f"{inventory.lost_after_s}s",
        OWNER: inventory.name,
    }
    return {
        "edgebench": __version__,
        "role": role,
        "name": name,
        "scheduler": [inventory.host, inventory.port],
        "words": list(words),
        "environment": environment,
        "tls": tls_texts(inventory),
    }


def start_scheduler(inventory: Inventory) -> WorkerStart:
    """Start the fleet's scheduler on this computer, where its address must be.

    Raises:
        FleetError: the address is another computer's.
    """
    if not _is_own(inventory.host):
        raise FleetError(
            f"no scheduler answers at {inventory.scheduler}, which is no address of this computer",
            where=inventory.scheduler,
            remedy="start it there, or write this computer's address: scheduler = …",
        )
    order = start_order("scheduler", inventory.name, [], inventory)
    return _started(inventory.name, HostKeys(local=True).command(_START), order)


def start_workers(
    inventory: Inventory, names: Sequence[str], tell: Callable[[str], None]
) -> list[WorkerStart]:
    """Start the workers of these machines at the same time; each one's failure is its own."""

    def start(name: str) -> WorkerStart:
        tell(f"starting the worker of {name}")
        host = inventory.hosts[name]
        if host.local and host.python and caller_identity():
            # A workload of the caller's may have written the inventory.
            return WorkerStart(name, _ROOTS_PYTHON, _OTHER_PYTHON)
        words = worker_words(name, host, inventory)
        # Machines of two fleets may have the same name, and be the same computer.
        order = start_order("worker", f"{inventory.name}-{name}", words, inventory)
        return _started(name, host.command(_START), order)

    with ThreadPoolExecutor(max_workers=16) as pool:
        return list(pool.map(start, names))


def worker_words(name: str, host: HostKeys, inventory: Inventory) -> list[str]:
    """The words that a machine's worker is started with."""
    resources = worker_resources(name, host.labels)
    return [
        *(inventory.scheduler, "--no-nanny", "--nthreads", "1", "--name", name),
        *("--memory-limit", "0", "--no-dashboard", "--death-timeout", "60"),
        *("--worker-class", "edgebench.fleet.dask_processes.QuietWorker"),
        *("--resources", " ".join(f"{key}={value:g}" for key, value in resources.items())),
    ]


def _started(name: str, command: Sequence[str], order: Mapping[str, Any]) -> WorkerStart:
    try:
        done = subprocess.run(
            command,
            input=json.dumps(order),
            capture_output=True,
            text=True,
            timeout=_SSH_S,
            check=False,
        )
    except FileNotFoundError:
        return WorkerStart(name, f"{command[0]} is not installed", "apt-get install openssh-client")
    except subprocess.TimeoutExpired:
        return WorkerStart(
            name, f"no answer in {_SSH_S:g} s", f"try it by hand: {_by_hand(command)}"
        )
    if done.returncode == 0:
        return WorkerStart(name)
    return _failed(name, command, done)


def _failed(
    name: str, command: Sequence[str], done: subprocess.CompletedProcess[str]
) -> WorkerStart:
    last = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
    if command[0] == "ssh" and done.returncode == _NO_CONNECTION:
        return WorkerStart(name, f"not reached: {last}", _ssh_remedy(command, last))
    try:
        said = json.loads(done.stdout)["error"]
    except (ValueError, KeyError, TypeError):
        says = f"its Python can't start the worker: {last}"
        return WorkerStart(name, says, "install edgebench there, and name its Python: python = …")
    return WorkerStart(name, str(said["what"]), said["remedy"])


def _ssh_remedy(command: Sequence[str], said: str) -> str:
    """What lets SSH in without a question, as far as its words tell what it would have asked."""
    address = shlex.quote(command[-2])
    if "Host key verification failed" in said:
        return f"log in once by hand, and answer its question: ssh {address}"
    if "Permission denied" in said:
        return f"let this computer's key in: ssh-copy-id {address} (no key yet: ssh-keygen first)"
    return f"try it by hand: {_by_hand(command)}"


def _by_hand(command: Sequence[str]) -> str:
    return " ".join([*command[:-1], "true"])


def _is_own(host: str) -> bool:
    """Whether a socket can be bound to it."""
    try:
        family, *_, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, socket.SOCK_STREAM) as bound:
            bound.bind(address)
    except OSError:
        return False
    return True
