"""The slowdown model's answers to what it was not shown, and what the plain rules say."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from claims.kept import FIGURES, folder, sweep

if TYPE_CHECKING:
    from edgebench.slowdown.evaluation.viability_scores import (
        ViabilityEdge,
        ViabilityPrediction,
        ViabilityScore,
    )
    from edgebench.slowdown.viability import ViabilityTrial

#: The families asked about apart.
APART = ("convnext", "densenet")


@dataclass(frozen=True)
class Answer:
    """Predicted seconds of a point, with the ends of the 90 % interval if the model tells one."""

    point: dict[str, Any]
    predicted_s: float
    low_s: float | None
    high_s: float | None

    @property
    def measured_s(self) -> float:
        """The median of the trials."""
        return statistics.median(self.point["repeats_s"])

    @property
    def error(self) -> float:
        """As a share of what was measured; above 0 is too slow."""
        return self.predicted_s / self.measured_s - 1

    @property
    def slowdown(self) -> float:
        """As measured."""
        return float(self.measured_s / self.point["unlimited_s"])

    @property
    def held(self) -> list[bool]:
        """For each trial whether the interval holds it."""
        if self.low_s is None or self.high_s is None:
            return []
        return [self.low_s <= seconds <= self.high_s for seconds in self.point["repeats_s"]]


@cache
def _kept() -> dict[str, Any]:
    made: dict[str, Any] = json.loads((FIGURES / "validation.json").read_text())
    newest = folder("validation").name
    if made["sweep"] != newest:
        raise LookupError(f"asked of {made['sweep']}: run benchmarks/validation.py on {newest}")
    return made


def models(split: str) -> list[str]:
    """Which were asked there."""
    return list(_kept()["answers"][split])


@cache
def answers(split: str, model: str = "corrected") -> list[Answer]:
    """All of a split and model."""
    points = _kept()["points"]
    return [Answer(points[row[0]], *row[1:]) for row in _kept()["answers"][split][model]]


def where(split: str, model: str, wanted: Callable[[Answer], bool]) -> list[Answer]:
    """Those of a split and model that are wanted."""
    return [answer for answer in answers(split, model) if wanted(answer)]


def median_error(some: Sequence[Answer]) -> float:
    """Per cent."""
    return 100 * statistics.median(abs(answer.error) for answer in some)


def mean_error(some: Sequence[Answer]) -> float:
    """Per cent."""
    return 100 * statistics.mean(abs(answer.error) for answer in some)


def bias(some: Sequence[Answer]) -> float:
    """Per cent."""
    return 100 * statistics.mean(answer.error for answer in some)


def within(some: Sequence[Answer], share: float) -> float:
    """Per cent of the answers that are off by no more than this share."""
    return 100 * statistics.mean(abs(answer.error) <= share for answer in some)


def coverage(some: Sequence[Answer]) -> float | None:
    """Per cent of trials that the intervals hold."""
    held = [hit for answer in some for hit in answer.held]
    return 100 * statistics.mean(held) if held else None


def noise(some: Sequence[Answer]) -> float:
    """The median distance of a repeat from its point's median, per cent."""
    return 100 * statistics.median(
        abs(seconds / answer.measured_s - 1)
        for answer in some
        for seconds in answer.point["repeats_s"]
    )


@cache
def viability_trials() -> list[ViabilityTrial]:
    """The trials of the second sweep whose swap is bounded."""
    from edgebench.slowdown.viability import viability_trials

    return viability_trials(sweep("validation-edge"))


@cache
def _judged() -> tuple[dict[str, list[ViabilityPrediction]], dict[str, list[ViabilityEdge]]]:
    from edgebench.slowdown.evaluation.viability_scores import cross_validate_viability

    return cross_validate_viability(viability_trials(), APART)


def viability(split: str) -> ViabilityScore:
    """How right what is learnt of viability is."""
    from edgebench.slowdown.evaluation.viability_scores import score_viability

    judged, edges = _judged()
    return score_viability(split, judged[split], edges[split])


def rule_right(split: str | None = None) -> float:
    """Per cent of trials of which "limit + swap ≥ measured demand" says how they ended."""
    some = viability_trials() if split is None else [one.trial for one in _judged()[0][split]]
    return 100 * statistics.mean((trial.room >= 0) == trial.viable for trial in some)


def rule_edges() -> tuple[int, int]:
    """How many edges the same rule places within 10 %, and of how many."""
    errors = [
        _rule_error(edge, [j.trial for j in _judged()[0][split]])
        for split in ("network", "held-out")
        for edge in _judged()[1][split]
    ]
    return sum(error <= math.log(1.1) for error in errors), len(errors)


def _rule_error(edge: ViabilityEdge, some: Sequence[ViabilityTrial]) -> float:
    """``|ln(said / seen)|`` of the rule, 0 within the interval that was seen."""
    need = next(
        trial.need_bytes
        for trial in some
        if (trial.network, trial.swap_bytes, trial.limit_bytes)
        == (edge.network, edge.swap_bytes, edge.killed_bytes)
    )
    said = max(need - edge.swap_bytes, 1.0)
    return abs(math.log(said / min(max(said, edge.killed_bytes), edge.viable_bytes)))


def repeats() -> list[list[float]]:
    """What the trials of each point took."""
    return [point["repeats_s"] for point in _kept()["points"]]


def moved(split: str, model: str) -> list[Answer]:
    """The answers, those of each curve times what they are off by in the median."""
    curves: dict[tuple[str, ...], list[Answer]] = {}
    for answer in answers(split, model):
        point = answer.point
        key = tuple(point[name] for name in ("network", "schedule", "loader", "phase"))
        curves.setdefault(key, []).append(answer)
    return [
        replace(answer, predicted_s=answer.predicted_s * factor)
        for some in curves.values()
        for factor in [statistics.median(a.measured_s / a.predicted_s for a in some)]
        for answer in some
    ]
