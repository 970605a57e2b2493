"""Curves: slowdown per network, workload settings and phase, over limits; measured and fitted.

A slowdown divides a trial's seconds by the median of the unlimited trials with the same settings
(the same swap too, if there is one). A phase's seconds are the median over the steady rounds, per
pass; where only one round was run, they are that round's. A walk's steady rounds are compared with
the unlimited ones of its own process, by :mod:`~edgebench.results.facts`: its seconds are
those that a process of typical speed takes.

A fit goes through what was measured: ln S is a monotone cubic in ln M (Fritsch and Carlson,
"Monotone piecewise cubic interpolation", SIAM Journal on Numerical Analysis 17(2), 1980) through
the median at each limit. Medians that rise with memory are evened out first, by isotonic
regression, as far as their repeats allow. Its error is that at limits which are left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from edgebench.errors import ResultsError
from edgebench.need import LOST
from edgebench.results.columns import COLUMNS as WORKING_SET
from edgebench.results.columns import DISTINCT, workloads_of
from edgebench.results.facts import point_facts
from edgebench.results.frames import answering_rows
from edgebench.results.results import Results, once_for_results
from edgebench.results.times import START, STEADY
from edgebench.results.workload_key import SWAP
from edgebench.text import AS_IS, THROUGHPUT, format_duration, throughput_unit, throughput_words
from edgebench.workloads.training.names import PYTORCH

#: The phases that are fitted, in the order they are shown. ``total`` is a steady round's time on
#: the clock, or the whole trial's where a workload has no rounds; ``start`` is the first round's.
#: Where only one round was run, that is ``total``, and there is no ``start`` beside it. The seconds
#: of ``throughput`` are those of one of its units.
PHASES = (
    *("load", "first", "execute", "prefill", "decode", "data", "forward", "backward", "step"),
    "graph",
    *("start", "total", THROUGHPUT),
)
#: Those that are a whole round.
WHOLES = ("start", "total")
FloatArray = npt.NDArray[np.float64]
#: What a curve's settings are, as columns; ``pipeline`` is all networks of a trial.
_SETTINGS = ["sweep", "device", "pipeline", *(name for name in DISTINCT if name != "network")]
#: Kinds of workload with rounds; a training's are its steps.
WITH_ROUNDS = ("inference", "training")
#: Rows of equal values here differ in their memory limit alone.
_KEYS = ["sweep", "device", "workload", "network", "phase"]


class CannotPredictError(Exception):
    """Neither a curve nor a formula tells this; the message names what is lacking."""


@once_for_results
def seconds_by_trial(results: Results) -> pd.DataFrame:
    """Return a row per trial, network and phase of :data:`PHASES`: seconds of one pass."""
    keys = ["sweep", "trial", "network", "phase"]
    phases = results.phases
    phases = phases[(phases["outcome"] == "ok") & phases["phase"].isin([*PHASES, "round"])].copy()
    phases["phase"] = phases["phase"].replace("round", "total")
    phases["seconds"] = phases["wall_s"] / phases["passes"]
    # Rows that answer; and ``start``, where that is another answer than ``total``. In the rows'
    # order: a trial's start comes before its steady rounds.
    answering = answering_rows(phases)
    is_start = (phases["stage"] == START) & (phases["phase"] == "total")
    starts = phases[is_start & ~phases.index.isin(answering.index)].assign(phase=START)
    parts = [pd.concat([answering, starts]).sort_index(kind="stable")]
    trials = results.trials
    done = trials[trials["outcome"] == "ok"].copy()  # in one piece: columns were added singly
    done = done.assign(network=done["network"].where(done["network"].notna(), done["command"]))
    done = done.assign(pipeline=done["network"])
    # Trials without rounds are their own ``total``.
    totals = phases[phases["phase"] == "total"]
    with_rounds = set(zip(totals["sweep"], totals["trial"], strict=True))
    places = zip(done["sweep"], done["trial"], strict=True)
    without = np.array([place not in with_rounds for place in places], dtype=bool)
    whole = done[without & (done["wall_s"] > 0)]
    parts.append(whole.assign(phase="total", seconds=whole["wall_s"]))
    counted = done[done["throughput_per_s"] > 0]
    parts.append(counted.assign(phase=THROUGHPUT, seconds=1 / counted["throughput_per_s"]))
    rows = pd.concat([parts[0], *filter(len, parts[1:])], ignore_index=True)
    medians = rows.groupby(keys, dropna=False)["seconds"].median().reset_index()
    joined = rows.drop_duplicates(keys).drop(columns="seconds").merge(medians, on=keys)
    joined["memory_bytes"] = joined["limit_bytes"].fillna(joined["memory_bytes"])
    return joined


@dataclass(frozen=True, eq=False)
class Curve:
    """One phase of one network under one workload's settings, over limits.

    ``limit_bytes`` and ``seconds`` have one entry a trial that ended ``ok`` below a limit, in
    order of limits. ``lost_bytes`` has for each other outcome the limits of its trials.
    ``settings`` is all that sets this curve apart from others, ``demand_bytes`` the measured
    demand of the unlimited trials. ``walked``: its limits are those of a living process, whose idle
    runtime has long been written out. ``working_set_bytes``: what its steady rounds need, where a
    walk watched that. ``workload`` is the id of its trials'
    :class:`~edgebench.results.workload_key.WorkloadKey`; empty where there are no trials.
    """

    network: str
    phase: str
    settings: dict[str, Any]
    limit_bytes: FloatArray
    seconds: FloatArray
    unlimited_seconds: FloatArray
    demand_bytes: float | None = None
    lost_bytes: dict[str, tuple[float, ...]] = field(default_factory=dict)
    walked: bool = False
    working_set_bytes: float | None = None
    workload: str = ""

    @cached_property
    def unlimited_s(self) -> float:
        """The median unlimited time: what slowdown is relative to."""
        return float(np.median(self.unlimited_seconds))

    @property
    def slowdown(self) -> FloatArray:
        """One a trial."""
        return self.seconds / self.unlimited_s

    @cached_property
    def limits(self) -> FloatArray:
        """The limits with a finished trial, ascending."""
        return np.unique(self.limit_bytes)

    @cached_property
    def medians(self) -> FloatArray:
        """The median slowdown at each of :attr:`limits`."""
        at = [self.slowdown[self.limit_bytes == limit] for limit in self.limits]
        return np.array([np.median(repeats) for repeats in at])

    @property
    def workload_network(self) -> str:
        """The network of the curve's trials; for one of a pipeline, the whole pipeline."""
        return str(self.settings.get("pipeline") or self.network)

    @property
    def trials_key(self) -> str:
        """The network and the settings, without the phase: equal for curves of the same trials."""
        return json.dumps([self.workload_network, self.settings], sort_keys=True, default=str)

    @property
    def unlimited_words(self) -> str:
        """``0.52 s``; of a throughput ``41.2 tokens/s``."""
        if self.phase == THROUGHPUT:
            return throughput_words(1 / self.unlimited_s, throughput_unit(self.settings))
        return format_duration(self.unlimited_s)

    @property
    def answer(self) -> str:
        """The phase as it is shown: ``total`` is ``steady``, or ``start`` where that is all."""
        return shown_phase(self.phase, self.settings)

    @property
    def label(self) -> str:
        """``alexnet · linear · copy · load``."""
        apart = ("schedule", "loader", "optimizer")
        words = [self.network, *(str(self.settings.get(key) or "") for key in apart)]
        if self.settings.get("framework", PYTORCH) != PYTORCH:
            words.append(str(self.settings["framework"]))
        words += ["compiled"] if self.settings.get("compiled") else []
        return " · ".join([*(word for word in words if word), self.answer])

    def without(self, limit: float) -> Curve:
        """Return the same curve with one limit's trials left out."""
        kept = self.limit_bytes != limit
        return replace(self, limit_bytes=self.limit_bytes[kept], seconds=self.seconds[kept])

    def unseen(self) -> Curve:
        """Return the curve as if its network had never run below a limit."""
        nothing = self.limit_bytes[:0]
        return replace(self, limit_bytes=nothing, seconds=nothing, lost_bytes={})


