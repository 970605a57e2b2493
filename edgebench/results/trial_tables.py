"""The big tables of single trials: samples, sensors' readings, events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from edgebench.errors import ResultsError
from edgebench.extras import need
from edgebench.results.sweep_reader import Sweep

if TYPE_CHECKING:
    import pandas as pd


class TrialTables:
    """Reads them, each when it is asked for; of several sweeps one has to be named."""

    def __init__(self, sweeps: Sequence[Sweep]) -> None:
        self.sweeps = list(sweeps)

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

    def sensors(self, trial: str, sweep: str | None = None) -> pd.DataFrame:
        """What the machine's sensors told during one trial; NaN where one was not read then.

        A column ends in its unit: ``_j`` (a counter, from 0 on), ``_w``, ``_c``, ``_hz``, ``_rpm``.

        Raises:
            ResultsError: no such trial, damaged samples, or no sensor was read.
        """
        need("pandas")
        from edgebench.results.sensor_frames import sensor_table

        return sensor_table(self._sweep_of(trial, sweep), trial)

    def events(self, trial: str, sweep: str | None = None) -> list[dict[str, Any]]:
        """The worker's events of one trial.

        Raises:
            ResultsError: no such trial, or damaged events.
        """
        return self._sweep_of(trial, sweep).events(trial)

    def _table(self, trial: str, sweep: str | None, name: str) -> pd.DataFrame:
        need("pandas")
        from edgebench.results.layer_frames import sample_table

        return sample_table(self._sweep_of(trial, sweep).samples_file(trial), name)

    def _sweep_of(self, trial: str, sweep: str | None) -> Sweep:
        if sweep is None:
            return self._only
        if found := [one for one in self.sweeps if one.name == sweep]:
            return found[0]
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
