"""A sweep's folder followed while it grows: its records, progress and running trial."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from edgebench.errors import ResultsError
from edgebench.records import FINAL_OUTCOMES, TrialRecord
from edgebench.results.layout import (
    COMPLETE,
    MOST_DAMAGED_LINES,
    RESOLVED,
    TRIALS,
    is_being_written,
    read_json,
    whole_lines,
)
from edgebench.results.live.trial import TrialTail
from edgebench.results.live_file import read_live_trial
from edgebench.results.sweep_reader import sweep_folders
from edgebench.results.trial_lines import NO_JSON, parse_record
from edgebench.safe_reading import open_to_read

_MOST_DAMAGED = 20


@dataclass(frozen=True)
class SweepState:
    """How a sweep stands. ``total`` is of all planned trials, None if the plan can't be read.

    As in :attr:`~edgebench.results.sweep_reader.Sweep.planned`, each further limit that a walk
    visited counts as one.

    ``done`` are those recorded with a final outcome; ``left_s`` is how long the others take if
    they take as long as those; ``fresh`` are the records that the last state had not.
    """

    path: Path
    running: bool
    complete: bool
    total: int | None
    done: int
    outcomes: dict[str, int]
    left_s: float | None
    fresh: list[TrialRecord]
    trial: TrialTail | None
    warnings: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The folder's name, which no other sweep has."""
        return self.path.name

    @property
    def device(self) -> str:
        """Whose results it is among."""
        return self.path.resolve().parent.name


class SweepTail:
    """One sweep's folder, running, complete or cut short. Files are read when they changed."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self._at = 0
        self._outcomes: dict[str, str] = {}
        self._visits: set[str] = set()
        self._took_s: list[float] = [0.0, 0.0]
        self._damaged: list[str] = []
        self._damage_count = 0
        self._plan = _Plan(self.path / RESOLVED)
        self._trial: TrialTail | None = None

    def poll(self) -> SweepState:
        """How it stands now; what is half written or damaged is a warning."""
        running = is_being_written(self.path)
        fresh = self._fresh()
        self._follow(running)
        done = sum(outcome in FINAL_OUTCOMES for outcome in self._outcomes.values())
        planned = self._plan.total()
        total = None if planned is None else planned + len(self._visits)
        under_way_s = self._trial.elapsed_s if self._trial else 0.0
        took_s, made = self._took_s
        left = None if total is None else total - done
        left_s = None if left is None else time_left_s(took_s, made, left, under_way_s)
        return SweepState(
            path=self.path,
            running=running,
            complete=(self.path / COMPLETE).exists(),
            total=total,
            done=done,
            outcomes=dict(Counter(self._outcomes.values())),
            left_s=left_s,
            fresh=fresh,
            trial=self._trial,
            warnings=[*self._damaged, *self._plan.warnings],
        )

    def _fresh(self) -> list[TrialRecord]:
        """Return the records that came since, each taken into account."""
        try:
            with open_to_read(self.path / TRIALS) as file:
                if file.seek(0, 2) < self._at:
                    # A resume cut what was torn: from the start again.
                    self._at, self._outcomes, self._took_s = 0, {}, [0.0, 0.0]
                    self._damage_count = 0
                    self._visits.clear()
                file.seek(self._at)
                # The last line may still be under the pen.
                return [one for lines in whole_lines(file) for one in self._records(lines)]
        except OSError:
            return []

    def _records(self, lines: bytes) -> Iterator[TrialRecord]:
        """Yield the records in whole lines, each taken into account."""
        self._at += len(lines)
        for line in lines.split(b"\n")[:-1]:
            if self._damage_count >= MOST_DAMAGED_LINES:
                return
            try:
                record = parse_record(line, self.path / TRIALS) if line else NO_JSON
            except ResultsError as error:
                record = error.what
            if not isinstance(record, str):
                self._take(record)
                yield record
                continue
            self._damage_count += 1
            damage = f"{TRIALS}: a damaged line is left out: {record}"
            if damage not in self._damaged and len(self._damaged) < _MOST_DAMAGED:
                self._damaged.append(damage)

    def _take(self, record: TrialRecord) -> None:
        if self._outcomes.get(record.trial) not in FINAL_OUTCOMES:
            self._outcomes[record.trial] = record.outcome
        if record.walk and record.walk.step:
            self._visits.add(record.trial)
        if record.wall_s is not None:
            self._took_s[0] += record.wall_s + (record.harness_s or 0.0)
            self._took_s[1] += 1

    def _follow(self, running: bool) -> None:
        """Follow the trial that ``live.json`` names; a killed harness leaves no folder."""
        live = read_live_trial(self.path) if running else None
        if live is None:
            self._trial = None
            return
        if self._trial is None or self._trial.live.started_ns != live.started_ns:
            self._trial = TrialTail(live)
        self._trial.poll()
        # Its samples are packed away when it has ended.
        if not self._trial.is_there():
            self._trial = None


def time_left_s(took_s: float, made: float, left: int, under_way_s: float) -> float | None:
    """Trials left times what one took on the mean; None before the first has ended.

    Args:
        took_s: what the trials ``made`` took in all, the harness's work included.
        made: how many these are.
        left: how many are not recorded yet, the one under way among them.
        under_way_s: for how long that one has run.
    """
    return max(0.0, took_s / made * left - under_way_s) if made else None


class _Plan:
    """How many trials are planned; read again when the sweep planned more."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: tuple[int, int] | None = None
        self._total: int | None = None
        self.warnings: list[str] = []

    def total(self) -> int | None:
        """None if the plan can't be read."""
        try:
            found = self._path.stat()
            stamp = (found.st_ino, found.st_mtime_ns)
        except OSError:
            stamp = (0, 0)
        if stamp != self._stamp:
            self._stamp, self._total, self.warnings = stamp, None, []
            try:
                plan = read_json(self._path).get("plan")
                self._total = len(plan) if isinstance(plan, list) else None
            except ResultsError as error:
                self.warnings = [error.what]
        return self._total


def sweeps_below(root: Path) -> list[Path]:
    """Every sweep's folder at or below a path, oldest first; none where there are no results."""
    try:
        return sweep_folders(root)
    except ResultsError:
        return []


def newest_running(root: Path) -> Path | None:
    """Return the newest sweep that runs now."""
    open_ones = (path for path in reversed(sweeps_below(root)) if not (path / COMPLETE).exists())
    return next((path for path in open_ones if is_being_written(path)), None)
