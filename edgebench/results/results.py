"""Results read back: one sweep or many, as pandas frames.

Every column, its type and unit, and when it is missing: docs/results.md. pandas is imported when
the first frame is asked for, so that a table can be shown on a machine without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgebench.errors import MachineError, ResultsError
from edgebench.results.reading import Sweep, read_sweep, sweep_folders

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Results", "Sweep", "latest", "load"]

PANDAS_REMEDY = "python3 -m pip install 'edgebench[plot]'"
#: Layer tables by name, as rows.
Tables = Mapping[str, Sequence[Mapping[str, Any]]]


class Results:
    """One sweep's results, or several sweeps' together (column ``sweep`` tells them apart).

    ``trials``, ``phases``, ``layers`` and ``networks`` are frames made when first asked for;
    ``samples``, ``stat`` and ``events`` read one trial's big tables. ``environment``,
    ``scenario_text``, ``resolved``, ``complete`` and ``path`` are those of the one sweep.
    """

    def __init__(self, sweeps: Sequence[Sweep], warnings: Sequence[str] = ()) -> None:
        self.sweeps = list(sweeps)
        self._warnings = list(warnings)
        self._tables: Tables = {}

    @property
    def tables(self) -> Tables:
        """Each network's layer table, as rows; and those that :meth:`knowing` added."""
        kept = {
            name: network["table"]
            for sweep in self.sweeps
            for name, network in sweep.networks.get("networks", {}).items()
        }
        return {**kept, **self._tables}

    def knowing(self, tables: Tables) -> Results:
        """The same results with further layer tables, by any name."""
        told = copy(self)
        told._tables = {**self._tables, **tables}
        return told

    @property
    def warnings(self) -> list[str]:
        """What was damaged and left out."""
        several = len(self.sweeps) > 1
        return self._warnings + [
            f"{sweep.name}: {words}" if several else words
            for sweep in self.sweeps
            for words in sweep.warnings
        ]

    def _repr_html_(self) -> str:
        """What a notebook shows: each sweep's points as a table."""
        from edgebench.results.glance import glance

        return glance(self.sweeps, self.warnings)

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
        need_pandas()
        from edgebench.results.trial_frames import trials_frame

        return trials_frame(self.sweeps)

    @cached_property
    def phases(self) -> pd.DataFrame:
        """One row per trial, round, network and phase."""
        need_pandas()
        from edgebench.results.frames import phases_frame

        return phases_frame(self.sweeps, self.trials)

    @cached_property
    def layers(self) -> pd.DataFrame:
        """One row per trial, round, network, layer, phase and pass.

        A trial whose events can't be read is left out and named in ``warnings``.
        """
        need_pandas()
        from edgebench.results.layer_frames import layers_frame

        return layers_frame(self.sweeps, self.trials, self._warnings)

    @cached_property
    def memory(self) -> pd.DataFrame:
        """One row per trial, layer's span and strategy of telling memory.

        A trial that can't be read is left out and named in ``warnings``.
        """
        need_pandas()
        from edgebench.results.memory_frames import memory_frame

        return memory_frame(self.sweeps, self._warnings)

    @cached_property
    def steps(self) -> pd.DataFrame:
        """One row per trial and step of training: its loss and accuracy.

        A trial whose events can't be read is left out and named in ``warnings``.
        """
        need_pandas()
        from edgebench.results.training_frames import steps_frame

        return steps_frame(self.sweeps, self._warnings)

    @cached_property
    def categories(self) -> pd.DataFrame:
        """One row per trial of memory by category, phase and category.

        A trial whose figures can't be read is left out and named in ``warnings``.
        """
        need_pandas()
        from edgebench.results.training_frames import categories_frame

        return categories_frame(self.sweeps, self._warnings)

    @cached_property
    def networks(self) -> pd.DataFrame:
        """One row per network: its bytes and its number of layers."""
        need_pandas()
        from edgebench.results.layer_frames import networks_frame

        return networks_frame(self.sweeps)

    def samples(self, trial: str, sweep: str | None = None) -> pd.DataFrame:
        """The sampler's fast table of one trial; a value the kernel didn't tell is NaN.

        Raises:
            ResultsError: no such trial, or damaged samples.
        """
        return self._table(trial, sweep, "fast")

    def stat(self, trial: str, sweep: str | None = None) -> pd.DataFrame:
        """The sampler's slow table of one trial; a value the kernel didn't tell is NaN.

        Raises:
            ResultsError: no such trial, or damaged samples.
        """
        return self._table(trial, sweep, "stat")

    def events(self, trial: str, sweep: str | None = None) -> list[dict[str, Any]]:
        """The worker's events of one trial.

        Raises:
            ResultsError: no such trial, or damaged events.
        """
        return self._sweep_of(trial, sweep).events(trial)

    def _table(self, trial: str, sweep: str | None, name: str) -> pd.DataFrame:
        need_pandas()
        from edgebench.results.layer_frames import sample_table

        return sample_table(self._sweep_of(trial, sweep).samples_file(trial), name)

    def _sweep_of(self, trial: str, sweep: str | None) -> Sweep:
        if sweep is None:
            return self._only
        for candidate in self.sweeps:
            if candidate.name == sweep:
                return candidate
        raise ResultsError(f"no sweep {sweep!r} here (asked for its trial {trial!r})")

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
    """The folder of the newest sweep at or below a path.

    Raises:
        ResultsError: none there.
    """
    return sweep_folders(Path(root))[-1]


def need_pandas() -> None:
    """Check that frames can be made.

    Raises:
        MachineError: pandas is not installed.
    """
    try:
        import pandas as pd
    except ModuleNotFoundError as error:
        raise MachineError(f"this needs {error.name}", remedy=PANDAS_REMEDY) from None
    del pd
