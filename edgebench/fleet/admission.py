"""How a machine comes to take part in a run: checked, sent files, opened, probed if it shares."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from edgebench.errors import EdgebenchError
from edgebench.fleet.connection import FleetConnection, FleetWorker
from edgebench.fleet.fitness import PROBES, listed_twice, same_machines, unfit_reason
from edgebench.fleet.groups import FleetMachine, MachineGroup
from edgebench.fleet.machine import open_sweep, probe_machine
from edgebench.fleet.messages import told_reason
from edgebench.fleet.tasks import OpenTasks
from edgebench.records import TrialRecord

_OPEN = "open "


class FleetProgress(Protocol):
    """Gets what happens in a run; the command line shows it."""

    def tell(self, text: str) -> None:
        """Something that stays."""

    def made(self, group: MachineGroup, record: TrialRecord) -> None:
        """A trial is recorded."""


@dataclass(frozen=True)
class FleetContext:
    """What all parts of a run on a fleet use.

    ``connection``: to the scheduler. ``files``: what the scenario names: digest → path.
    ``progress``: gets what happens. ``tasks``: where answers are waited for.
    """

    connection: FleetConnection
    files: Mapping[str, Path]
    progress: FleetProgress
    tasks: OpenTasks = field(default_factory=OpenTasks)


def guarded(group: MachineGroup, tasks: OpenTasks, act: Callable[[], None]) -> None:
    """What fails for one sweep ends that one alone."""
    try:
        act()
    except EdgebenchError as error:
        group.error, group.over = error, True
        tasks.take_back(group.key)


def opening(machine: FleetMachine) -> str:
    """The name of the task that makes a machine ready."""
    return f"{_OPEN}{machine.name}"


def is_opening(name: str) -> bool:
    """Whether a task of that name makes a machine ready; others are trials."""
    return name.startswith(_OPEN)


class MachineAdmission:
    """Makes machines ready, and leaves out those that are not fit or not equal."""

    def __init__(self, context: FleetContext) -> None:
        self._context = context
        self._described: dict[str, Any] = {}

    def welcome(self, new: Sequence[tuple[MachineGroup, FleetMachine, FleetWorker]]) -> None:
        """Machines whose worker is new: they are left out, or get ready."""
        inventory = self._context.connection.inventory
        answered = self._context.connection.describe([worker for *_, worker in new])
        self._described |= answered
        order = [name for name in inventory.hosts if name in self._described]
        twice = same_machines({name: self._described[name] for name in order})
        for group, machine, worker in new:
            # One whose connection broke is asked again, for as long as its worker is known.
            if machine.name not in answered:
                continue
            machine.address = worker.address
            shared, other = group.options.shared, twice.get(machine.name)
            reason = unfit_reason(self._described[machine.name], shared=shared)
            if other and not reason:
                reason = listed_twice(machine.name, other, inventory)
            if not reason:
                reason = self._sent(worker)
            if reason:
                self.leave_out(group, machine, reason)
            else:
                machine.state = "opening"
                self._context.progress.tell(f"{machine.name} gets ready")
                self._ask(group, machine, open_sweep, group.key, group.tables)

    def _sent(self, worker: FleetWorker) -> str | None:
        """Send the scenario's files; why that can't be."""
        try:
            self._context.connection.send_files(worker, self._context.files)
        except EdgebenchError as error:
            return error.what
        return None

    def _ask(
        self, group: MachineGroup, machine: FleetMachine, function: Callable[..., Any], *args: Any
    ) -> None:
        future = self._context.connection.on_machine(function, machine.name, *args)
        answered = partial(self._answered, group, machine)
        self._context.tasks.watch(
            (group.key, opening(machine)), future, answered, partial(self._lost, group, machine)
        )

    def _answered(self, group: MachineGroup, machine: FleetMachine, answer: Any) -> None:
        if machine.state != "opening" or group.over:
            return
        if "error" in answer or "closed" in answer:
            said = answer.get("error", {"what": "another sweep began there"})
            self.leave_out(group, machine, told_reason(said))
        elif "times" in answer:
            group.probed(machine, answer["times"])
            self._admit(group, machine)
        else:
            machine.opened = answer
            if group.options.shared:
                orders = group.probe_orders()
                self._ask(group, machine, probe_machine, group.key, orders, PROBES)
            else:
                self._admit(group, machine)

    def _lost(self, group: MachineGroup, machine: FleetMachine, reason: str, final: bool) -> None:
        if machine.state == "opening":
            self.leave_out(group, machine, reason)

    def _admit(self, group: MachineGroup, machine: FleetMachine) -> None:
        self._change(group, partial(group.admit, machine))

    def leave_out(self, group: MachineGroup, machine: FleetMachine, reason: str) -> None:
        """A machine takes no part in this run."""
        self._change(group, partial(group.leave_out, machine, reason))

    def lose(self, group: MachineGroup, machine: FleetMachine) -> None:
        """A machine's worker is gone; it may come back."""
        self._change(group, partial(group.lose, machine))

    def _change(self, group: MachineGroup, act: Callable[[], None]) -> None:
        """What changes a machine's state may decide on others too: tell, and tell Dask."""
        before = {one.name for one in group.of("left-out")}
        guarded(group, self._context.tasks, act)
        for one in group.of("working", "left-out"):
            if one.state == "left-out" and one.name not in before:
                self._context.progress.tell(f"{one.name} is left out: {one.reason}")
            self._switch(group, one, 1 if one.state == "working" else 0)

    def _switch(self, group: MachineGroup, machine: FleetMachine, amount: int) -> None:
        """Give a machine the label of its group, or take it, so that Dask gives it no trial."""
        if group.options.shared and machine.address and machine.label != amount:
            worker = FleetWorker(machine.name, machine.address, 0.0)
            self._context.connection.set_resource(worker, group.resource, amount)
            machine.label = amount
