"""How right predictions of viability are for networks that were left out of the fit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgebench.slowdown.viability import (
    CONFIDENT,
    Viability,
    ViabilityTrial,
    fit_viability,
)


@dataclass(frozen=True)
class ViabilityEdge:
    """The limit below which a workload's trials are killed, measured and predicted.

    Measured is an interval: killed at ``killed_bytes``, finished at ``viable_bytes``.
    """

    network: str
    swap_bytes: float
    killed_bytes: float
    viable_bytes: float
    predicted_bytes: float

    @property
    def error(self) -> float:
        """|ln(predicted / measured)|; 0 within the interval."""
        nearest = min(max(self.predicted_bytes, self.killed_bytes), self.viable_bytes)
        return abs(math.log(max(self.predicted_bytes, 1.0) / nearest))


@dataclass(frozen=True)
class ViabilityScore:
    """How right predictions of viability are.

    Attributes:
        split: which trials were left out of the fit.
        trials, killed: how many were predicted, and how many of them did not finish.
        right: share of right predictions.
        wrongly_viable, wrongly_killed: how many were predicted the one and were the other.
        dangerous: how many were called viable with confidence (≥ 90 %) and were killed.
        edges: workloads of which some trials were killed and some not.
        within_10: share of those whose least viable limit is predicted within 10 %.
        median_error: median of |ln(predicted / measured)| over them.
    """

    split: str
    trials: int
    killed: int
    right: float
    wrongly_viable: int
    wrongly_killed: int
    dangerous: int
    edges: int
    within_10: float | None
    median_error: float | None


@dataclass(frozen=True)
class ViabilityPrediction:
    """A trial and the probability that it finishes, predicted without its network."""

    trial: ViabilityTrial
    probability: float


def predict_viability(
    known: Sequence[ViabilityTrial], tested: Sequence[ViabilityTrial]
) -> tuple[list[ViabilityPrediction], list[ViabilityEdge]]:
    """Predictions for the trials in ``tested``, fitted to the known ones."""
    learnt = fit_viability(known)
    predictions = [
        ViabilityPrediction(s, learnt.probability(s.limit_bytes, s.swap_bytes, s.need_bytes))
        for s in tested
    ]
    groups: dict[tuple[Any, ...], list[ViabilityTrial]] = {}
    for trial in tested:
        groups.setdefault(trial.workload, []).append(trial)
    edges = [edge for group in groups.values() if (edge := _edge(group, learnt))]
    return predictions, edges


def _edge(group: Sequence[ViabilityTrial], learnt: Viability) -> ViabilityEdge | None:
    killed = [trial.limit_bytes for trial in group if not trial.viable]
    viable = [s.limit_bytes for s in group if s.viable and s.limit_bytes > max(killed, default=0)]
    if not killed or not viable:
        return None
    first = group[0]
    predicted = learnt.least_bytes(first.swap_bytes, first.need_bytes)
    return ViabilityEdge(first.network, first.swap_bytes, max(killed), min(viable), predicted)


def score_viability(
    split: str, judged: Sequence[ViabilityPrediction], edges: Sequence[ViabilityEdge]
) -> ViabilityScore:
    """The score of a split's predictions."""
    wrong = [one for one in judged if (one.probability >= 0.5) != one.trial.viable]
    errors = np.array([edge.error for edge in edges])
    killed = [one for one in judged if not one.trial.viable]
    return ViabilityScore(
        split=split,
        trials=len(judged),
        killed=len(killed),
        right=1 - len(wrong) / len(judged),
        wrongly_viable=sum(not one.trial.viable for one in wrong),
        wrongly_killed=sum(one.trial.viable for one in wrong),
        dangerous=sum(one.probability >= CONFIDENT for one in killed),
        edges=len(edges),
        within_10=float(np.mean(errors <= math.log(1.1))) if edges else None,
        median_error=float(np.median(errors)) if edges else None,
    )
