"""The recorded trials of a sweep that goes on, and a finished sweep that answers the same question.

Of each trial a few values are in memory; whole records come from the disk.
"""

from __future__ import annotations

import contextlib
import itertools
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import structs

from edgebench.errors import ResultsError
from edgebench.measures.machine.noise import spread_doubts
from edgebench.processes import find_program
from edgebench.records import Doubt, Outcome, TrialRecord
from edgebench.results.folder import find_sweep
from edgebench.results.layout import ENVIRONMENT
from edgebench.results.sweep_reader import read_sweep
from edgebench.results.workload_key import workload_label
from edgebench.safe_folders import real_path, walk
from edgebench.scenario.points import Point


class RecordedTrial(NamedTuple):
    """What is kept of one trial.

    ``reason`` says why its strategy has no reading, ``broken`` which limits did not hold for it.
    """

    point: str
    outcome: Outcome
    wall_s: float | None
    demand_bytes: int | None
    strategy: str | None
    reason: str | None
    broken: list[Doubt]


class RecordedTrials(Mapping[str, RecordedTrial]):
    """Trial → what is kept of it: little, since there may be very many."""

    def __init__(self) -> None:
        self._trials: dict[str, RecordedTrial] = {}

    def __getitem__(self, trial: str) -> RecordedTrial:
        return self._trials[trial]

    def __iter__(self) -> Iterator[str]:
        return iter(self._trials)

    def __len__(self) -> int:
        return len(self._trials)

    def add(self, record: TrialRecord) -> None:
        """Keep what is needed of a record that is on the disk."""
        reason = record.missing.get("reading") or record.reason if record.strategy else None
        if record.walk and record.walk.step and record.outcome == "ok":
            # One trial is one line of the summary, however many limits it visited.
            return
        # How long a walk took says nothing of repeats.
        wall_s = None if record.walk else record.wall_s
        kept = (record.point, record.outcome, wall_s, record.demand_bytes, record.strategy)
        self._trials[record.trial] = RecordedTrial(*kept, reason, record.broken_limits)

    def timed(self) -> list[RecordedTrial]:
        """Those that are no strategy's own."""
        return [one for one in self._trials.values() if one.strategy is None]

    def outcomes(self) -> dict[str, int]:
        """Outcome → how many timed trials ended so."""
        return dict(Counter(one.outcome for one in self.timed()))

    def doubts(self, points: Iterable[Point]) -> list[Doubt]:
        """Repeats that differ much, limits that did not hold, strategies without a reading."""
        times: dict[str, list[float]] = {}
        for one in self.timed():
            if one.outcome == "ok" and one.wall_s is not None:
                times.setdefault(one.point, []).append(one.wall_s)
        spread = [
            structs.replace(
                doubt, workload=workload_label(point.settings), limit=point.limits.label
            )
            for point in points
            for doubt in spread_doubts(times.get(point.id, []))
        ]
        broken = [structs.replace(d, trial=name) for name, one in self.items() for d in one.broken]
        reasons = [(one.strategy, one.reason) for one in self._trials.values() if one.strategy]
        lacking = [
            Doubt("no_reading", names=[name, why]) for name, why in dict.fromkeys(reasons) if why
        ]
        return [*spread, *broken, *lacking]


class StoredRecords(Mapping[str, TrialRecord]):
    """Trial → record, read from the disk only when a planner looks at one."""

    def __init__(self, read: Callable[[], Sequence[TrialRecord]]) -> None:
        self._read = read

    @cached_property
    def _records(self) -> dict[str, TrialRecord]:
        return {record.trial: record for record in self._read()}

    def __getitem__(self, trial: str) -> TrialRecord:
        return self._records[trial]

    def __iter__(self) -> Iterator[str]:
        return iter(self._records)

    def __len__(self) -> int:
        return len(self._records)


#: After a day the machine is another one. In a folder with more files than this, only so many are
#: looked at.
_DAY_S, _MOST_FILES = 24 * 3600.0, 5_000


def finished_sweep(
    root: Path, device: str, fingerprint: str, points: Sequence[Point]
) -> tuple[Path, list[TrialRecord]] | None:
    """Return the newest finished sweep of that meaning, if what it ran did not change since.

    An unfinished sweep that is newer comes first: it is continued instead. None: there is no such
    sweep, or it is a day old.
    """
    found = find_sweep(root, device, fingerprint, finished=True)
    unfinished = find_sweep(root, device, fingerprint)
    if found is None or (unfinished and unfinished.name > found.name):
        return None
    with contextlib.suppress(OSError, ResultsError):
        began_s = (found / ENVIRONMENT).stat().st_mtime
        is_old = time.time() - began_s > _DAY_S
        if not is_old and not _is_changed(points[0].settings, real_path(root), began_s):
            return found, list(read_sweep(found).records)
    return None


def _is_changed(settings: Mapping[str, Any], results: Path, began_s: float) -> bool:
    """Whether a file of a program is newer; a network's content is in the sweep's meaning."""
    if settings["kind"] != "command":
        return False
    folder = Path(settings.get("cwd") or Path.cwd())
    named = [*map(str, settings["command"]), *settings.get("files", ())]
    named += [one for one in (find_program(named[0]), settings.get("stdin")) if one]
    paths = itertools.chain((folder / one for one in named), _files_below(folder, results))
    return any(_changed_s(path) > began_s for path in paths)


def _files_below(folder: Path, results: Path) -> Iterator[Path]:
    """Files of the program's folder, as its modules, but for results."""
    found = (
        top / name
        for top, names in walk(folder)
        if not real_path(top).is_relative_to(results)
        for name in names
    )
    return itertools.islice(found, _MOST_FILES)


def _changed_s(path: Path) -> float:
    # No file, no right to see it, or a name that is too long.
    with contextlib.suppress(OSError, ValueError):
        seen = path.stat()
        if stat.S_ISREG(seen.st_mode):
            return seen.st_mtime
    return 0.0
