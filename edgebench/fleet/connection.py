"""A connection to a fleet's scheduler, and what it knows of the machines."""

from __future__ import annotations

import logging
import os
import queue
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgebench.errors import EdgebenchError, FleetError
from edgebench.extras import need
from edgebench.fleet.content import lacking_files, pieces, store_piece
from edgebench.fleet.inventory import Inventory
from edgebench.fleet.keys import tls_texts
from edgebench.fleet.machine import describe_machine
from edgebench.fleet.messages import seconds_since, time_of_day_s
from edgebench.fleet.startup import MACHINE, OWNER, host_resource

if TYPE_CHECKING:
    from distributed import Client, Future

#: In the names of clients that run a sweep.
CONTROLLER = "edgebench-fleet-run"
_CONNECT_S = 10.0


#: How long answers may take on their way: one; and several that are fetched together.
_FETCH_S = 120.0
_TOGETHER_S = 30.0
#: So many answers are fetched together at most, since they are in memory together.
_TOGETHER = 32
#: A sweep's key, and the name of a task of it.
TaskName = tuple[str, str]


@dataclass(frozen=True)
class FleetWorker:
    """A machine's worker, as the scheduler knows it."""

    name: str
    address: str
    last_seen: float


class FleetConnection:
    """A client of the fleet's scheduler. A context manager."""

    def __init__(self, inventory: Inventory, client: Client) -> None:
        self.inventory = inventory
        self.client = client

    def workers(self) -> dict[str, FleetWorker]:
        """Machine → its worker, of those of the inventory that are there."""
        known = self.client.sync(self.client.scheduler.identity, n_workers=-1)["workers"]
        found = {}
        for address, one in known.items():
            name = str(one["name"])
            if name in self.inventory.hosts:
                found[name] = FleetWorker(name, address, float(one["last_seen"]))
        return found

    def busy(self) -> dict[str, tuple[str, ...]]:
        """A worker's address → the keys of its tasks."""
        processing: Mapping[str, Iterable[Any]] = self.client.processing()
        return {address: tuple(map(str, keys)) for address, keys in processing.items()}

    def answering(self, workers: Iterable[FleetWorker]) -> list[FleetWorker]:
        """Those whose last heartbeat is not overdue: a frozen worker would be waited for."""
        overdue_s = max(10.0, 2.5 * self.inventory.heartbeat_s)
        return [one for one in workers if seconds_since(one.last_seen) <= overdue_s]

    def describe(self, workers: Iterable[FleetWorker]) -> dict[str, dict[str, Any] | str]:
        """Machine → what :func:`describe_machine` says there, or why it fails there.

        ``clock_off_s`` is how far its clock is from this computer's. Machines whose connection
        breaks, as that of a frozen one, are not in it.
        """
        names = {one.address: one.name for one in workers}
        before = time_of_day_s()
        answers = self._asked(describe_machine, list(names))
        middle = (before + time_of_day_s()) / 2
        found: dict[str, dict[str, Any] | str] = {}
        for address, name in names.items():
            answer = answers.get(address)
            if isinstance(answer, dict):
                found[name] = {**answer, "clock_off_s": answer["clock_s"] - middle}
            elif answer is not None and not isinstance(answer, OSError):
                found[name] = f"{type(answer).__name__}: {answer}"
        return found

    def send_files(self, worker: FleetWorker, files: Mapping[str, Path]) -> int:
        """Send what the machine doesn't have of these files (digest → path); how many were sent.

        Raises:
            FleetError: it can't be stored there.
        """
        named = {f"{found}/{path.name}": path for found, path in files.items()}
        lacking = self._one(lacking_files, worker, list(named)) if named else []
        for name in lacking:
            size = named[name].stat().st_size
            for offset, data in pieces(named[name]):
                self._one(store_piece, worker, name, offset, data, size)
        return len(lacking)

    def _one(self, function: Callable[..., Any], worker: FleetWorker, *arguments: Any) -> Any:
        answer = self._asked(function, [worker.address], *arguments).get(worker.address)
        if isinstance(answer, Exception):
            raise FleetError(
                f"{worker.name}: files can't be sent: {answer}",
                where=worker.name,
                remedy="free some space there, or see its worker's log",
            ) from answer
        return answer

    def _asked(
        self, function: Callable[..., Any], addresses: list[str], *arguments: Any
    ) -> dict[str, Any]:
        # One that froze and was given up would be waited for without end.
        known = {one.address for one in self.workers().values()}
        addresses = [address for address in addresses if address in known]
        if not addresses:
            return {}
        answers: dict[str, Any] = self.client.run(
            function, *arguments, workers=addresses, on_error="return"
        )
        return answers

    def set_resource(self, worker: FleetWorker, resource: str, amount: float) -> None:
        """Give a worker so much of a Dask resource."""
        self._asked(_set_resource, [worker.address], resource, amount)

    def submit_each(
        self, function: Callable[[Any], Any], arguments: Mapping[str, Any], resource: str
    ) -> list[Future]:
        """A task for each argument (key → argument), on machines that have the resource.

        Each is alone on its machine. All go in one message, since each message costs the scheduler
        more than a task does.
        """
        if not arguments:
            return []
        made: list[Future] = self.client.map(
            function,
            list(arguments.values()),
            key=list(arguments),
            resources={MACHINE: 1, resource: 1},
            pure=False,
        )
        return made

    def on_machine(self, function: Callable[..., Any], name: str, *arguments: Any) -> Future:
        """A task on this machine, between its trials."""
        key = f"{function.__name__}-{name}-{os.urandom(6).hex()}"
        resources = {MACHINE: 1, host_resource(name): 1}
        return self.client.submit(function, *arguments, key=key, resources=resources, pure=False)

    def other_controllers(self) -> list[str]:
        """Clients that run a sweep on this fleet and began before this one."""
        own = str(self.client.id)
        # By value: a scheduler of somebody else need not have edgebench.
        clients = self.client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.clients))
        running = [one for one in clients if CONTROLLER in one]
        return running[: running.index(own)] if own in running else running

    def owner(self) -> str | None:
        """The fleet that started this scheduler; None if somebody else did."""
        name: str | None = self.client.run_on_scheduler(os.getenv, OWNER)
        return name

    def shut_down(self) -> None:
        """End the scheduler, and with it all of its workers."""
        self.client.shutdown()

    def retire(self, workers: Iterable[FleetWorker]) -> None:
        """End these workers."""
        self.client.retire_workers(workers=[one.address for one in workers], close_workers=True)


