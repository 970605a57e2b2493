"""A scenario on a fleet: each machine takes trials from a sweep whenever it is free.

Everything here happens in one thread. A machine that is lost is reached again for as long as the
inventory says; meanwhile its trial goes to the next machine that is free.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from edgebench.errors import CgroupError, EdgebenchError, FleetError, ResultsError, UnsafePathError
from edgebench.fleet import messages
from edgebench.fleet.device_sweep import DeviceSweep, ProbeTimes, probe_points, unequal_machines
from edgebench.fleet.messages import pieces, portable_tables
from edgebench.fleet.session import HostKeys, Inventory, MachineLostError, Session
from edgebench.records import TrialRecord
from edgebench.results.folder import UNWRITABLE_REMEDY
from edgebench.run.sweep.sweep import PlannedSweep
from edgebench.safe_files import open_empty, open_file
from edgebench.scenario.planner import planner_of
from edgebench.scenario.points import PlannedTrial, points
from edgebench.scenario.scenario import Scenario, load_scenario
from edgebench.shipped_files import find_scenario
from edgebench.version import __version__

PROBES = 3
#: So many trials in a row that a machine could not make, or was lost in, and it gets no more.
MOST_ERRORS = 3
_MOST_RECORDS = 1000  # of one trial: a walk has one for each limit
_LOOK_S = 0.3  # how often a machine that waits looks for a trial


@dataclass
class FleetMachine:
    """A machine in one run.

    ``state``: ``opening`` while it gets ready, also again; ``ready`` while it waits for the others;
    ``working``; ``left out``, for ``reason``. ``planned`` is the sweep with its own networks.
    """

    name: str
    host: HostKeys
    state: str = "opening"
    reason: str = ""
    identity: str = ""
    environment: Mapping[str, Any] = field(default_factory=dict)
    planned: PlannedSweep | None = None
    probes: ProbeTimes = field(default_factory=dict)
    errors_in_row: int = 0


@dataclass
class FleetSweep:
    """One sweep, and the machines that make its trials.

    ``machines``: one, or several that share the sweep (``shared``) if they are equal. ``tables``:
    the scenario's as they are sent. ``files``: what these name: name → path. ``lost_after_s``: how
    long a machine may be silent. ``tell`` gets what happens. ``sweep`` is there once trials begin;
    ``problem`` says why they did not, or ended.
    """

    device: str
    machines: Sequence[FleetMachine]
    shared: bool
    scenario: Scenario
    tables: dict[str, Any]
    files: Mapping[str, Path]
    results: Path
    fresh: bool
    lost_after_s: float
    tell: Callable[[str], None]
    sweep: DeviceSweep | None = None
    problem: EdgebenchError | None = None
    is_over: bool = False

    async def run(self) -> None:
        """Until the sweep is complete, or failed, or has no machine left."""
        working = [asyncio.ensure_future(self._serve(machine)) for machine in self.machines]
        try:
            await asyncio.gather(*working)
        except (ResultsError, CgroupError, UnsafePathError) as error:
            self.problem = error
            self.tell(f"{self.device} ends: {error.what}")
        finally:
            for one in working:
                one.cancel()
            await asyncio.gather(*working, return_exceptions=True)
            if self.sweep:
                self.sweep.folder.close()
        if not self.is_over and not self.problem:
            names = ", ".join(one.name for one in self.machines)
            remedy = "correct what stands above; then the same command: what is finished is kept"
            self.problem = FleetError(f"no machine can go on: {names}", remedy=remedy)

    async def _serve(self, machine: FleetMachine) -> None:
        """Let a machine make trials, until there is none left or it takes no part any more."""
        lost_s = 0.0

        def tell(text: str) -> None:
            self.tell(f"{machine.name}: {text}")

        while not self.is_over:
            try:
                async with Session(machine.host, self.lost_after_s, tell) as session:
                    await self._open(session, machine)
                    lost_s = 0.0
                    await self._make_trials(session, machine)
                    return
            except FleetError as error:
                now = time.monotonic()
                lost_s = lost_s or now
                is_lost = isinstance(error, MachineLostError) and machine.planned
                is_given_up = (
                    machine.errors_in_row >= MOST_ERRORS or now - lost_s > self.lost_after_s
                )
                if not is_lost or is_given_up:
                    # Remedies may have several lines, of which some are indented.
                    remedy = " ".join((error.remedy or "").split())
                    self._leave_out(machine, "; ".join(filter(None, (error.what, remedy))))
                    return
                if machine.state != "opening":
                    tell(f"lost: {error.what}; it is tried again")
                machine.state = "opening"
                await asyncio.sleep(self.lost_after_s / 16)

    async def _open(self, session: Session, machine: FleetMachine) -> None:
        """Make a machine ready for the sweep."""
        hello, python = await session.expect(messages.Hello), platform.python_version()
        machine.identity = hello.machine
        same = [one.name for one in self.machines if one.identity == hello.machine]
        if len(same) > 1:
            raise FleetError(f"{' and '.join(same)} are the same machine; remove one of them")
        if hello.edgebench != __version__:
            remedy = f"install {__version__} there: by pip, or git pull in its clone, scripts/setup"
            what = f"edgebench {hello.edgebench} runs there, {__version__} here"
            raise FleetError(what, remedy=remedy)
        if self.shared and hello.python.split(".")[:2] != python.split(".")[:2]:
            remedy = "trials are shared among equal versions only: name another one, python = …"
            raise FleetError(f"Python {hello.python} runs there, {python} here", remedy=remedy)
        await session.send(messages.Open(self.tables, list(self.files)))
        for name in (await session.expect(messages.Lacking)).files:
            if name not in self.files:
                raise session.refused(f"it asks for the file {name}")
            for data in itertools.chain(pieces(self.files[name]), [b""]):
                await session.send(messages.Piece(data))
        ready, every = await session.expect(messages.Ready), points(self.scenario)
        planner = planner_of(self.scenario, every)
        machine.planned = PlannedSweep(self.scenario, every, planner, ready.manifest)
        machine.environment = ready.environment
        try:
            # A damaged manifest has none.
            _ = machine.planned.fingerprint
        except (AttributeError, TypeError) as error:
            raise session.refused(f"its networks: {error}") from None
        if self.shared and not machine.probes:
            machine.probes = await self._probe(session)
        machine.state = "ready"
        self._begin()

    async def _probe(self, session: Session) -> dict[str, list[float]]:
        """How long the same trials take on a machine: the label of a limit → seconds."""
        # The first of them is unlimited and shows the demand that the other is a share of.
        times: dict[str, list[float]] = {}
        demand = 0
        for point in probe_points(points(self.scenario)) * PROBES:
            planned = PlannedTrial("probe", point.id, 0, 0)
            await session.send(messages.Make(asdict(planned), demand))
            record = (await self._answer(session, planned))[0]
            demand = demand or record.demand_bytes or 0
            own = times.setdefault(point.limits.label, [])
            if record.outcome == "ok" and record.wall_s:
                own.append(record.wall_s)
        return times

    def _begin(self) -> None:
        """Once all machines that are there are known, those that are equal begin."""
        ready = [one for one in self.machines if one.state == "ready"]
        working = [one for one in self.machines if one.state == "working"]
        if not ready or (not self.sweep and any(one.state == "opening" for one in self.machines)):
            return
        probes = {one.name: one.probes for one in [*working[:1], *ready]}
        reasons = unequal_machines(probes, working[0].name if working else None)
        known = {one.name: dict(one.environment) for one in ready}
        for machine in ready:
            assert machine.planned
            if machine.name in reasons:
                self._leave_out(machine, reasons[machine.name])
            elif self.sweep and machine.planned.fingerprint != self.sweep.fingerprint:
                what = "the scenario's networks are others there than on the machines that began"
                self._leave_out(machine, f"{what}; install the same versions of their libraries")
            else:
                machine.state = "working"
                if not self.sweep:
                    times = {one.name: dict(one.probes) for one in self.machines if one.probes}
                    planned = replace(machine.planned, machines=times)
                    own = {**machine.environment, **({"fleet": known} if self.shared else {})}
                    self.sweep = DeviceSweep(
                        planned, self.results, self.device, own, fresh=self.fresh
                    )

    def _leave_out(self, machine: FleetMachine, reason: str) -> None:
        machine.state, machine.reason = "left out", reason
        self.tell(f"{machine.name} is left out: {reason}")
        self._begin()

    async def _make_trials(self, session: Session, machine: FleetMachine) -> None:
        """Let a machine make trials for as long as there are some, and it takes part."""
        while not self.is_over and machine.state != "left out":
            sweep = self.sweep if machine.state == "working" else None
            if not sweep or not (order := sweep.next_trial()):
                self.is_over = bool(sweep and not sweep.plan_further())
                # Others are not ready yet, or make what the next trial depends on.
                await asyncio.sleep(_LOOK_S)
                continue
            planned, make = order
            machine.errors_in_row += 1
            try:
                await session.send(make)
                records = await self._answer(session, planned, sweep)
            except FleetError as error:
                sweep.give_back(planned, is_lost=isinstance(error, MachineLostError))
                raise
            sweep.keep(planned, machine.name, records)
            first = records[0]
            limit, done = first.limits.label, f"{sweep.done} of {sweep.total} done"
            self.tell(f"{machine.name}: trial {first.trial} at {limit}: {first.outcome}; {done}")
            if first.outcome != "harness-error":
                machine.errors_in_row = 0
            elif machine.errors_in_row >= MOST_ERRORS:
                what = f"it could not make {MOST_ERRORS} trials in a row: {first.reason}"
                raise FleetError(what, remedy="edgebench doctor, there")

    async def _answer(
        self, session: Session, planned: PlannedTrial, sweep: DeviceSweep | None = None
    ) -> list[TrialRecord]:
        """Return the records of a trial, whose files are written.

        Without a sweep these are dropped.
        """
        records: list[TrialRecord] = []
        written: set[Path] = set()
        is_last = False
        while not is_last:
            answer = await session.receive()
            if isinstance(answer, messages.File):
                path = sweep and sweep.file_path(planned, answer.kind, answer.trial)
                if sweep and not path:
                    raise session.refused(f"a file {answer.kind}/{answer.trial}")
                if path:
                    _write(path, answer.data, is_new=path not in written)
                    written.add(path)
            elif isinstance(answer, messages.Record) and len(records) < _MOST_RECORDS:
                is_last = answer.last
                try:
                    records.append(TrialRecord.from_json(answer.record))
                except ValueError as error:
                    raise session.refused(f"a damaged record: {error}") from None
            else:
                raise session.refused(f"{type(answer).__name__} in place of a trial")
        if sweep and (wrong := sweep.wrong_record(planned, records)):
            raise session.refused(wrong)
        return records


def _write(path: Path, data: bytes, *, is_new: bool) -> None:
    """Write the next piece of a trial's file."""
    try:
        fd = open_empty(path) if is_new else open_file(path, os.O_WRONLY | os.O_APPEND)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
    except OSError as error:
        what = f"can't write results: {error.strerror}"
        raise ResultsError(what, where=str(path), remedy=UNWRITABLE_REMEDY) from error


def run_on_fleet(
    scenario: str,
    inventory: Inventory,
    results: Path,
    tell: Callable[[str], None],
    *,
    fresh: bool = False,
    shared: str | None = None,
    hosts: Sequence[str] = (),
) -> list[FleetSweep]:
    """Run a scenario on each machine (``hosts``: on these), or share its trials among them.

    ``shared`` is the name of the one sweep; without, each machine has a sweep of its own name.
    ``tell`` gets what happens. Raises ScenarioError if the scenario has faults.
    """
    path = find_scenario(scenario)
    loaded = load_scenario(path)
    tables, files = portable_tables(loaded.text, path.resolve().parent)
    every = [FleetMachine(n, h) for n, h in inventory.hosts.items() if not hosts or n in hosts]
    named = {shared: every} if shared else {one.name: [one] for one in every}
    lost_s = inventory.lost_after_s
    sweeps = [
        FleetSweep(name, own, bool(shared), loaded, tables, files, results, fresh, lost_s, tell)
        for name, own in named.items()
    ]

    async def run_all() -> None:
        await asyncio.gather(*(one.run() for one in sweeps))

    asyncio.run(run_all())
    return sweeps
