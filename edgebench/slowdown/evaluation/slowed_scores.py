"""Errors where memory matters: of the model that would have been used, beside the baseline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from edgebench.slowdown.evaluation.scores import ALL, HeldOutPrediction
from edgebench.slowdown.models.base import all_models
from edgebench.slowdown.models.not_slowed import Unslowed

#: Points slowed at least so much: elsewhere "not slowed" is nearly right.
SLOWED = 1.5
#: In these splits the workload's own limits choose the model, so it can't be named beforehand.
_OWN_LIMITS = ("limit-inside", "limit-outside")


@dataclass(frozen=True)
class SlowedScore:
    """Errors of one split at points slowed by :data:`SLOWED` or more.

    Attributes:
        models: the models that `predict` would have used, each for some of the points; or the one
            that turned out best.
        chosen_after: it is the one that turned out best.
        count: how many points.
        median_ape: median size of the errors, as a share of the measured time.
        baseline_ape: the same if "not slowed" is always the answer; None if that has none.
        within_25: share of predictions that are off by at most 25 %.
        coverage_90: share of trials in the 90 % interval; None if no model has one.
    """

    split: str
    models: tuple[str, ...]
    chosen_after: bool
    count: int
    median_ape: float
    baseline_ape: float | None
    within_25: float
    coverage_90: float | None


def slowed_scores(answers: Sequence[HeldOutPrediction], phase: str = ALL) -> list[SlowedScore]:
    """One for each split with such points, in the order of the answers."""
    splits: dict[str, list[HeldOutPrediction]] = {}
    for one in answers:
        slowdown = one.measured_s / one.curve.unlimited_s
        if phase in (ALL, one.curve.phase) and slowdown >= SLOWED:
            splits.setdefault(one.split, []).append(one)
    return [found for split, group in splits.items() for found in _score(split, group)]


def _score(split: str, group: Sequence[HeldOutPrediction]) -> Iterator[SlowedScore]:
    baseline = [one for one in group if one.model == Unslowed.name]
    others = [one for one in group if one.model != Unslowed.name]
    if not others:
        return
    after = split in _OWN_LIMITS
    used = _best(others) if after else _used(others)
    sizes = np.array([abs(one.error) for one in used])
    inside = [hit for one in used for hit in one.inside_interval]
    yield SlowedScore(
        split=split,
        models=tuple(dict.fromkeys(one.model for one in used)),
        chosen_after=after,
        count=len(used),
        median_ape=float(np.median(sizes)),
        baseline_ape=_median_error(baseline) if baseline else None,
        within_25=float(np.mean(sizes <= 0.25)),
        coverage_90=float(np.mean(inside)) if inside else None,
    )


def _best(answers: Sequence[HeldOutPrediction]) -> list[HeldOutPrediction]:
    """Those of the model whose median error turned out smallest."""
    by_model: dict[str, list[HeldOutPrediction]] = {}
    for one in answers:
        by_model.setdefault(one.model, []).append(one)
    return min(by_model.values(), key=_median_error)


def _used(answers: Sequence[HeldOutPrediction]) -> list[HeldOutPrediction]:
    """For each point that of the least simple model, as `predict` chooses for a new network."""
    ranks = {model.name: model.rank for model in all_models()}
    found: dict[tuple[int, float], HeldOutPrediction] = {}
    for one in answers:
        key = id(one.curve), one.limit_bytes
        if key not in found or ranks[one.model] > ranks[found[key].model]:
            found[key] = one
    return list(found.values())


def _median_error(answers: Sequence[HeldOutPrediction]) -> float:
    return float(np.median([abs(one.error) for one in answers]))
