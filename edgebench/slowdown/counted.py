"""What the kernel counted while a trial's rounds ran.

A trial's own totals tell of its import and set-up too: under a tight limit the runtime alone is
swapped out and in again before any round begins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from edgebench.errors import ResultsError
from edgebench.records.phases import finished_spans

if TYPE_CHECKING:
    from edgebench.results.results import Results

#: Of the sampler's table, in pages; and of the worker's own events.
SAMPLED = ("refault_anon", "refault_file")
COUNTED = (*SAMPLED, "major_faults", "rounds_s")


def counted(results: Results, trials: pd.DataFrame) -> pd.DataFrame:
    """The trials with :data:`COUNTED` of all their rounds together, NaN where nothing tells.

    Pages, faults and seconds; the first two by the samples nearest to the rounds' ends.
    """
    rounds = results.phases[results.phases["phase"] == "round"]
    sums = rounds.groupby(["sweep", "trial"])[["major_faults", "wall_s"]].sum(min_count=1)
    sums = sums.rename(columns={"wall_s": "rounds_s"})
    bare = trials.drop(columns=[name for name in COUNTED if name in trials])
    found = bare.merge(sums, how="left", left_on=["sweep", "trial"], right_index=True)
    keys = zip(found["sweep"], found["trial"], strict=True)
    sampled = [_sampled(results, str(sweep), str(trial)) for sweep, trial in keys]
    return found.assign(**{name: [one[name] for one in sampled] for name in SAMPLED})


def _sampled(results: Results, sweep: str, trial: str) -> dict[str, float]:
    nothing = dict.fromkeys(SAMPLED, np.nan)
    try:
        spans = finished_spans(results.events(trial, sweep))
        table = results.stat(trial, sweep)
    except ResultsError:
        return nothing
    rounds = [span for span in spans if span.phase == "round"]
    if not rounds or table.empty:
        return nothing
    ends = [min(s.start_ns for s in rounds), max(s.end_ns for s in rounds)]
    times = table["t_ns"].to_numpy(dtype=np.float64)
    return {
        name: float(np.diff(np.interp(ends, times, table[name].to_numpy(dtype=np.float64)))[0])
        for name in SAMPLED
    }
