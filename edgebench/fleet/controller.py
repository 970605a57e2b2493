"""A run on a fleet: machines are admitted, trials handed out, and records kept as they arrive.

Dask decides which machine makes a trial; here is only how many are handed out at once, so that
neither the scheduler nor this process holds a whole sweep.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from edgebench.errors import EdgebenchError, FleetError
from edgebench.fleet.connection import FleetConnection, FleetWorker, OpenTasks
from edgebench.fleet.groups import (
    MOST_ERRORS,
    PROBES,
    FleetMachine,
    MachineGroup,
    failing_reason,
    listed_twice,
    same_machines,
    unfit_reason,
)
from edgebench.fleet.machine import close_sweep, make_trial, open_sweep, probe_machine
from edgebench.fleet.messages import plain_error, told_error, told_reason
from edgebench.records import TrialRecord

_OPEN = "open "


#: Trials that are handed out for each machine: one that it makes, one that waits for it.
_AHEAD = 2
_LOOK_S = 2.0
_CLOSE_S = 70.0
#: By then the scheduler has noticed that a controller was killed.
_GONE_S = 4.0


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


class FleetController:
    """Runs the sweeps of some groups of machines to their ends."""

    def __init__(self, context: FleetContext, groups: Sequence[MachineGroup]) -> None:
        self._context, self._groups = context, groups
        self._connection, self._tasks = context.connection, context.tasks
        self._admission = MachineAdmission(context)
        self._looked_s = 0.0

    def run(self) -> None:
        """Until each sweep is complete, failed, or has no machine left.

        Raises:
            FleetError: another controller uses the fleet.
        """
        self._refuse_another()
        try:
            self._look()
            self._tell_absent()
            while going_on := [group for group in self._groups if not group.over]:
                for group in going_on:
                    guarded(group, self._tasks, partial(self._fill, group))
                self._tasks.take(_LOOK_S / 4)
                if time.monotonic() - self._looked_s > _LOOK_S:
                    self._look()
        finally:
            self._close()

    def _refuse_another(self) -> None:
        ends = time.monotonic() + _GONE_S
        while others := self._connection.other_controllers():
            if time.monotonic() > ends:
                raise FleetError(
                    f"another edgebench fleet run uses this fleet ({others[0]})",
                    where=self._connection.inventory.scheduler,
                    remedy="wait until it ends, or stop it",
                )
            time.sleep(0.2)

    def _look(self) -> None:
        """Which workers are there: new ones get ready, trials of lost ones go to others."""
        there = self._connection.workers()
        # A frozen worker would never say what it is.
        answering = {one.name for one in self._connection.answering(there.values())}
        new = []
        for group in self._groups:
            for machine in group.machines:
                worker = there.get(machine.name)
                if machine.address and (worker is None or worker.address != machine.address):
                    self._lose(group, machine)
                is_new = machine.state == "absent" and machine.name in answering
                if worker and is_new and not group.over:
                    new.append((group, machine, worker))
        if new:
            self._admission.welcome(new)
        for group in self._groups:
            if not group.over and not group.of("opening", "ready", "working"):
                _end_without_machines(group, self._connection.inventory.scheduler)
        self._looked_s = time.monotonic()

    def _tell_absent(self) -> None:
        """Name the machines that the others begin without."""
        for group in self._groups:
            for machine in group.of("absent"):
                self._context.progress.tell(
                    f"{machine.name} has no worker that answers; the others begin: "
                    f"edgebench fleet up --host {machine.name}"
                )

    def _lose(self, group: MachineGroup, machine: FleetMachine) -> None:
        self._context.progress.tell(f"{machine.name} is gone; what it did is done again")
        self._tasks.take_back(group.key, lambda name: name == opening(machine))
        self._admission.lose(group, machine)
        # Trials that are shared Dask itself gives to other machines.
        if not group.of("working"):
            self._take_back(group)

    def _take_back(self, group: MachineGroup) -> None:
        """Take back the trials that are handed out; machines go on getting ready."""
        for name in self._tasks.take_back(group.key, lambda name: not is_opening(name)):
            if group.sweep:
                group.sweep.give_back(name)

    def _fill(self, group: MachineGroup) -> None:
        """Hand out trials, a few for each machine."""
        sweep, working = group.sweep, group.of("working")
        if sweep is None or not working:
            return
        orders = []
        while sweep.out < _AHEAD * len(working) and (order := sweep.next_trial()):
            orders.append({**order, "sweep": group.key})
        self._hand_out(group, orders)
        if not sweep.plan_further():
            group.over = True

    def _hand_out(self, group: MachineGroup, orders: Sequence[Mapping[str, Any]]) -> None:
        # Dask keeps statistics of what stands before the hyphen, for good.
        keyed = {
            f"trial-{order['planned']['trial']} of {group.device} {secrets.token_hex(4)}": order
            for order in orders
        }
        futures = self._connection.submit_each(make_trial, keyed, resource=group.resource)
        for order, future in zip(orders, futures, strict=True):
            trial = order["planned"]["trial"]
            made, lost = partial(self._made, group, trial), partial(self._lost, group, trial)
            self._tasks.watch((group.key, trial), future, made, lost)

    def _made(self, group: MachineGroup, trial: str, answer: Any) -> None:
        machine = next(one for one in group.machines if one.name == answer["machine"])
        assert group.sweep
        if answer.get("closed"):
            # Its service ended, or another sweep was opened there: it gets ready again.
            group.sweep.give_back(trial)
            if machine.state == "working":
                machine.state = "absent"
        elif "error" in answer:
            self._failed(group, machine, trial, answer["error"])
        elif fault := group.sweep.fault_of(trial, answer):
            self._failed(group, machine, trial, plain_error(fault))
        else:
            guarded(group, self._tasks, partial(self._keep, group, machine, trial, answer))

    def _keep(
        self, group: MachineGroup, machine: FleetMachine, trial: str, answer: Mapping[str, Any]
    ) -> None:
        assert group.sweep
        record = group.sweep.keep(trial, machine.name, answer)
        if record is None:
            return
        if group.is_failing(machine, record.outcome):
            reason = failing_reason(machine.name, MOST_ERRORS, record.reason or record.outcome)
            self._admission.leave_out(group, machine, reason)
        if record.outcome != "harness-error":
            self._context.progress.made(group, record)

    def _failed(
        self, group: MachineGroup, machine: FleetMachine, trial: str, said: Mapping[str, Any]
    ) -> None:
        """A machine could not make a trial at all: it gets no more, and another one makes it."""
        assert group.sweep
        group.sweep.give_back(trial)
        self._admission.leave_out(group, machine, told_reason(said))
        if not group.of("opening", "ready", "working"):
            group.error, group.over = told_error(machine.name, said), True

    def _lost(self, group: MachineGroup, trial: str, reason: str, final: bool) -> None:
        """A trial has no answer: it was lost on its way, or several machines with it."""
        assert group.sweep
        if final:
            self._context.progress.tell(f"trial {trial} of {group.device} is given up: {reason}")
            guarded(group, self._tasks, partial(group.sweep.give_up, trial, reason))
        else:
            group.sweep.give_back(trial)

    def _close(self) -> None:
        """End what is open on the machines, as soon as the trials that they make have ended."""
        from distributed import fire_and_forget

        for group in self._groups:
            self._take_back(group)
            if group.sweep:
                group.sweep.folder.close()
        closing = [
            self._connection.on_machine(close_sweep, machine.name, group.key)
            for group in self._groups
            for machine in group.of("ready", "working", "left-out")
            if machine.opened
        ]
        for future in closing:
            fire_and_forget(future)
        ends = time.monotonic() + _CLOSE_S
        for future in closing if all(group.over for group in self._groups) else []:
            with suppress(Exception):
                future.result(timeout=max(0.1, ends - time.monotonic()))


def _end_without_machines(group: MachineGroup, scheduler: str) -> None:
    group.over = True
    reasons = [f"{one.name}: {one.reason}" for one in group.machines if one.reason]
    if absent := [one.name for one in group.of("absent")]:
        reasons.append(f"no worker of {', '.join(absent)} is there: edgebench fleet up")
    whole = f"{group.device}: no machine can go on: " if group.options.shared else ""
    group.error = FleetError(
        whole + "; ".join(reasons),
        where=scheduler,
        remedy="correct what stands above, type: edgebench fleet up; then the same command "
        "again: what is finished is kept",
    )
