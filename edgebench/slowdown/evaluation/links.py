"""Each link of the physical model alone: what the simulator predicts against kernel counts.

For each trial below a limit, the simulator's predictions for its rounds are compared with what the
kernel counted in them:

- ``missed``: bytes that came back from swap, against anonymous refaults;
- ``missed-file``: file bytes read again, against file refaults beyond those of unlimited trials;
- ``faults``: faults that bring them in, against major faults beyond those of unlimited trials;
- ``io``: the seconds that these take, against the rounds' seconds beyond unlimited ones.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from edgebench.errors import ResultsError
from edgebench.measures.strategies.sampled import STATISTICS
from edgebench.results.frames import SETTINGS
from edgebench.slowdown.context import Context
from edgebench.slowdown.curves import Curve
from edgebench.slowdown.simulator.profile import device_with_demand
from edgebench.slowdown.simulator.simulation import Device, Simulation, simulate
from edgebench.slowdown.simulator.training_workload import any_workload_of
from edgebench.slowdown.simulator.workload import Workload
from edgebench.spans import finished_spans

if TYPE_CHECKING:
    from edgebench.results.results import Results

LINKS = ("missed", "missed-file", "faults", "io")
#: Less than this on both sides shows nothing of a link: a few pages, some scheduling.
_FLOORS = {"missed": 4 << 20, "missed-file": 4 << 20, "faults": 256, "io": 0.02}
_SWAP = ("swap_kind", "swap_bytes")
#: Of the sampler's table, in pages; and of the worker's own events.
SAMPLED = ("refault_anon", "refault_file")
COUNTED = (*SAMPLED, "major_faults", "rounds_s")


@dataclass(frozen=True)
class Link:
    """One link at one limit: predicted, and measured (the median of its trials).

    In bytes, in faults, or in seconds, of all of a trial's rounds.
    """

    name: str
    network: str
    schedule: str
    loader: str
    limit_bytes: float
    predicted: float
    measured: float


@dataclass(frozen=True)
class LinkScore:
    """How near a link is.

    Attributes:
        name: which.
        count: at how many limits of how many workloads there was anything to compare.
        ratio: median of predicted / measured; 1 is right, above 1 is too much.
        overall: all that was predicted / all that was measured.
        within_25: share of limits predicted within 25 %.
        rank: Spearman's rank correlation of predicted and measured; None of fewer than three.
    """

    name: str
    count: int
    ratio: float
    overall: float
    within_25: float
    rank: float | None


def links(results: Results, context: Context) -> list[Link]:
    """Every link of every workload of networks that have tables; none without a calibration."""
    calibration = context.calibration
    if calibration is None:
        return []
    trials = results.trials
    own = trials[
        (trials["outcome"] == "ok")
        & (trials["device"] == calibration.device)
        & (trials["swap_kind"] == calibration.swap_kind)
        & trials["network"].notna()
        # The constants are of torch's runtime.
        & trials["engine"].isna()
    ]
    groups = with_kernel_counts(results, own).groupby(
        ["sweep", *SETTINGS, *_SWAP], dropna=False, sort=False
    )
    return [link for _, rows in groups for link in _of_workload(rows, context)]


def with_kernel_counts(results: Results, trials: pd.DataFrame) -> pd.DataFrame:
    """The trials with :data:`COUNTED` of all their rounds together, NaN where unknown.

    Pages, faults and seconds; the first two by the samples nearest to the rounds' ends. A timed
    trial under a limit has no such samples: those of its point's trial for statistics are used.
    A trial's own totals include its import and set-up: under a tight limit the runtime alone is
    swapped out and in again before any round begins.
    """
    rounds = results.phases[results.phases["phase"] == "round"]
    sums = rounds.groupby(["sweep", "trial"])[["major_faults", "wall_s"]].sum(min_count=1)
    sums = sums.rename(columns={"wall_s": "rounds_s"})
    bare = trials.drop(columns=[name for name in COUNTED if name in trials])
    found = bare.merge(sums, how="left", left_on=["sweep", "trial"], right_index=True)
    keys = zip(found["sweep"], found["trial"], found["point"], strict=True)
    # Each point's trial for statistics, as far as it finished.
    instead = {
        (sweep.name, record.point): record.trial
        for sweep in results.sweeps
        for record in sweep.strategy_records
        if record.strategy == STATISTICS and record.outcome == "ok"
    }
    sampled = [
        _sampled(results, str(sweep), str(trial), instead.get((sweep, point)))
        for sweep, trial, point in keys
    ]
    return found.assign(**{name: [one[name] for one in sampled] for name in SAMPLED})


def _sampled(results: Results, sweep: str, trial: str, instead: str | None) -> dict[str, float]:
    nothing = dict.fromkeys(SAMPLED, np.nan)
    try:
        table = results.stat(trial, sweep)
        if instead is not None and not {*SAMPLED} <= {*table.columns}:
            trial, table = instead, results.stat(instead, sweep)
        spans = finished_spans(results.events(trial, sweep))
    except ResultsError:
        return nothing
    rounds = [span for span in spans if span.phase == "round"]
    if not rounds or table.empty or not {*SAMPLED} <= {*table.columns}:
        return nothing
    ends = [min(s.start_ns for s in rounds), max(s.end_ns for s in rounds)]
    times = table["t_ns"].to_numpy(dtype=np.float64)
    return {
        name: float(np.diff(np.interp(ends, times, table[name].to_numpy(dtype=np.float64)))[0])
        for name in SAMPLED
    }


def score_links(found: Sequence[Link]) -> list[LinkScore]:
    """One score a link that has anything to compare."""
    named = {name: [link for link in found if link.name == name] for name in LINKS}
    return [_score(name, group) for name, group in named.items() if group]


def _of_workload(rows: pd.DataFrame, context: Context) -> Iterator[Link]:
    limited = rows[rows["memory_bytes"].notna()]
    unlimited = rows[rows["memory_bytes"].isna()]
    first = rows.iloc[0]
    try:
        known = {name: first[name] for name in SETTINGS if not pd.isna(first[name])}
        workload = any_workload_of({**known, "pipeline": first["network"]}, context.tables)
    except KeyError:
        return
    if limited.empty or unlimited.empty:
        return
    by_limit = limited.groupby(limited["limit_bytes"].fillna(limited["memory_bytes"]))
    measured, base = by_limit[list(COUNTED)].median(), unlimited[list(COUNTED)].median()
    limits = measured.index.to_numpy(dtype=np.float64)
    simulation = simulate(workload, _device(first["network"], known, unlimited, context), limits)
    predicted = _predicted(simulation, workload)
    seen = _seen(measured - base)
    about = str(first["network"]), str(first["schedule"]), str(first["loader"])
    for name in LINKS:
        for n, limit in enumerate(limits):
            one, other = float(predicted[name][n]), float(seen[name][n])
            if np.isfinite(other) and max(one, other) >= _FLOORS[name]:
                yield Link(name, *about, float(limit), one, max(other, 0.0))


def _device(
    network: str, settings: dict[str, Any], unlimited: pd.DataFrame, context: Context
) -> Device:
    """The constants, with the memory that the workload's demand shows."""
    demand, nothing = unlimited["workload_demand_bytes"].median(), np.empty(0)
    known = None if pd.isna(demand) else float(demand)
    about = {**settings, "pipeline": network}
    curve = Curve(network, "total", about, nothing, nothing, nothing, demand_bytes=known)
    return device_with_demand(curve, context)


