"""A sweep on a fleet: the controller orders trials of each machine, whose service makes them.

The controller's side runs in one thread. A machine that is lost is reached again for as long as the
inventory says; meanwhile the others go on.

The service is what SSH starts on a machine: ``python -m edgebench.fleet.sweep SECONDS``. It takes
orders on standard input and answers on standard output. It ends, and cleans up, when its input ends
or the controller is silent for so many seconds, also in the middle of a trial: that trial is made
again.
"""

from __future__ import annotations

import asyncio
import ctypes
import fcntl
import itertools
import os
import queue
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from msgspec.structs import replace

from edgebench.errors import (
    CgroupError,
    EdgebenchError,
    FleetError,
    ResultsError,
    UnsafePathError,
    error_words,
)
from edgebench.fleet.session import (
    BEATS,
    Answer,
    Beat,
    Failed,
    File,
    Hello,
    HostKeys,
    Inventory,
    Lacking,
    MachineLostError,
    Make,
    Open,
    Order,
    Piece,
    Ready,
    Record,
    Session,
    decode_order,
    encode,
    pieces,
    portable_tables,
    store_file,
    stored_file,
    stored_tables,
)
from edgebench.installation import find_scenario
from edgebench.processes import secure_environment
from edgebench.records import TrialRecord
from edgebench.results.folder import UNWRITABLE_REMEDY
from edgebench.run.sweep.sweep import (
    PlannedSweep,
    RecordedTrials,
    ScenarioTrials,
    needs_demand,
    open_sweep_folder,
    planned_trials,
    unknown_demand,
)
from edgebench.run.trial.command import Progress, open_trial_loop
from edgebench.run.trial.trial import TrialFiles
from edgebench.safe_files import (
    make_own_folder,
    make_private_folder,
    open_empty,
    open_file,
    remove_folder,
    state_home,
)
from edgebench.scenario.points import PlannedTrial, demand_of, planner_of, points
from edgebench.scenario.scenario import Scenario, load_scenario, scenario_of
from edgebench.version import __version__

#: After so many trials in a row that a machine could not make, or was lost in, its sweep ends.
MOST_ERRORS = 3
_MOST_RECORDS = 1000  # of one trial: a walk has one for each limit


class DeviceSweep:
    """A sweep whose trials another machine makes, in the plan's order.

    Raises:
        ResultsError: the folder can't be written, or another sweep is writing to it.
    """

    def __init__(
        self,
        sweep: PlannedSweep,
        root: Path,
        device: str,
        environment: Mapping[str, Any],
        *,
        fresh: bool = False,
    ) -> None:
        self._planner = sweep.planner
        self._points = {point.id: point for point in sweep.points}
        self.fingerprint = sweep.fingerprint
        self.folder = open_sweep_folder(sweep, root, device, lambda: dict(environment), fresh=fresh)
        strategies = sweep.scenario.strategies
        self._plan = planned_trials(self.folder.plan(), self.folder.path, self._points, strategies)
        self.trials = RecordedTrials()
        for record in self.folder.records():
            self.trials.add(record)
        self._finished = self.folder.finished_trials()
        self._left = [planned for planned in self._plan if planned.trial not in self._finished]
        self.is_complete = False

    @property
    def total(self) -> int:
        """How many trials are planned."""
        return len(self._plan)

    @property
    def done(self) -> int:
        """How many of them need not be made any more."""
        return len(self._finished & {planned.trial for planned in self._plan})

    def next_trial(self) -> tuple[PlannedTrial, Make] | None:
        """Return the next trial with its order; None once all are made, which ends the sweep.

        It stays the next one until it is kept. What could not be made is left to the next start.

        Raises:
            CgroupError: nothing shows the demand that the trial's limit is a share of.
        """
        if not self._left and self.done == self.total:
            recorded = {record.trial: record for record in self.folder.records()}
            self._left = self._planner.further(self._plan, recorded)
            if self._left:
                self._plan = [*self._plan, *self._left]
                self.folder.replan([asdict(planned) for planned in self._plan])
            else:
                self.folder.finish({"trials": self.total, "outcomes": self.trials.outcomes()})
                self.is_complete = True
        if not self._left:
            return None
        planned = self._left[0]
        point, demand = self._points[planned.point_id], 0
        if needs_demand(planned, self._points):
            demand = demand_of(point, self._points, self._plan, self.trials) or 0
            if not demand:
                raise unknown_demand(point, self.folder.path)
        records = [record.to_json() for record in self.folder.records()] if planned.walk else []
        return planned, Make(asdict(planned), demand, records)

    def file_path(self, planned: PlannedTrial, kind: str, trial: str) -> Path | None:
        """Where a file goes that a machine names so; None: the trial has no such file."""
        places: dict[str, Callable[[str], Path]] = {
            "samples": self.folder.samples_path,
            "events": self.folder.events_path,
            "logs": self.folder.log_path,
            "readings": self.folder.reading_path,
        }
        step = "(-[0-9]{2,3})?" if planned.walk else ""
        is_own = re.fullmatch(re.escape(planned.trial) + step, trial)
        return places[kind](trial) if kind in places and is_own else None

    def wrong_record(self, planned: PlannedTrial, records: list[TrialRecord]) -> str | None:
        """Return what in a machine's records is another trial's; None: nothing is."""
        point = self._points[planned.point_id]
        for number, record in enumerate(records):
            name = f"{planned.trial}-{number:02d}" if number else planned.trial
            if (record.trial, record.block, record.repeat) != (name, planned.block, planned.repeat):
                return f"a record of trial {record.trial}"
            # A walk comes to other points of its workload, and to some that it makes.
            is_own = number == 0 and (record.point, record.limits.label) == (
                point.id,
                point.limits.label,
            )
            if not is_own and not planned.walk:
                return f"a record of point {record.point} at {record.limits.label}"
            if record.walk and (record.walk.walk != planned.trial or not planned.walk):
                return f"a record of the walk {record.walk.walk}"
            numbers = _numbers(record.settings), _numbers(point.settings)
            if record.strategy != planned.strategy or numbers[0] != numbers[1]:
                return "a record of other settings"
        return None

    def keep(self, records: list[TrialRecord]) -> None:
        """Record the next trial, which is made."""
        settings = self._points[self._left.pop(0).point_id].settings
        # A machine's own paths are nobody else's.
        records = [replace(record, settings=settings) for record in records]
        self.folder.append(*records)
        for record in records:
            self.trials.add(record)
        if records[0].outcome != "harness-error":
            self._finished.add(records[0].trial)