def shown_phase(phase: str, settings: Mapping[str, Any]) -> str:
    """Return a phase of a workload with these settings, as it is shown."""
    if phase != "total" or settings.get("kind") not in WITH_ROUNDS:
        return phase
    return START if settings.get("rounds") == 1 else STEADY


@once_for_results
def curves(results: Results) -> list[Curve]:
    """Return every curve that has an unlimited time and a limit with a finished trial.

    The seconds of walks are scaled to the steady slowdown that facts know of each limit.

    Raises:
        ResultsError: there is none, with the reason.
    """
    times, about, found = _times_by_key(results), _about_trials(results), []
    for key, limited in times.limited.items():
        if unlimited := times.twins(key):
            lost, walked, needs = about[limited[0]["sweep"], limited[0]["workload"]]
            curve = _made(limited[0], limited, unlimited, lost)
            found.append(replace(curve, walked=walked, working_set_bytes=needs))
    if not found:
        trials = results.trials
        limited_trials = trials[trials["memory_bytes"].notna()]
        what = "no unlimited trial finished: slowdown is relative to those"
        remedy = "let the sweep finish: type the same edgebench run again"
        if limited_trials.empty:
            what = "only unlimited trials here: there is no slowdown to look at"
            remedy = 'add limits to the scenario, as memory = ["max", "75%", "50%"], and run it'
        elif not (limited_trials["outcome"] == "ok").any():
            count = len(limited_trials)
            what = f"no trial finished below a limit ({count} didn't): no times to compare"
            remedy = "run it with swap or at larger limits: see [limits] in the scenario"
        raise ResultsError(what, where=str(results.path), remedy=remedy)
    if not any(curve.walked for curve in found):
        return found
    slowdowns = {
        (sweep.name, point.key.id, float(point.limit_bytes)): point.slowdowns["total"]
        for sweep in results.sweeps
        for point in point_facts(sweep)
        if point.steady_relative and point.limit_bytes and "total" in point.slowdowns
    }
    scales: dict[tuple[str, str, float], float] = {}
    for curve in found:
        if curve.walked and curve.phase == "total":
            for limit, median in zip(curve.limits, curve.medians, strict=True):
                place = curve.settings["sweep"], curve.workload, float(limit)
                scales[place] = slowdowns.get(place, median) / median
    for n, curve in enumerate(found):
        if curve.walked and curve.phase not in (START, THROUGHPUT):
            walk = curve.settings["sweep"], curve.workload
            own = np.array([scales.get((*walk, float(at)), 1.0) for at in curve.limit_bytes])
            found[n] = replace(curve, seconds=curve.seconds * own)
    return found


