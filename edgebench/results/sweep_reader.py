"""One sweep's folder read back, whole or torn, complete or still being written.

Nothing here needs pandas. What is damaged is left out and said in the sweep's warnings; only what
a newer version wrote is refused.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from edgebench.errors import ResultsError
from edgebench.measures.strategies import Reading
from edgebench.records import UP, TrialRecord
from edgebench.results.columns import ColumnTable, columns_of
from edgebench.results.layout import (
    COMPLETE,
    ENVIRONMENT,
    EVENTS,
    LOGS,
    NETWORKS,
    PACKED_TRIALS,
    READINGS,
    RESOLVED,
    SAMPLES,
    SCENARIO,
    TRIALS,
    NewerResultsError,
    is_being_written,
    most_values_in,
    parse_objects,
    read_json,
    read_records,
    trials_file,
)
from edgebench.safe_files import open_to_read, read_end, read_text
from edgebench.text import format_size, printable

Found = TypeVar("Found")
NO_RESULTS_REMEDY = "make some: edgebench run quickstart"
#: A little more than a trial's events may come to.
_MOST_BYTES, _MOST_VALUES = 144 << 20, 7_000_000
_TRIAL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
#: How much of a trial's log is read.
_END_BYTES = 4096


class TrialFileError(ResultsError):
    """A file of one trial is missing or damaged; ``fault`` says so without the trial's name."""

    fault = ""

    @classmethod
    def of(cls, fault: str, trial: str, file: Path) -> TrialFileError:
        """Return the error of this trial's file."""
        error = cls(f"trial {trial}: {fault}", where=str(file))
        error.fault = fault
        return error


def events_of(sweep: Sweep, record: TrialRecord) -> list[dict[str, Any]]:
    """Return the trial's events, for :func:`read_each`."""
    return sweep.events(record.trial)


def read_each(
    frame: str,
    trials: Iterable[tuple[Sweep, TrialRecord]],
    read: Callable[[Sweep, TrialRecord], Found],
    warnings: list[str],
) -> Iterator[tuple[Sweep, TrialRecord, Found]]:
    """Yield what ``read`` gives of each trial; each fault for which it can't is one warning."""
    lost: dict[str, list[tuple[str, str | None]]] = {}
    for sweep, record in trials:
        try:
            found = read(sweep, record)
        except ResultsError as error:
            fault = error.fault if isinstance(error, TrialFileError) else error.what
            lost.setdefault(fault, []).append((record.trial, error.where))
            continue
        yield sweep, record, found
    for fault, ((trial, where), *others) in lost.items():
        names = f"trials {trial} and {len(others)} more" if others else f"trial {trial}"
        warnings.append(f"{frame}: {fault}: {names}" + (f" ({where})" if where else ""))


@dataclass(frozen=True)
class Sweep:
    """What one results folder holds, but for its big tables.

    ``complete`` is the completion mark, None while the sweep is not through. ``running``: a sweep
    was writing to it when it was read. ``records`` are the timed trials; those that strategies of
    telling memory have to themselves are ``strategy_records``, and what walks measured on their
    way up, where the way down left its traces, is ``upward_records``.
    """

    path: Path
    device: str
    records: Sequence[TrialRecord]
    resolved: dict[str, Any]
    environment: dict[str, Any]
    networks: dict[str, Any]
    scenario_text: str
    complete: dict[str, Any] | None
    running: bool
    warnings: list[str] = field(default_factory=list)
    strategy_records: Sequence[TrialRecord] = ()
    upward_records: Sequence[TrialRecord] = ()

    @property
    def name(self) -> str:
        """The folder's name, which no other sweep has."""
        return self.path.name

    @cached_property
    def columns(self) -> ColumnTable:
        """The timed trials' columns, in the order of ``records``."""
        return columns_of(self.records)

    @property
    def planned(self) -> int | None:
        """How many timed trials the sweep has in all; None if its plan can't be read.

        Each further limit that a walk visited counts as one.
        """
        plan = self.resolved.get("plan")
        steps = sum(step > 0 for step in self.columns.numbers.get("walk_step", ()))
        return len(timed_in(plan)) + steps if isinstance(plan, list) else None

    def events(self, trial: str) -> list[dict[str, Any]]:
        """Return the worker's events of one trial; lines torn by a kill are left out.

        Raises:
            ResultsError: no such file, or a damaged one.
        """
        return parse_objects(
            self._unzipped(trial, f"{EVENTS}/{_checked(trial)}.jsonl.gz", "events")
        )

    def reading(self, trial: str) -> Reading:
        """Return what the strategy saw whose own trial this is.

        Raises:
            ResultsError: it left no figures, or they are damaged.
        """
        name, what = f"{READINGS}/{_checked(trial)}.json.gz", "figures of a strategy"
        try:
            return Reading.from_json(json.loads(self._unzipped(trial, name, what)))
        except (ValueError, KeyError, TypeError) as error:
            raise TrialFileError.of(f"damaged {what}: {error}", trial, self.path / name) from None

    def _unzipped(self, trial: str, name: str, what: str) -> bytes:
        path = self.path / name
        try:
            # A few bytes may stand for more than any memory holds.
            with open_to_read(path) as packed, gzip.open(packed) as file:
                data = file.read(_MOST_BYTES + 1)
            if len(data) > _MOST_BYTES:
                raise ValueError(f"it unpacks to more than {format_size(_MOST_BYTES)}")
            if most_values_in(data) > _MOST_VALUES:
                raise ValueError(f"it holds more than {_MOST_VALUES:,} values")
            return data
        except FileNotFoundError:
            raise TrialFileError.of(f"no {what}", trial, path) from None
        except (OSError, EOFError, ValueError, zlib.error) as error:
            raise TrialFileError.of(f"damaged {what}: {error}", trial, path) from None

    def samples_file(self, trial: str) -> Path:
        """Where the sampler's tables of one trial lie.

        Raises:
            ResultsError: there are none.
        """
        path = self.path / SAMPLES / f"{_checked(trial)}.npz"
        if not path.is_file():
            raise TrialFileError.of("no samples", trial, path)
        return path