async def _set_resource(resource: str, amount: float, dask_worker: Any) -> None:
    await dask_worker.set_resources(**{resource: amount})


@contextmanager
def connected(inventory: Inventory, name: str = "edgebench-fleet") -> Iterator[FleetConnection]:
    """A connection to the fleet's scheduler.

    Raises:
        FleetError: none answers, or it ended within the block.
        MachineError: Dask is not installed.
    """
    need("distributed")
    from distributed import Client

    # A lost scheduler is reported below.
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
    if not is_reached(inventory):
        raise FleetError(
            f"no scheduler answers at {inventory.scheduler}",
            where=inventory.scheduler,
            remedy="edgebench fleet up",
        )
    try:
        client = Client(
            inventory.scheduler,
            timeout=_CONNECT_S,
            name=name,
            security=_security(inventory),
            set_as_default=False,
        )
    except (OSError, TimeoutError) as error:
        raise FleetError(
            f"what listens at {inventory.scheduler} does not take this fleet's key",
            where=inventory.scheduler,
            remedy="stop it where it was started, or write another port: scheduler = …",
        ) from error
    try:
        yield FleetConnection(inventory, client)
    except EdgebenchError:
        raise
    except Exception as error:
        if client.status == "running" and is_reached(inventory):
            raise
        raise FleetError(
            "the connection to the fleet's scheduler is lost",
            where=inventory.scheduler,
            remedy="edgebench fleet up; then the same command again: what is finished is kept",
        ) from error
    finally:
        client.close(timeout=_CONNECT_S)


def is_reached(inventory: Inventory) -> bool:
    """Whether anything listens at the scheduler's address."""
    try:
        socket.create_connection((inventory.host, inventory.port), _CONNECT_S).close()
    except OSError:
        return False
    return True


def _security(inventory: Inventory) -> Any:
    from distributed.security import Security

    # As texts: Dask would read files with root's rights.
    texts = tls_texts(inventory)
    return Security(
        tls_ca_file=texts["ca"],
        tls_client_cert=texts["cert"],
        tls_client_key=texts["key"],
        require_encryption=True,
    )


@dataclass(frozen=True)
class _Task:
    """``lost`` gets why there is no answer, and whether the same again would have none either."""

    name: TaskName
    future: Future
    handle: Callable[[Any], None]
    lost: Callable[[str, bool], None]


class OpenTasks:
    """The tasks of a run. All answers are taken in one thread, one after another."""

    def __init__(self) -> None:
        self._tasks: dict[TaskName, _Task] = {}
        self._ended: queue.Queue[_Task] = queue.Queue()

    def watch(
        self,
        name: TaskName,
        future: Future,
        handle: Callable[[Any], None],
        lost: Callable[[str, bool], None],
    ) -> None:
        """Take the answer of a task, once it has one."""
        task = self._tasks[name] = _Task(name, future, handle, lost)
        future.add_done_callback(lambda _: self._ended.put(task))

    def take(self, timeout_s: float) -> None:
        """Wait so long for a task to end, and handle the answers of those that ended."""
        ended = self._next_ended(timeout_s)
        answers = _fetched([task.future for task in ended])
        for task in ended:
            # What another answer led to may have taken it back.
            if self._tasks.get(task.name) is task:
                del self._tasks[task.name]
                _handle(task, answers)

    def _next_ended(self, timeout_s: float) -> list[_Task]:
        """Tasks that ended and were not taken back: one, and what is there besides."""
        found: list[_Task] = []
        with suppress(queue.Empty):
            found.append(self._ended.get(timeout=timeout_s))
            while len(found) < _TOGETHER:
                found.append(self._ended.get_nowait())
        return [task for task in found if self._tasks.get(task.name) is task]

    def take_back(self, sweep: str, names: Callable[[str], bool] | None = None) -> list[str]:
        """Cancel the tasks of a sweep, or those with such names; the names of those that were."""
        found = [one for one in self._tasks if one[0] == sweep and (not names or names(one[1]))]
        for one in found:
            self._tasks.pop(one).future.cancel()
        return [own for _, own in found]


def _fetched(futures: Sequence[Future]) -> dict[str, Any]:
    """Key → answer, fetched in one message; nothing if that fails: then each is fetched alone."""
    done = [future for future in futures if future.status == "finished"]
    if len(done) < 2:
        return {}
    client = done[0].client
    fetch = partial(client.gather, done, asynchronous=True)
    try:
        answers = client.sync(fetch, callback_timeout=_TOGETHER_S)
    except Exception:
        # One of them was lost on its way; alone each shows which.
        return {}
    return dict(zip((future.key for future in done), answers, strict=True))


def _handle(task: _Task, answers: dict[str, Any]) -> None:
    key = task.future.key
    try:
        answer = answers[key] if key in answers else task.future.result(timeout=_FETCH_S)
    except Exception as error:
        task.lost(f"{type(error).__name__}: {error}", task.future.status == "error")
    else:
        task.handle(answer)