@once_for_results
def unlimited_curves(results: Results) -> list[Curve]:
    """Return every curve of a workload that finished without a limit and below none.

    ``lost_bytes`` has the limits that it was tried at.
    """
    times, trials, found = _times_by_key(results), results.trials, []
    known = {times.with_any_swap(key) for key in times.limited}
    tried = trials[trials["memory_bytes"].notna() & trials["network"].notna()]
    for (sweep, workload), own in tried.groupby(["sweep", "workload"], sort=False):
        if (own["outcome"] == "ok").any() or not (lost := lost_limits(own)):
            continue
        swap = _plain(own[list(SWAP)].iloc[0].dropna().to_dict())
        alike = times.any_swap[str(workload)]
        keys = [k for k in times.unlimited if k[0] == sweep and times.any_swap[k[2]] == alike]
        for key in dict.fromkeys((*key[:2], workload, *key[3:]) for key in keys):
            rows = times.twins(key)
            curve = _made(rows[0], [], rows, lost)
            about = {k: v for k, v in curve.settings.items() if k not in SWAP} | swap
            found.append(replace(curve, settings=about, workload=str(workload)))
            known.add(times.with_any_swap(key))
    never_tried = {k: rows for k, rows in times.unlimited_any_swap.items() if k not in known}
    every = (rows for rows in never_tried.values() if rows[0]["kind"] in WITH_ROUNDS)
    return [*(_made(rows[0], [], rows) for rows in every), *found]


_Rows = dict[tuple[Any, ...], list[Mapping[Any, Any]]]