def read_sweep(path: Path) -> Sweep:
    """Read one results folder.

    Raises:
        ResultsError: no results folder, or one that a newer version wrote.
    """
    path = Path(path)
    if (file := trials_file(path)) is None:
        raise ResultsError("no results here", where=str(path), remedy=NO_RESULTS_REMEDY)
    # Asked first: a sweep that ends meanwhile then shows as complete rather than as cut short.
    running = is_being_written(path)
    warnings: list[str] = []
    resolved = _without(_read_or_warn(path / RESOLVED, warnings), "scenario")
    environment = _without(_read_or_warn(path / ENVIRONMENT, warnings), "git")
    networks = _read_or_warn(path / NETWORKS, warnings) if (path / NETWORKS).exists() else {}
    networks = _without_damage(networks, warnings)
    complete = _read_or_warn(path / COMPLETE, warnings) if (path / COMPLETE).exists() else None
    records = read_records(file, warnings)
    timed = [record for record in records if record.strategy is None]
    scenario_text = ""
    try:
        scenario_text = read_text(path / SCENARIO, errors="replace")
    except OSError as error:
        warnings.append(f"can't read {SCENARIO}: {error.strerror}")
    return Sweep(
        path=path,
        device=path.resolve().parent.name,
        records=[record for record in timed if record.direction != UP],
        resolved=resolved,
        environment=environment,
        networks=networks,
        scenario_text=scenario_text,
        complete=complete,
        running=running,
        warnings=warnings,
        strategy_records=[record for record in records if record.strategy is not None],
        upward_records=[record for record in timed if record.direction == UP],
    )


class _Network(msgspec.Struct):
    """What is read of a network in ``networks.json``."""

    table: list[dict[str, Any]]


def _without_damage(data: dict[str, Any], warnings: list[str]) -> dict[str, Any]:
    """Return the networks' file without those whose sizes or layers can't be."""
    given = data.get("networks")
    kept = {}
    for name, network in given.items() if isinstance(given, dict) else ():
        try:
            msgspec.convert(network, _Network)
            kept[name] = network
        except msgspec.ValidationError as error:
            warnings.append(f"{NETWORKS}: {printable(name)} is damaged and is left out: {error}")
    return {**data, "networks": kept} if data else {}


def timed_in(plan: object) -> list[dict[str, Any]]:
    """Return the timed trials of a plan as ``resolved.json`` keeps it."""
    trials = plan if isinstance(plan, list) else []
    return [trial for trial in trials if isinstance(trial, dict) and trial.get("strategy") is None]


def sweep_folders(path: Path) -> list[Path]:
    """Return the results folders at or below a path (a sweep, a device, a root), oldest first.

    Raises:
        ResultsError: none there.
    """
    path = Path(path)
    if trials_file(path):
        return [path]
    names = [f"{depth}/{name}" for depth in ("*", "*/*") for name in (TRIALS, PACKED_TRIALS)]
    folders = {file.parent for name in names for file in path.glob(name)}
    shown = [folder for folder in folders if not folder.name.startswith(".")]
    if not shown:
        what = "no results here" if path.exists() else "no such folder"
        raise ResultsError(what, where=str(path), remedy=NO_RESULTS_REMEDY)
    # Names begin with the time the sweep began.
    return sorted(shown, key=lambda folder: folder.name)


def _checked(trial: str) -> str:
    if not _TRIAL.fullmatch(trial):
        raise ResultsError(f"{trial!r} is no trial's id")
    return trial


def _without(data: dict[str, Any], key: str) -> dict[str, Any]:
    """Return the data, without this part of it if it is no object."""
    return data if isinstance(data.get(key), dict) else {k: v for k, v in data.items() if k != key}


def _read_or_warn(path: Path, warnings: list[str]) -> dict[str, Any]:
    try:
        return read_json(path)
    except NewerResultsError:
        raise
    except ResultsError as error:
        warnings.append(error.what)
        return {}


def log_of(sweep: Path, trial: str) -> Path:
    """Return the trial's log, in the sweep's folder."""
    return sweep / LOGS / f"{trial}.log"


def end_of_output(sweep: Path, trial: str) -> str:
    """Return the end of the trial's output, safe to print; empty if it can't be read."""
    try:
        return printable(read_end(log_of(sweep, trial), _END_BYTES).decode(errors="replace"))
    except OSError:
        return ""


def reads_statistics(sweep: Sweep) -> bool:
    """Whether memory.stat was read in a timed trial below a limit, which may prevent its kill."""
    numbers = sweep.columns.numbers
    both = zip(numbers.get("limit_bytes", ()), numbers.get("watched_flushes", ()), strict=False)
    return any(limit == limit and flushes == 1 for limit, flushes in both)
