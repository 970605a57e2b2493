"""What is simulated of bytes and of kills, against what was counted."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from claims.kept import figures
from evaluation.viability_scores import (
    ViabilityEdge,
    ViabilityPrediction,
    predict_viability,
    score_viability,
)
from steady_bytes import MANY_BYTES

from edgebench.slowdown.context import CannotPredictError, device_data, matching_device_data
from edgebench.slowdown.simulator.profile import profile, workload_for
from edgebench.slowdown.viability import (
    ViabilityTrial,
    as_never_run,
    conclusive_trials,
    viability_trials,
)

if TYPE_CHECKING:
    from edgebench.results.results import Results
    from edgebench.slowdown.context import Context
    from edgebench.slowdown.curves import Curve

#: Limit → bytes of each round there; that of no limit is infinite.
Rounds = dict[float, list[float]]
#: Edges this near are right.
_NEAR = math.log(1.03)


@dataclass(frozen=True)
class SteadyBytes:
    """Bytes of a steady round beyond those of unlimited ones, at one limit of a workload.

    Attributes:
        workload: which.
        loader: its loader: ``copy`` reads swap again, ``mmap`` the weights' file.
        measured: the median of its rounds.
        predicted: as simulated, its unlimited trials known.
        weights: what it would be if every execution read all weights.
        repeats: each round.
    """

    workload: str
    loader: str
    measured: float
    predicted: float
    weights: float
    repeats: tuple[float, ...]

    @property
    def many(self) -> bool:
        """Whether so much was read again, or was simulated to be, that it matters."""
        return max(self.measured, self.predicted) > MANY_BYTES

    @property
    def error(self) -> float:
        """Of what is simulated, as a share."""
        return self._off(self.predicted)

    @property
    def weights_error(self) -> float:
        """Of all weights in each execution."""
        return self._off(self.weights)

    def _off(self, told: float) -> float:
        return abs(told - self.measured) / max(self.measured, MANY_BYTES)


def bytes_scores(results: Results) -> dict[str, dict[str, Any]]:
    """By loader, how near simulated bytes of steady rounds are; empty where none were counted.

    Judged are points where many were counted, and where many were simulated and few counted.
    """
    points = [point for point in steady_bytes(results) if point.many]
    return {
        loader: _scored([point for point in points if point.loader == loader])
        for loader in sorted({point.loader for point in points})
    }


def steady_bytes(results: Results) -> Iterator[SteadyBytes]:
    """Every limit of every workload whose rounds were counted."""
    for data in device_data(results)[0]:
        for curve, rounds in counted_rounds(data.curves):
            yield from _of_curve(curve, rounds, data.context)


def counted_rounds(curves: Iterable[Curve]) -> Iterator[tuple[Curve, Rounds]]:
    """The curves of steady rounds whose bytes were counted, with the bytes by limit."""
    counted: dict[tuple[Any, ...], Rounds] = defaultdict(lambda: defaultdict(list))
    for row in figures("steady_bytes"):
        key = row["sweep"], row["network"], row["schedule"], row["loader"]
        counted[key][row["limit_bytes"] or math.inf] += row["bytes"]
    for curve in curves:
        at = curve.settings
        key = at["sweep"], curve.workload_network, at.get("schedule"), at.get("loader")
        if curve.phase == "total" and len(curve.limits) and key in counted:
            yield curve, counted[key]


def _of_curve(curve: Curve, rounds: Rounds, context: Context) -> Iterator[SteadyBytes]:
    try:
        found = profile(curve, curve.unlimited_s, context)
        workload = workload_for(curve, context)
    except CannotPredictError:
        return
    if not rounds.get(math.inf):
        return
    copied = workload.loader == "copy"
    # Mapped weights are read once in any case.
    weights = workload.weight_bytes * (workload.passes - (not copied))
    free = float(np.median(rounds[math.inf]))
    back = np.interp(np.log(curve.limits), found.ln_limit, found.moved[1] + found.moved[3])
    for limit, predicted in zip(curve.limits.tolist(), back.tolist(), strict=True):
        if read := rounds.get(limit):
            beyond = np.array(read) - free
            yield SteadyBytes(
                workload=f"{curve.network} {workload.schedule} {workload.loader}",
                loader=workload.loader,
                measured=float(np.median(beyond)),
                predicted=predicted,
                weights=weights,
                repeats=tuple(beyond.tolist()),
            )


def _scored(points: Sequence[SteadyBytes]) -> dict[str, Any]:
    read = [point for point in points if point.measured > MANY_BYTES]
    noise = [abs(size / point.measured - 1) for point in read for size in point.repeats]
    return {
        "points": len(points),
        "workloads": len({point.workload for point in points}),
        "error": of_workloads([(point.workload, point.error) for point in points]),
        "weights_error": of_workloads([(p.workload, p.weights_error) for p in points]),
        "within_25": float(np.mean([point.error <= 0.25 for point in points])),
        "noise": float(np.median(noise)) if noise else None,
    }


def of_workloads(errors: Sequence[tuple[str, float]]) -> float:
    """The median over workloads of their medians."""
    groups: dict[str, list[float]] = defaultdict(list)
    for workload, error in errors:
        groups[workload].append(error)
    return float(np.median([np.median(group) for group in groups.values()]))


def edges_score(results: Results) -> dict[str, Any]:
    """Limits that kill networks which never ran, from their layer tables; beside the plain rule.

    The rule, "limit + swap ≥ demand", knows the measured demand.
    """
    data = matching_device_data(results)[0][0]
    known = conclusive_trials(viability_trials(results))
    judged: list[ViabilityPrediction] = []
    edges: list[ViabilityEdge] = []
    by_rule: list[ViabilityEdge] = []
    for name in sorted({trial.network for trial in known}):
        others = [trial for trial in known if trial.network != name]
        own = [trial for trial in known if trial.network == name]
        rest = tuple(curve for curve in data.curves if curve.workload_network != name)
        learnt = as_never_run(others, replace(data, curves=rest))
        told, found = predict_viability(learnt, as_never_run(own, data))
        judged += told
        edges += found
        by_rule += [_by_rule(edge, own) for edge in found]
    score = score_viability("network", judged, edges)
    rule_right = np.mean([(trial.room >= 0) == trial.viable for trial in known])
    return {
        "trials": score.trials,
        "killed": score.killed,
        "right": score.right,
        "dangerous": score.dangerous,
        "edges": len(edges),
        "within_3": _near(edges),
        "median_error": score.median_error,
        "rule_right": float(rule_right),
        "rule_within_3": _near(by_rule),
    }


def _by_rule(edge: ViabilityEdge, own: Sequence[ViabilityTrial]) -> ViabilityEdge:
    need = next(
        trial.need_bytes
        for trial in own
        if (trial.swap_bytes, trial.limit_bytes) == (edge.swap_bytes, edge.killed_bytes)
    )
    return replace(edge, predicted_bytes=max(need - edge.swap_bytes, 1.0))


def _near(edges: Sequence[ViabilityEdge]) -> float:
    return float(np.mean([edge.error <= _NEAR for edge in edges]))
