"""Results read back: one sweep or many, as pandas frames.

Every column, its type and unit, and when it is missing: docs/reference/results.md. pandas is
imported when the first frame is made, so that a table can be shown on a machine without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

from edgebench.errors import ResultsError
from edgebench.results.frames import (
    layers_frame,
    misses_frame,
    networks_frame,
    phases_frame,
    sample_table,
    steps_frame,
    strategies_frame,
    trials_frame,
)
from edgebench.results.miss_curve import MissCurve, record_curves
from edgebench.results.sweep_reader import Sweep, read_sweep, sweep_folders

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Results", "Sweep", "latest", "load", "once_for_results"]
_T = TypeVar("_T")


class Results:
    """One sweep's results, or several sweeps' together (column ``sweep`` tells them apart).

    ``trials``, ``own_trials``, ``phases``, ``layers`` and ``networks`` are frames made
    when first asked for; ``samples``, ``stat`` and ``events`` read one trial's big
    tables. ``environment``, ``scenario_text``, ``resolved``, ``complete`` and ``path`` are those of
    the one sweep.
    """

    def __init__(self, sweeps: Sequence[Sweep], warnings: Sequence[str] = ()) -> None:
        self.sweeps = list(sweeps)
        self._warnings = list(warnings)

    @property
    def tables(self) -> dict[str, Sequence[Mapping[str, Any]]]:
        """Each network's layer table, as rows."""
        return {
            name: network["table"]
            for sweep in self.sweeps
            for name, network in sweep.networks.get("networks", {}).items()
        }

    @property
    def warnings(self) -> list[str]:
        """What was damaged and left out."""
        several = len(self.sweeps) > 1
        return self._warnings + [
            f"{sweep.name}: {words}" if several else words
            for sweep in self.sweeps
            for words in sweep.warnings
        ]

    def add_warnings(self, more: Sequence[str]) -> None:
        """Name what else was found to be damaged, each once."""
        known = self.warnings
        self._warnings += [words for words in dict.fromkeys(more) if words not in known]

    def __repr__(self) -> str:
        """Return what was read, in a line: the sweep's name or how many, and how many trials."""
        trials = sum(len(sweep.records) for sweep in self.sweeps)
        what = self.sweeps[0].name if len(self.sweeps) == 1 else f"{len(self.sweeps)} sweeps"
        return f"<Results of {what}: {trials} trial{'s' * (trials != 1)}>"

    @property
    def path(self) -> Path:
        """The sweep's folder."""
        return self._only.path

    @property
    def environment(self) -> dict[str, Any]:
        """What the machine was when the sweep began."""
        return self._only.environment

    @property
    def scenario_text(self) -> str:
        """The scenario file as it was given."""
        return self._only.scenario_text

    @property
    def resolved(self) -> dict[str, Any]:
        """The scenario's fingerprint, its points and its plan."""
        return self._only.resolved

    @property
    def complete(self) -> dict[str, Any] | None:
        """The completion mark; None while the sweep is not through."""
        return self._only.complete

    @cached_property
    def trials(self) -> pd.DataFrame:
        """One row a trial."""
        return trials_frame(self.sweeps)

    @cached_property
    def own_trials(self) -> pd.DataFrame:
        """One row a trial that a strategy had to itself, with the columns of ``trials``."""
        return trials_frame([replace(s, records=s.strategy_records) for s in self.sweeps])

    @cached_property
    def upward(self) -> Results:
        """What walks measured on their way up."""
        return Results([replace(s, records=s.upward_records) for s in self.sweeps])

    @cached_property
    def miss_curves(self) -> list[MissCurve]:
        """How many bytes a round reads again at each limit, of each workload with such rounds."""
        timed = (r for s in self.sweeps for r in (*s.records, *s.upward_records))
        return record_curves(timed)

    @cached_property
    def misses(self) -> pd.DataFrame:
        """One row per workload, limit and direction: the same as a frame."""
        return misses_frame(self.miss_curves)

    @cached_property
    def phases(self) -> pd.DataFrame:
        """One row per trial, round, network and phase."""
        return phases_frame(self.sweeps, self.trials)

    @cached_property
    def layers(self) -> pd.DataFrame:
        """One row per trial, round, network, layer, phase and pass.

        A trial whose events can't be read is left out and named in ``warnings``.
        """
        return layers_frame(self.sweeps, self.trials, self._warnings)

    @cached_property
    def memory(self) -> pd.DataFrame:
        """One row per trial, layer's span and strategy of telling memory.

        A trial that can't be read is left out and named in ``warnings``.
        """
        return strategies_frame(self.sweeps, self._warnings)

    @cached_property
    def steps(self) -> pd.DataFrame:
        """One row per trial and step of training: its loss and accuracy.

        A trial whose events can't be read is left out and named in ``warnings``.
        """
        return steps_frame(self.sweeps, self._warnings)

    @cached_property
    def networks(self) -> pd.DataFrame:
        """One row per network: its bytes and its number of layers."""
        return networks_frame(self.sweeps)

    def samples(self, trial: str, sweep: str | None = None) -> pd.DataFrame:
        """Return the sampler's fast table of one trial; a value the kernel didn't tell is NaN.

        Raises:
            ResultsError: no such trial, or damaged samples.
        """
        return sample_table(self._sweep_of(trial, sweep).samples_file(trial), "fast")

    def stat(self, trial: str, sweep: str | None = None) -> pd.DataFrame:
        """Return the sampler's slow table of one trial; a value the kernel didn't tell is NaN.

        Raises:
            ResultsError: no such trial, or damaged samples.
        """
        return sample_table(self._sweep_of(trial, sweep).samples_file(trial), "stat")

    def events(self, trial: str, sweep: str | None = None) -> list[dict[str, Any]]:
        """Return the worker's events of one trial.

        Raises:
            ResultsError: no such trial, or damaged events.
        """
        return self._sweep_of(trial, sweep).events(trial)

    def _sweep_of(self, trial: str, sweep: str | None) -> Sweep:
        if sweep is None:
            return self._only
        if named := [one for one in self.sweeps if one.name == sweep]:
            return named[0]
        raise ResultsError(f"no sweep {sweep!r} here, so no trial {trial!r} of it")

    @property
    def _only(self) -> Sweep:
        if len(self.sweeps) != 1:
            raise ResultsError(
                f"these are {len(self.sweeps)} sweeps; this needs one",
                where=str(self.sweeps[0].path.parent),
                remedy=f"name one, as {self.sweeps[-1].path}",
            )
        return self.sweeps[0]


def load(path: str | Path) -> Results:
    """Read a sweep's folder, or all sweeps below a device's folder or a results root.

    Among several, one that can't be read is left out and named in ``Results.warnings``.

    Raises:
        ResultsError: nothing readable there, or made by a newer version.
    """
    folders = sweep_folders(Path(path))
    sweeps, errors = [], []
    for folder in folders:
        try:
            sweeps.append(read_sweep(folder))
        except ResultsError as error:
            errors.append(error)
    if not sweeps:
        raise errors[0]
    return Results(sweeps, [f"left out: {error.what} ({error.where})" for error in errors])


def latest(root: str | Path) -> Path:
    """Return the folder of the newest sweep at or below a path.

    Raises:
        ResultsError: none there.
    """
    return sweep_folders(Path(root))[-1]


def once_for_results(make: Callable[[Results], _T]) -> Callable[[Results], _T]:
    """Decorate a function of results: a second call returns what the first one did.

    What it returns is not to be changed. It is forgotten with the results; an exception is not
    kept.
    """
    known: WeakKeyDictionary[Results, _T] = WeakKeyDictionary()

    @wraps(make)
    def once(results: Results) -> _T:
        if results not in known:
            known[results] = make(results)
        return known[results]

    return once