def _numbers(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that are the same on every machine: names may be paths there."""
    kept = {key: value for key, value in settings.items() if isinstance(value, int | float)}
    return {**kept, "kind": settings.get("kind")}


@dataclass
class FleetSweep:
    """The sweep of one machine.

    ``device``: the machine's name. ``tables``: the scenario's as they are sent. ``files``: what
    these name: name → path. ``lost_after_s``: how long the machine may be silent. ``tell`` gets
    what happens. ``sweep`` is there once trials begin; ``problem`` says why it ended early.
    """

    device: str
    host: HostKeys
    scenario: Scenario
    tables: dict[str, Any]
    files: Mapping[str, Path]
    results: Path
    fresh: bool
    lost_after_s: float
    tell: Callable[[str], None]
    sweep: DeviceSweep | None = None
    problem: EdgebenchError | None = None
    errors_in_row: int = 0

    async def run(self) -> None:
        """Make trials until the sweep is complete, fails, or its machine can't go on."""
        lost_s = 0.0
        try:
            while True:
                try:
                    async with Session(self.host, self.lost_after_s, self._tell) as session:
                        await self._open(session)
                        lost_s = 0.0
                        await self._make_trials(session)
                        return
                except MachineLostError as error:
                    is_first, now = not lost_s, time.monotonic()
                    lost_s = lost_s or now
                    is_late = now - lost_s > self.lost_after_s
                    if not self.sweep or is_late or self.errors_in_row >= MOST_ERRORS:
                        raise
                    if is_first:
                        self._tell(f"lost: {error.what}; it is tried again")
                    await asyncio.sleep(self.lost_after_s / 16)
        except (FleetError, ResultsError, CgroupError, UnsafePathError) as error:
            self.problem = error
            # Remedies may have several lines, of which some are indented.
            remedy = " ".join((error.remedy or "").split())
            reason = "; ".join(filter(None, (error.what, remedy)))
            self.tell(f"{self.device} is left out: {reason}")
        finally:
            if self.sweep:
                self.sweep.folder.close()

    def _tell(self, text: str) -> None:
        self.tell(f"{self.device}: {text}")

    async def _open(self, session: Session) -> None:
        """Make the machine ready, and open the sweep's folder when it is for the first time."""
        hello = await session.expect(Hello)
        if hello.edgebench != __version__:
            remedy = f"install {__version__} there: by pip, or git pull in its clone, scripts/setup"
            what = f"edgebench {hello.edgebench} runs there, {__version__} here"
            raise FleetError(what, remedy=remedy)
        await session.send(Open(self.tables, list(self.files)))
        for name in (await session.expect(Lacking)).files:
            if name not in self.files:
                raise session.refused(f"it asks for the file {name}")
            for data in itertools.chain(pieces(self.files[name]), [b""]):
                await session.send(Piece(data))
        ready, every = await session.expect(Ready), points(self.scenario)
        planned = PlannedSweep(
            self.scenario, every, planner_of(self.scenario, every), ready.manifest
        )
        try:
            fingerprint = planned.fingerprint
        except (AttributeError, TypeError) as error:
            # A damaged manifest has none.
            raise session.refused(f"its networks: {error}") from None
        if not self.sweep:
            self.sweep = DeviceSweep(
                planned, self.results, self.device, ready.environment, fresh=self.fresh
            )
        elif self.sweep.fingerprint != fingerprint:
            raise FleetError(
                "the scenario's networks changed there during the sweep",
                remedy="the same command begins a new sweep there",
            )

    async def _make_trials(self, session: Session) -> None:
        assert self.sweep
        while order := self.sweep.next_trial():
            planned, make = order
            self.errors_in_row += 1
            await session.send(make)
            records = await self._answer(session, self.sweep, planned)
            self.sweep.keep(records)
            first = records[0]
            done = f"{self.sweep.done} of {self.sweep.total} done"
            self._tell(f"trial {first.trial} at {first.limits.label}: {first.outcome}; {done}")
            if first.outcome != "harness-error":
                self.errors_in_row = 0
            elif self.errors_in_row >= MOST_ERRORS:
                what = f"it could not make {MOST_ERRORS} trials in a row: {first.reason}"
                raise FleetError(what, remedy="edgebench doctor, there")

    async def _answer(
        self, session: Session, sweep: DeviceSweep, planned: PlannedTrial
    ) -> list[TrialRecord]:
        """Return the records of a trial, whose files are written."""
        records: list[TrialRecord] = []
        written: set[Path] = set()
        is_last = False
        while not is_last:
            answer = await session.receive()
            if isinstance(answer, File):
                path = sweep.file_path(planned, answer.kind, answer.trial)
                if not path:
                    raise session.refused(f"a file {answer.kind}/{answer.trial}")
                _write(path, answer.data, is_new=path not in written)
                written.add(path)
            elif isinstance(answer, Record) and len(records) < _MOST_RECORDS:
                is_last = answer.last
                try:
                    records.append(TrialRecord.from_json(answer.record))
                except ValueError as error:
                    raise session.refused(f"a damaged record: {error}") from None
            else:
                raise session.refused(f"{type(answer).__name__} in place of a trial")
        if wrong := sweep.wrong_record(planned, records):
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
    hosts: Sequence[str] = (),
) -> list[FleetSweep]:
    """Run a scenario on each machine (``hosts``: on these); ``tell`` gets what happens.

    Raises:
        ScenarioError: the scenario has faults.
    """
    path = find_scenario(scenario)
    loaded = load_scenario(path)
    tables, files = portable_tables(loaded.text, path.resolve().parent)
    lost_s = inventory.lost_after_s
    sweeps = [
        FleetSweep(name, host, loaded, tables, files, results, fresh, lost_s, tell)
        for name, host in inventory.hosts.items()
        if not hosts or name in hosts
    ]

    async def run_all() -> None:
        await asyncio.gather(*(sweep.run() for sweep in sweeps))

    asyncio.run(run_all())
    return sweeps


