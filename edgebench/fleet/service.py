"""What the controller starts on a machine through SSH: it makes a scenario's trials.

It takes orders on standard input and answers on standard output
(:mod:`edgebench.fleet.messages`). It ends, and cleans up, when its input ends or the controller is
silent for too long, also in the middle of a trial: that trial is made again. Its one word is how
many seconds are too long.
"""

from __future__ import annotations

import ctypes
import fcntl
import itertools
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import FrameType

from edgebench.errors import EdgebenchError, FleetError, error_words
from edgebench.fleet.messages import (
    BEATS,
    Answer,
    Beat,
    Failed,
    File,
    Hello,
    Lacking,
    Make,
    Open,
    Order,
    Piece,
    Ready,
    Record,
    decode_order,
    encode,
    pieces,
    store_file,
    stored_file,
    stored_tables,
)
from edgebench.processes import secure_environment
from edgebench.records import TrialRecord
from edgebench.run.sweep.trials import Progress, ScenarioTrials, open_trial_loop
from edgebench.run.trial.trial import TrialFiles
from edgebench.safe_files import make_own_folder, make_private_folder, open_file, remove_folder
from edgebench.safe_folders import state_home
from edgebench.scenario.points import PlannedTrial, points
from edgebench.scenario.scenario import scenario_of
from edgebench.version import __version__

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
        trials = ScenarioTrials(scenario, {one.id: one for one in points(scenario)}, loop)
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