@dataclass(frozen=True)
class _Times:
    """Rows of :func:`seconds_by_trial` by sweep, device, workload, network and phase.

    ``any_swap`` is of a workload's id that of all that differ from it in their swap alone.
    """

    any_swap: Mapping[str, str]
    limited: _Rows = field(default_factory=dict)
    unlimited: _Rows = field(default_factory=dict)
    unlimited_any_swap: _Rows = field(default_factory=dict)

    def with_any_swap(self, key: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the key of all that differ in their swap alone."""
        return (*key[:2], self.any_swap[key[2]], *key[3:])

    def twins(self, key: tuple[Any, ...]) -> list[Mapping[Any, Any]]:
        """Return unlimited rows alike to a limited one: with the same swap, if there are some."""
        own = self.unlimited.get(key)
        return own or self.unlimited_any_swap.get(self.with_any_swap(key), [])


@once_for_results
def _times_by_key(results: Results) -> _Times:
    keys = (key for sweep in results.sweeps for key in workloads_of(sweep.columns)[1])
    times = _Times({key.id: key.any_swap.id for key in keys})
    frame = seconds_by_trial(results)
    names = dict.fromkeys([*_KEYS, *_SETTINGS, "kind", "trial", "memory_bytes", "seconds"])
    # A convolution is of no network.
    rows = frame.loc[frame["network"].notna(), [*names, "workload_demand_bytes"]]
    for row in rows.to_dict("records"):
        key = tuple(row[name] for name in _KEYS)
        if pd.isna(row["memory_bytes"]):
            times.unlimited.setdefault(key, []).append(row)
            times.unlimited_any_swap.setdefault(times.with_any_swap(key), []).append(row)
        else:
            times.limited.setdefault(key, []).append(row)
    return times


def _made(
    like: Mapping[Any, Any],
    limited: Iterable[Mapping[Any, Any]],
    unlimited: Iterable[Mapping[Any, Any]],
    lost: dict[str, tuple[float, ...]] | None = None,
) -> Curve:
    rows = sorted(limited, key=lambda row: (row["memory_bytes"], row["trial"]))
    demands = [d for row in unlimited if not pd.isna(d := row["workload_demand_bytes"])]
    settings = _plain({name: like[name] for name in _SETTINGS if not pd.isna(like[name])})
    return Curve(
        network=like["network"],
        phase=like["phase"],
        workload=like["workload"],
        # Results from before storage could be held stay what they were.
        settings={k: v for k, v in settings.items() if (k, v) != ("storage", AS_IS)},
        limit_bytes=np.array([row["memory_bytes"] for row in rows], dtype=np.float64),
        seconds=np.array([row["seconds"] for row in rows], dtype=np.float64),
        unlimited_seconds=np.array([row["seconds"] for row in unlimited], dtype=np.float64),
        demand_bytes=float(np.median(demands)) if demands else None,
        lost_bytes=lost or {},
    )


def _about_trials(
    results: Results,
) -> dict[tuple[str, str], tuple[dict[str, tuple[float, ...]], bool, float | None]]:
    """Of each workload's trials: limits without an end, whether they were walked, working set."""
    trials = results.trials
    is_lost = trials["outcome"].isin(LOST).to_numpy(dtype=bool)
    walked = (trials["walk_step"] > 0).to_numpy(dtype=bool, na_value=False)
    needs = trials[list(WORKING_SET)].to_numpy(dtype=np.float64, na_value=np.nan).sum(axis=1)
    found = {}
    groups: Mapping[Any, Any] = trials.groupby(["sweep", "workload"], sort=False).indices
    for (sweep, workload), at in groups.items():
        known = needs[at][~np.isnan(needs[at])]
        found[str(sweep), str(workload)] = (
            lost_limits(trials.iloc[at]) if is_lost[at].any() else {},
            bool(walked[at].any()),
            float(np.median(known)) if len(known) else None,
        )
    return found


def _plain(settings: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the settings without NumPy's types, which JSON has not."""
    return {str(k): v.item() if isinstance(v, np.generic) else v for k, v in settings.items()}


def lost_limits(trials: pd.DataFrame) -> dict[str, tuple[float, ...]]:
    """For each outcome but ``ok``, the limits at which a trial ended so."""
    limits = trials["limit_bytes"].fillna(trials["memory_bytes"])
    lost = {
        outcome: tuple(float(m) for m in np.unique(limits[trials["outcome"] == outcome].dropna()))
        for outcome in LOST
    }
    return {outcome: at for outcome, at in lost.items() if at}


#: Of the intervals that are reported.
LEVEL = 0.9
#: Version of the JSON that ``fit`` and ``predict`` print.
MODEL_SCHEMA = 7
LEAST_LIMITS = 2
#: Of more curves than this the others are counted, not named.
_MOST_NAMES = 3
#: Each turn halves at least what is left of a rise that repeats allow to be evened out.
_TURNS = 40


@dataclass(frozen=True)
class HeldOut:
    """One limit that was left out of the fit: predicted and measured median seconds."""

    limit_bytes: float
    predicted_s: float
    measured_s: float

    @property
    def error(self) -> float:
        """Signed, as a share of what was measured."""
        return self.predicted_s / self.measured_s - 1


@dataclass(frozen=True, eq=False)
class Fit:
    """A curve through its measured points, in order of limits.

    ``ln_limit`` and ``ln_slowdown`` are logarithms of bytes and of slowdowns.
    """

    curve: Curve
    ln_limit: FloatArray
    ln_slowdown: FloatArray

    def slowdown(self, limit_bytes: FloatArray) -> FloatArray:
        """Return the slowdown at limits; beyond the outermost points it stays what it is there."""
        from scipy.interpolate import PchipInterpolator

        at = np.clip(np.log(limit_bytes), self.ln_limit[0], self.ln_limit[-1])
        return np.exp(PchipInterpolator(self.ln_limit, self.ln_slowdown)(at))

    @cached_property
    def held_out(self) -> tuple[HeldOut, ...]:
        """Each limit predicted by the others; empty where they are too few to leave one out."""
        curve, held = self.curve, []
        for limit in curve.limits:
            x, y = measured_points(curve.without(limit))
            if len(x) < LEAST_LIMITS:
                return ()
            slowdown = float(Fit(curve, x, y).slowdown(np.array([limit]))[0])
            measured_s = float(np.median(curve.seconds[curve.limit_bytes == limit]))
            held.append(HeldOut(float(limit), slowdown * curve.unlimited_s, measured_s))
        return tuple(held)

    @property
    def error(self) -> float | None:
        """Mean error over limits that are left out, as a share; None where they are too few."""
        return float(np.mean([abs(one.error) for one in self.held_out])) if self.held_out else None

    def to_json(self) -> dict[str, Any]:
        """Return plain data for ``json.dumps``."""
        curve = self.curve
        return {
            "schema": MODEL_SCHEMA,
            "network": curve.network,
            "phase": curve.phase,
            "settings": curve.settings,
            "data": {
                "limits_bytes": curve.limits.tolist(),
                "median_slowdowns": curve.medians.tolist(),
                "trials": len(curve.seconds),
                "unlimited_s": curve.unlimited_s,
                "demand_bytes": curve.demand_bytes,
                "lost_bytes": {outcome: list(at) for outcome, at in curve.lost_bytes.items()},
            },
            "fit": {
                "limits_bytes": np.exp(self.ln_limit).round().tolist(),
                "slowdowns": np.exp(self.ln_slowdown).tolist(),
            },
            "mean_error": self.error,
            "held_out": [asdict(one) | {"error": one.error} for one in self.held_out],
        }


@lru_cache(maxsize=1024)
def fit_curve(curve: Curve) -> Fit:
    """Return the curve through its points; the same one for the same curve.

    Raises:
        CannotPredictError: it has no two points, the demand included.
    """
    ln_limit, ln_slowdown = measured_points(curve)
    if len(ln_limit) < LEAST_LIMITS:
        raise CannotPredictError("a curve needs two limits, or one and the demand")
    return Fit(curve, ln_limit, ln_slowdown)


def fit_all(curves: Sequence[Curve], where: str | None = None) -> tuple[list[Fit], list[str]]:
    """Fit every curve of two limits or more; name the others in warnings.

    Raises:
        ResultsError: no curve has two limits.
    """
    fits = [fit_curve(curve) for curve in curves if len(curve.limits) >= LEAST_LIMITS]
    if not fits:
        raise ResultsError(
            f"too few limits: a fit needs {LEAST_LIMITS} at which a trial finished, "
            "beside the unlimited ones",
            where=where,
            remedy='add limits, as memory = {from = "100%", to = "25%", steps = 6}',
        )
    lone = [curve.label for curve in curves if len(curve.limits) < LEAST_LIMITS]
    if len(lone) > _MOST_NAMES + 1:
        lone = [*lone[:_MOST_NAMES], f"{len(lone) - _MOST_NAMES} more"]
    words = f"not fitted, since trials finished at only one limit: {', '.join(lone)}"
    return fits, [words] if lone else []


def measured_points(curve: Curve) -> tuple[FloatArray, FloatArray]:
    """Return logarithms of limits and slowdowns, ascending; the demand is the last, with S = 1.

    Medians that rise with memory are evened out as far as their repeats allow: a point with
    repeats is never moved past the fastest or the slowest of them. None lies below S = 1.
    """
    from scipy.optimize import isotonic_regression

    x, y = np.log(curve.limits), np.log(curve.medians)
    groups = [np.log(curve.slowdown[curve.limit_bytes == limit]) for limit in curve.limits]
    counts = [float(len(group)) for group in groups]
    # A single trial confirms nothing.
    low = np.array([group.min() if len(group) > 1 else -np.inf for group in groups])
    high = np.array([group.max() if len(group) > 1 else np.inf for group in groups])
    for _ in range(_TURNS if len(groups) > 1 else 0):
        even = np.asarray(isotonic_regression(y, weights=counts, increasing=False).x)
        y = np.clip(even, low, high)
        if np.array_equal(y, even):
            break
    if curve.demand_bytes is not None and curve.demand_bytes > curve.limits.max(initial=0):
        x, y = np.append(x, np.log(curve.demand_bytes)), np.append(y, 0.0)
    return x, np.maximum(y, 0.0)
