"""Layer tables of what trainings' steps hold: no sweep keeps them, so they are made when asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from edgebench.cgroups.identity import caller_identity
from edgebench.errors import EdgebenchError
from edgebench.slowdown.trainings import KIND, SHAPING, table_key
from edgebench.workshop.preparing import describe_trainings

if TYPE_CHECKING:
    from edgebench.results.results import Results

#: What a data set has if a sweep doesn't say.
_CLASSES = 10


def with_trainings(results: Results) -> tuple[Results, list[str]]:
    """The results, knowing the layers of each training in them.

    The second value says in words of which trainings they can't be told, and why: a model that
    needs them then says nothing of these.
    """
    trials = results.trials
    trained = trials[trials["kind"] == KIND]
    if trained.empty:
        return results, []
    shaping = [name for name in ("network", *SHAPING, "classes") if name in trained]
    rows = trained[shaping].drop_duplicates().to_dict("records")
    settings = [{"classes": _CLASSES, **_plain(row)} for row in rows]
    try:
        wanted = {table_key(one): one for one in settings}
        answer = describe_trainings(wanted, identity=caller_identity())
    except EdgebenchError as error:
        return results, [f"no layer tables of trainings: {error.what}"]
    reasons = dict.fromkeys(answer["untold"].values())
    return results.knowing(answer["tables"]), [f"a training's layers: {why}" for why in reasons]


def _plain(row: Mapping[Any, Any]) -> dict[str, Any]:
    """A frame's values as a scenario has them: whole numbers, and None for what is missing."""
    import pandas as pd

    return {str(k): None if pd.isna(value) else _whole(value) for k, value in row.items()}


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value