_ENDING = (signal.SIGTERM, signal.SIGHUP)
_PR_SET_DUMPABLE = 4
#: Kinds of a trial's files → what their names end in.
_KINDS = {"samples": ".npz", "events": ".jsonl.gz", "logs": ".log", "readings": ".json.gz"}


class _Controller(Progress):
    """The controller's orders; the end of the input, or silence, raises KeyboardInterrupt."""

    def __init__(self, lost_after_s: float) -> None:
        # What a library prints is no answer.
        self._answers = os.fdopen(os.dup(1), "wb")
        os.dup2(2, 1)
        self.lost_after_s = lost_after_s
        self._queue: queue.Queue[Order | None] = queue.Queue()
        self.orders: Iterator[Order] = iter(self._queue.get, None)
        self._writing, self._heard_s = threading.Lock(), time.monotonic()
        for work in (self._read, self._beat):
            threading.Thread(target=work, daemon=True).start()

    def _read(self) -> None:
        with suppress(ValueError, OSError):
            for line in sys.stdin.buffer:
                self._heard_s = time.monotonic()
                if not isinstance(order := decode_order(line), Beat):
                    self._queue.put(order)
        os.kill(os.getpid(), signal.SIGTERM)

    def _beat(self) -> None:
        while time.monotonic() - self._heard_s < self.lost_after_s:
            time.sleep(self.lost_after_s / BEATS)
            # What is being written says as much.
            if self._writing.acquire(blocking=False):
                with suppress(OSError):
                    self._write(Beat())
                self._writing.release()
        os.kill(os.getpid(), signal.SIGTERM)

    def tell(self, answer: Answer) -> None:
        """Answer."""
        with self._writing:
            self._write(answer)

    def _write(self, answer: Answer) -> None:
        self._answers.write(encode(answer))
        self._answers.flush()

    def stage(self, text: str) -> None:
        """Tell what is under way before the trials; the controller counts these itself."""
        self.tell(Beat(text))


