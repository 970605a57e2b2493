"""A process that makes a scenario's trials on this machine, one for each line that it reads.

It gets an order as a line of JSON on standard input and answers with a line on standard output. It
is edgebench's own harness; its session lasts as long as the sweep; the Dask worker that starts it
forks no trial itself. It ends, and cleans up, when its input ends, also in the middle of a trial:
then the worker was killed.

The first order opens the session (``tables``, the scenario's). Each later one is a trial
(``planned``, ``demand_bytes``, and ``records`` that a walk goes by), or a ``probe``, whose files
are not kept.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

from edgebench.errors import EdgebenchError, FleetError
from edgebench.fleet.messages import plain_error
from edgebench.processes import secure_environment
from edgebench.records import LimitSetting, TrialRecord
from edgebench.run.scenario_trials import ScenarioTrials
from edgebench.run.trial import TrialFiles
from edgebench.run.trial_loop import open_trial_loop
from edgebench.run.trial_record import TrialRequest
from edgebench.safe_files import make_private_folder, remove_folder
from edgebench.scenario.points import PlannedTrial, points
from edgebench.scenario.scenario import scenario_of

#: Nobody asked for a trial for so long: the controller doesn't come back.
_IDLE_S = 900.0
#: Kinds of a trial's files → what their names end in.
_SUFFIXES = {
    "samples": ".npz",
    "events": ".jsonl.gz",
    "logs": ".log",
    "readings": ".json.gz",
}


class _Silent:
    """Progress that nobody looks at."""

    def stage(self, text: str) -> None:
        """Nothing."""

    def begin(self, folder: Path, total: int, done: int) -> None:
        """Nothing."""

    def trial(self, request: TrialRequest) -> None:
        """Nothing."""

    def moved(self, limits: LimitSetting) -> None:
        """Nothing."""

    def finished(self, record: TrialRecord) -> None:
        """Nothing."""

    def planned(self, total: int) -> None:
        """Nothing."""


class _Orders:
    """Orders from standard input; its end stops a trial that is under way."""

    def __init__(self, lines: TextIO) -> None:
        self._queue: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._lock = threading.Lock()
        self._busy = self._ended = False
        threading.Thread(target=self._read, args=(lines,), daemon=True).start()

    def _read(self, lines: TextIO) -> None:
        with suppress(ValueError, OSError):
            for line in lines:
                self._queue.put(json.loads(line))
        with self._lock:
            self._ended = True
            if self._busy:
                os.kill(os.getpid(), signal.SIGTERM)
        self._queue.put(None)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Each order; while it is carried out, the end of the input raises KeyboardInterrupt."""
        with suppress(queue.Empty):
            while (order := self._queue.get(timeout=_IDLE_S)) is not None:
                with self._lock:
                    if self._ended:
                        return
                    self._busy = True
                yield order
                with self._lock:
                    self._busy = False


class _Service:
    """One scenario's trials, and where their files lie until they are fetched."""

    def __init__(self, trials: ScenarioTrials, folder: Path) -> None:
        self._trials = trials
        self._work, self._kept = folder, folder / "kept"
        self._warm = False

    def opened(self) -> dict[str, Any]:
        """What the controller has to know of this machine."""
        return {"manifest": self._trials.manifest, "environment": self._trials.environment()}

    def made(self, order: dict[str, Any]) -> dict[str, Any]:
        """A trial's records, and the paths of its files: ``kind/name`` → path."""
        if not self._warm:
            self._trials.warm()
            self._warm = True
        planned = PlannedTrial(**order["planned"])
        records = [TrialRecord.from_json(data) for data in order.get("records", ())]
        request = self._trials.request(planned, order.get("demand_bytes") or 0, records)
        if order.get("probe"):
            made = self._trials.make(request, TrialFiles.scratch(self._work))
            return {"records": [one.to_json() for one in made], "files": {}}
        remove_folder(self._kept)
        made = self._trials.make(request, self._files(planned.trial))
        found = sorted(path for path in self._kept.glob("*/*") if path.is_file())
        files = {str(path.relative_to(self._kept)): str(path) for path in found}
        return {"records": [one.to_json() for one in made], "files": files}

    def _files(self, trial: str) -> TrialFiles:
        make_private_folder(self._kept)
        places = {}
        for kind, suffix in _SUFFIXES.items():
            make_private_folder(self._kept / kind)
            places[kind] = self._kept / kind / f"{trial}{suffix}"
        return TrialFiles(
            samples=places["samples"],
            events=places["events"],
            log=places["logs"],
            work=self._work,
            reading=places["readings"],
        )


def _serve(orders: Iterator[dict[str, Any]], answers: TextIO) -> None:
    first = next(orders, None)
    if first is None:
        return
    with _told(answers):
        scenario = scenario_of(first["tables"])
        with open_trial_loop(_Silent(), **scenario.sampler.model_dump()) as loop:
            every = {point.id: point for point in points(scenario)}
            trials = ScenarioTrials(scenario, every, loop)
            service = _Service(trials, loop.session.folder)
            _tell(answers, service.opened())
            for order in orders:
                with _told(answers):
                    _tell(answers, service.made(order))


@contextmanager
def _told(answers: TextIO) -> Iterator[None]:
    """Tells the controller of an error, which ends what it asked for."""
    try:
        yield
    except EdgebenchError as error:
        _tell(answers, {"error": plain_error(error)})
    except OSError as error:
        where = str(error.filename) if error.filename else None
        said = FleetError(str(error.strerror or error), where=where, remedy="edgebench doctor")
        _tell(answers, {"error": plain_error(said)})


def _tell(answers: TextIO, answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


def _stop(signum: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main() -> None:
    """Serve until the input ends."""
    secure_environment()
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _stop)
    # What a library prints is no answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    with suppress(KeyboardInterrupt, BrokenPipeError):
        _serve(iter(_Orders(sys.stdin)), answers)


if __name__ == "__main__":
    main()
