"""Whether a trial will finish at a limit, and the least limit at which it will.

Anonymous memory needs a place: below the limit, or in swap. So a workload that needs N bytes of it
is killed where limit + swap < N, plus or minus what the kernel needs itself. How much that is, and
how sharp the edge is, is fitted to trials that were killed:

    P(viable) = 1 / (1 + exp(-(ln((M + swap) / N) - μ) / s))

A need that follows from a layer table is off by some per cent, so the limit that kills is less
certain than that of a network that ran. How far off is learnt from networks that ran, each taken as
if it had not.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from edgebench.kills import OBSERVER_EFFECT, TOO_TIGHT
from edgebench.layers.names import family_of
from edgebench.slowdown.context import context_of
from edgebench.slowdown.models.own_memory import OwnMemory, left_out_own_memory

if TYPE_CHECKING:
    from edgebench.results.results import Results
    from edgebench.slowdown.context import DeviceData
    from edgebench.slowdown.curves import Curve

#: Network → the rows of its layer table.
Tables = Mapping[str, Sequence[Mapping[str, Any]]]
#: The prior of edge and sharpness, with their standard deviations (of the sharpness's logarithm).
_EDGE, _EDGE_SPREAD = 0.0, 0.1
_SHARPNESS, _SHARPNESS_SPREAD = 0.02, 0.7
#: From this probability on a limit is called viable with confidence.
CONFIDENT = 0.9
_Workload = tuple[str, str, str]


@dataclass(frozen=True)
class ViabilityTrial:
    """One trial below a limit: what it needed, what it had, whether it finished.

    ``need_bytes`` is anonymous memory that only swap can take, of the unlimited trials.
    ``workload`` is the same for trials that differ in nothing but the limit. ``swap_was_free``: it
    was killed although most of its swap was free, so the next one might finish there.
    """

    network: str
    workload: tuple[str, str]
    limit_bytes: float
    swap_bytes: float
    need_bytes: float
    viable: bool
    swap_was_free: bool = False
    schedule: str = ""
    loader: str = ""

    @property
    def family(self) -> str:
        """The network's."""
        return family_of(self.network)

    @property
    def room(self) -> float:
        """``ln((M + swap) / N)``."""
        return math.log((self.limit_bytes + self.swap_bytes) / self.need_bytes)


@dataclass(frozen=True)
class Viability:
    """The fitted edge: ``edge`` is μ, ``sharpness`` s; ``killed`` counts the killed trials.

    ``left_out`` trials were not fitted to: they were killed although swap was free.
    """

    edge: float
    sharpness: float
    killed: int
    left_out: int = 0

    @property
    def left_out_words(self) -> list[str]:
        """A warning about the trials left out; none if there were none."""
        if not self.left_out:
            return []
        trials = "1 trial was" if self.left_out == 1 else f"{self.left_out} trials were"
        return [
            f"viability: {trials} killed while swap was free, so it is unknown whether "
            f"a workload finishes there; left out; see {OBSERVER_EFFECT}"
        ]

    def probability(self, limit_bytes: float, swap_bytes: float, need_bytes: float) -> float:
        """That a trial finishes at the limit."""
        room = math.log((limit_bytes + swap_bytes) / need_bytes)
        return 1 / (1 + math.exp(-min(max((room - self.edge) / self.sharpness, -50), 50)))

    def least_bytes(self, swap_bytes: float, need_bytes: float, probability: float = 0.5) -> float:
        """The limit at which a trial finishes with this probability; 0 where swap takes all."""
        room = self.edge + self.sharpness * math.log(probability / (1 - probability))
        return max(0.0, need_bytes * math.exp(room) - swap_bytes)


@dataclass(frozen=True)
class WorkloadViability:
    """The viability model with one workload's need and swap."""

    viability: Viability
    swap_bytes: float
    need_bytes: float

    def least_bytes(self, probability: float) -> float:
        """The limit at which it finishes with this probability."""
        return self.viability.least_bytes(self.swap_bytes, self.need_bytes, probability)

    def probability(self, limit_bytes: float) -> float:
        """That it finishes at this limit."""
        return self.viability.probability(limit_bytes, self.swap_bytes, self.need_bytes)


def fit_viability(trials: Sequence[ViabilityTrial]) -> Viability:
    """The edge, fitted to trials whose swap is bounded.

    Penalised likelihood: without killed trials it is the prior.
    """
    from scipy import optimize

    known = conclusive_trials(trials)
    rooms = np.array([trial.room for trial in known])
    viable = np.array([trial.viable for trial in known], dtype=bool)

    def cost(guess: np.ndarray) -> float:
        edge, ln_sharpness = guess
        margin = (rooms - edge) / np.exp(ln_sharpness)
        surprise = np.logaddexp(0, np.where(viable, -margin, margin)).sum()
        off_edge = (edge - _EDGE) / _EDGE_SPREAD
        off_sharpness = (ln_sharpness - math.log(_SHARPNESS)) / _SHARPNESS_SPREAD
        return float(surprise + (off_edge**2 + off_sharpness**2) / 2)

    start = np.array([_EDGE, math.log(_SHARPNESS)])
    found = optimize.minimize(cost, start, method="Nelder-Mead")
    return Viability(
        edge=float(found.x[0]),
        sharpness=float(np.exp(found.x[1])),
        killed=int((~viable).sum()),
        left_out=len(trials) - len(known),
    )