def _predicted(simulation: Simulation, workload: Workload) -> dict[str, np.ndarray]:
    def whole_trial(values: np.ndarray) -> np.ndarray:
        rounds = values.reshape(-1, len(simulation.tasks), len(simulation.limit_bytes)).sum(axis=1)
        return np.asarray(rounds[0] + (workload.rounds - 1) * rounds[-1])

    anon = whole_trial(simulation.missed.in_bytes)
    file = whole_trial(simulation.missed.file_bytes)
    return {
        "missed": anon,
        "missed-file": file,
        "faults": whole_trial(simulation.faults),
        "io": whole_trial(simulation.io_s),
    }


def _seen(beyond: pd.DataFrame) -> dict[str, np.ndarray]:
    pages = {"missed": "refault_anon", "missed-file": "refault_file"}
    found = {name: beyond[key].to_numpy() * mmap.PAGESIZE for name, key in pages.items()}
    return {
        **found,
        "faults": beyond["major_faults"].to_numpy(),
        "io": beyond["rounds_s"].to_numpy(),
    }


def _score(name: str, found: Sequence[Link]) -> LinkScore:
    from scipy import stats

    predicted = np.array([link.predicted for link in found])
    measured = np.array([link.measured for link in found])
    # The floor keeps a link that is hardly there from counting as a large miss.
    ratio = (predicted + _FLOORS[name]) / (measured + _FLOORS[name])
    # A rank needs three values, and of neither side may all be equal.
    ranked = len(found) > 2 and np.ptp(predicted) > 0 and np.ptp(measured) > 0
    rank = float(stats.spearmanr(predicted, measured).statistic) if ranked else None
    return LinkScore(
        name=name,
        count=len(found),
        ratio=float(np.median(ratio)),
        overall=float(predicted.sum() / max(measured.sum(), _FLOORS[name])),
        within_25=float(np.mean(abs(ratio - 1) <= 0.25)),
        rank=rank if rank is not None and np.isfinite(rank) else None,
    )