def _serve(controller: _Controller) -> None:
    folder = state_home() / "edgebench"
    make_own_folder(folder)
    lock = open_file(folder / "fleet.lock", os.O_RDWR | os.O_CREAT, 0o600)
    controller.tell(Hello(__version__))
    opened = next(controller.orders)
    assert isinstance(opened, Open)
    busy = "another fleet run makes trials there"
    ends_s = time.monotonic() + 2 * controller.lost_after_s
    for tries in itertools.count():
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        if tries == 0:
            controller.stage(f"{busy}; waiting for its end")
        if time.monotonic() > ends_s:
            raise FleetError(busy, remedy="wait until it ends, or end what hangs there")
        time.sleep(0.2)
    lacking = [name for name in opened.files if not stored_file(name).is_file()]
    controller.tell(Lacking(lacking))
    for name in lacking:
        sent = (order.data for order in controller.orders if isinstance(order, Piece))
        store_file(name, iter(sent.__next__, b""))
    scenario = scenario_of(stored_tables(opened.tables))
    with open_trial_loop(controller, **scenario.sampler.model_dump()) as loop:
        trials = ScenarioTrials(scenario, {point.id: point for point in points(scenario)}, loop)
        trials.warm()
        controller.tell(Ready(trials.manifest, trials.environment()))
        for order in controller.orders:
            assert isinstance(order, Make)
            _make(controller, trials, order, loop.session.folder)


def _make(controller: _Controller, trials: ScenarioTrials, order: Make, work: Path) -> None:
    """Make a trial, and send its files and then its records."""
    planned, kept = PlannedTrial(**order.planned), work / "kept"
    given = [TrialRecord.from_json(data) for data in order.records]
    request = trials.request(planned, order.demand_bytes, given)
    remove_folder(kept)
    make_private_folder(kept)
    places = []
    for kind, ending in _KINDS.items():
        make_private_folder(kept / kind)
        places.append(kept / kind / f"{planned.trial}{ending}")
    samples, events, log, reading = places
    records = trials.make(request, TrialFiles(samples, events, log, work, reading))
    for path in sorted(kept.glob("*/*")):
        for data in pieces(path):
            name = path.name.partition(".")[0]
            controller.tell(File(path.parent.name, name, data))
    for record in records:
        controller.tell(Record(record.to_json(), last=record is records[-1]))


def _stop(signum: int, frame: FrameType | None) -> None:
    # Nothing interrupts the clean-up.
    for number in _ENDING:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def main() -> None:
    """Serve until the input ends."""
    secure_environment()
    # Other processes of this user, as the workload, can't open its pipes and answer in its place.
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    for number in _ENDING:
        signal.signal(number, _stop)
    with suppress(KeyboardInterrupt, BrokenPipeError):
        # Of a harness's progress it tells the stages alone.
        controller = _Controller(float(sys.argv[1]))  # type: ignore[abstract]
        try:
            _serve(controller)
        except EdgebenchError as error:
            controller.tell(Failed(error.what, error.where, error.remedy))
        except OSError as error:
            controller.tell(Failed(error_words(error)))


if __name__ == "__main__":
    main()