def conclusive_trials(trials: Sequence[ViabilityTrial]) -> list[ViabilityTrial]:
    """The trials that show whether a workload finishes at the limit."""
    return [trial for trial in trials if not trial.swap_was_free]


def viability_trials(results: Results) -> list[ViabilityTrial]:
    """Every trial of networks below a limit, whose need is known and whose swap is bounded."""
    trials = results.trials
    ended = trials["outcome"].isin(["ok", *TOO_TIGHT])
    limited = trials[ended & trials["memory_bytes"].notna() & trials["network"].notna()]
    tables = context_of(results, ())[0].tables
    made = (_trial(row, tables) for row in limited.to_dict("records"))
    return [trial for trial in made if trial]


def _trial(row: dict[Any, Any], tables: Tables) -> ViabilityTrial | None:
    swap = 0.0 if row["swap_kind"] == "none" else row["swap_bytes"]
    demand = row["workload_demand_bytes"]
    if pd.isna(swap) or pd.isna(demand):
        return None
    limit = row["memory_bytes"] if pd.isna(row["limit_bytes"]) else row["limit_bytes"]
    mapped = mapped_bytes(tables, row["network"], row["schedule"]) if row["loader"] == "mmap" else 0
    return ViabilityTrial(
        network=row["network"],
        workload=(str(row["sweep"]), str(row["workload"])),
        limit_bytes=float(limit),
        swap_bytes=float(swap),
        need_bytes=float(demand) - mapped,
        viable=row["outcome"] == "ok",
        swap_was_free=row["killed_with_swap_free"] is True,
        schedule=str(row["schedule"]),
        loader=str(row["loader"]),
    )


def mapped_bytes(tables: Tables, pipeline: str, schedule: str) -> float:
    """Weights that are mapped at once at the most: the kernel can drop them without swap.

    The schedule ``linear`` holds one layer at a time, the others a whole network.
    """
    held = max if schedule == "linear" else sum
    networks = [tables[name] for name in pipeline.split("+") if name in tables]
    files = [{row["part"]: row["file_bytes"] or 0 for row in table} for table in networks]
    return float(max((held(parts.values()) for parts in files if parts), default=0))


class LearntViability:
    """The edge for needs that were measured, and for those that are simulated."""

    def __init__(self, trials: Sequence[ViabilityTrial], data: DeviceData) -> None:
        self._trials, self._data = trials, data

    def of(self, curves: Sequence[Curve]) -> Viability:
        """That of a workload whose demand was measured, or that of one that never ran."""
        measured = any(curve.demand_bytes is not None for curve in curves)
        return self.measured if measured else self._simulated

    @cached_property
    def measured(self) -> Viability:
        """By the needs that trials showed."""
        return fit_viability(self._trials)

    @cached_property
    def _simulated(self) -> Viability:
        return fit_viability(as_never_run(self._trials, self._data) if self._trials else ())


def as_never_run(trials: Sequence[ViabilityTrial], data: DeviceData) -> list[ViabilityTrial]:
    """The trials with simulated needs; those whose need can't be simulated are left out."""
    keys = [(trial.network, trial.schedule, trial.loader) for trial in trials]
    needs = simulated_needs(data, set(keys))
    found = []
    for trial, key in zip(trials, keys, strict=True):
        need = needs.get(key)
        if need is not None:
            found.append(replace(trial, need_bytes=need))
    return found


def simulated_needs(data: DeviceData, wanted: Collection[_Workload]) -> dict[_Workload, float]:
    """Anonymous memory that these networks, schedules and loaders need, as if they had never run.

    What can't be simulated is left out.
    """
    others = left_out_own_memory(data.curves, data.context)
    found = {}
    for workload, curve in {_workload(curve): curve for curve in data.curves}.items():
        if workload not in wanted:
            continue
        own = others.get(curve.workload_network, OwnMemory())
        bare = curve.unseen(with_unlimited=False)
        demand = own.with_demand(bare, data.context).demand_bytes
        if demand is not None:
            found[workload] = demand - _mapped_bytes(workload, data)
    return found


def _mapped_bytes(workload: _Workload, data: DeviceData) -> float:
    network, schedule, loader = workload
    return mapped_bytes(data.context.tables, network, schedule) if loader == "mmap" else 0.0


def _workload(curve: Curve) -> _Workload:
    at = curve.settings
    return curve.workload_network, str(at.get("schedule")), str(at.get("loader"))
