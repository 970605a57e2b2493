"""Layers of walks: their repeats, and slowdowns of passes, as tables of points have them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgebench.results.point_facts import point_facts
from edgebench.results.point_times import is_one_walk, walk_numbers

if TYPE_CHECKING:
    import pandas as pd

    from edgebench.results.results import Results
    from edgebench.results.spread import Ratio


def by_repeat(trials: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with each round as a trial of its own where one walk is all there is at a limit.

    Args:
        trials: rows of ``Results.trials`` of one workload.
        rows: of its layers or phases.
    """
    import pandas as pd

    walks = pd.Series(walk_numbers(trials["walk_step"]), trials.index)
    by_limit = walks[trials["outcome"] == "ok"].groupby(trials["limit_label"])
    own = rows["limit_label"].map(by_limit.apply(is_one_walk)).eq(True)
    rounds = rows["trial"] + ":" + rows["round"].astype(str)
    return rows.assign(trial=rows["trial"].where(~own, rounds))


def walked_ratios(results: Results) -> dict[tuple[str, str], Ratio]:
    """Sweep and point → the slowdown of a limit that was walked: in the walk's own process."""
    return {
        (sweep.name, point.point): point.ratios["total"]
        for sweep in results.sweeps
        for point in (point_facts(sweep) if "walk_step" in sweep.columns.numbers else ())
        if point.steady_relative and "total" in point.ratios
    }
