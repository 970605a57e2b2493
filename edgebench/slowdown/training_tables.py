"""The layer tables of trainings, which no sweep keeps: described when the first is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from edgebench.errors import EdgebenchError
from edgebench.identity import caller_identity
from edgebench.slowdown.simulator.workload import KIND, SHAPING, table_key
from edgebench.workloads.preparation import describe_trainings
from edgebench.workloads.training.step_operations import operations_key

if TYPE_CHECKING:
    from edgebench.results.results import Results

#: What a data set has if the sweep has no number of them.
_CLASSES = 10
#: What a training's data set has beside its name and shape.
_OF_DATA = ("classes", "examples")


class TrainingTables(Mapping[str, Sequence[Mapping[str, Any]]]):
    """The tables of the trainings in some results, and the operations of their steps.

    All trainings of a sweep are described at once, by a process that loads torch: when the first of
    them is asked for.
    """

    def __init__(self, results: Results) -> None:
        """Note which trainings there are."""
        trials = results.trials
        trained = trials[trials["kind"] == KIND]
        shaping = [name for name in ("network", *SHAPING, *_OF_DATA) if name in trained]
        #: Settings by a table's key, sweep by sweep.
        self._wanted: list[dict[str, dict[str, Any]]] = []
        for _, own in trained.groupby("sweep", sort=False):
            rows = own[shaping].drop_duplicates().to_dict("records")
            settings = [{"classes": _CLASSES, **_plain(row)} for row in rows]
            self._wanted.append({table_key(one): one for one in settings})
        keys = (key for own in self._wanted for key in own)
        self._names = dict.fromkeys(name for key in keys for name in (key, operations_key(key)))
        self._known: dict[str, Sequence[Mapping[str, Any]]] = {}
        self._reasons: dict[str, str] = {}

    @property
    def reasons(self) -> list[str]:
        """Why some of those that were asked for have none."""
        return list(dict.fromkeys(self._reasons.values()))

    def __getitem__(self, key: str) -> Sequence[Mapping[str, Any]]:
        if key not in self._known and key not in self._reasons:
            self._describe(key)
        if key in self._reasons:
            raise KeyError(self._reasons[key])
        return self._known[key]

    def __contains__(self, key: object) -> bool:
        return key in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def _describe(self, key: str) -> None:
        for wanted in self._wanted:
            lacking = {k: one for k, one in wanted.items() if k not in self._known}
            if key not in lacking and key not in map(operations_key, lacking):
                continue
            try:
                answer = describe_trainings(lacking, identity=caller_identity())
            except EdgebenchError as error:
                self._reasons |= dict.fromkeys(lacking, error.what)
            else:
                self._known |= answer["tables"]
                self._reasons |= answer["untold"]
            return


def with_trainings(results: Results) -> tuple[Results, TrainingTables]:
    """The results with the layer tables of each training in them.

    Models that need layer tables can't predict trainings that have none.
    """
    tables = TrainingTables(results)
    return (results.knowing(tables) if tables else results), tables


def _plain(row: Mapping[Any, Any]) -> dict[str, Any]:
    """A frame's values as a scenario has them: whole numbers, and None for what is missing."""
    known = {str(k): None if pd.isna(v) else v for k, v in row.items()}
    return {k: int(v) if isinstance(v, float) and v.is_integer() else v for k, v in known.items()}
