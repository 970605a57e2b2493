"""Errors by use, by model and by how much a point is slowed.

Four phases of one trial are not four facts: a workload's points give one number first, their
median, and workloads give the median of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgebench.slowdown.evaluation.scores import (
    ALL,
    HeldOutPrediction,
    by_curve,
    knee_bytes,
    repeat_noise,
)
from edgebench.slowdown.models.base import all_models
from edgebench.slowdown.splits import workload

#: What is known of a workload that is predicted → the splits that leave out the rest.
USES = {
    "known": ("limit-inside", "limit-outside"),
    "unlimited": ("network",),
    "unrun": ("network-unrun",),
    "held-out": ("held-out",),
    "held-out-unrun": ("held-out-unrun",),
}
#: Slowdowns from … to below ….
BANDS = {"all": (0.0, np.inf), "1.2": (1.2, 1.5), "1.5": (1.5, np.inf), "2": (2.0, np.inf)}
#: Points that are slowed by so much, or that the model predicts to be: what it says in vain counts.
SLOWED, EITHER = 1.5, "either"
#: What is slowed by less is not slowed.
_FREE = 1.2
#: The slowdown whose limit is the cliff, and how near a predicted one is right: with storage at a
#: declared speed, and as it is.
_CLIFF, _NEAR, _RIGHT = 2.0, np.log(1.03), np.log(1.06)


@dataclass(frozen=True)
class UseScore:
    """One model's errors in one use, at points of one band of measured slowdown.

    Attributes:
        use, model, band: keys of :data:`USES` and :data:`BANDS` (or :data:`EITHER`), and the
            model's name.
        baseline: whether the model is only shown for comparison.
        points, workloads: how many points, and of how many workloads.
        error: median over workloads of each one's median error, as a share of the measured time.
        point_error: median over all points.
        factor_error: as ``error``, of slowdown factors instead of seconds.
        within_25: share of points that are off by at most 25 %.
        coverage_90: share of trials in the 90 % interval; None if the model has none.
        false_alarms: points predicted to be slowed by :data:`SLOWED` that are not slowed.
        misses: points slowed by so much that are predicted not to be.
        noise: how far repeats are from their point's median; None without repeats.
        cliffs: how many workloads are slowed twice from some limit down, as measured.
        cliff_within_3, cliff_within_6: share of them whose limit is predicted within 3 and 6 %, of
            those predicted never to be slowed so much none; None without any.
    """

    use: str
    model: str
    band: str
    baseline: bool
    points: int
    workloads: int
    error: float
    point_error: float
    factor_error: float
    within_25: float
    coverage_90: float | None
    false_alarms: int
    misses: int
    noise: float | None
    cliffs: int
    cliff_within_3: float | None
    cliff_within_6: float | None


def use_scores(answers: Sequence[HeldOutPrediction], phase: str = ALL) -> list[UseScore]:
    """One for each use, model and band that has points; models that predict come first."""
    rank = {model.name: (model.baseline, -model.rank) for model in all_models()}
    found = []
    for use, splits in USES.items():
        own = [a for a in answers if a.split in splits and phase in (ALL, a.curve.phase)]
        for model in sorted({a.model for a in own}, key=lambda name: rank.get(name, (True, 0))):
            baseline = rank.get(model, (True, 0))[0]
            every = [a for a in own if a.model == model]
            for band, (least, most) in BANDS.items():
                if some := [a for a in every if least <= a.slowdown < most]:
                    found.append(_score(use, model, band, baseline, some))
            if some := [a for a in every if max(a.slowdown, a.factor) >= SLOWED]:
                found.append(_score(use, model, EITHER, baseline, some))
    return found


def _score(
    use: str, model: str, band: str, baseline: bool, some: Sequence[HeldOutPrediction]
) -> UseScore:
    sizes = np.array([abs(one.error) for one in some])
    inside = [hit for one in some for hit in one.inside_interval]
    cliffs = _cliffs(some) if band == "all" else []
    return UseScore(
        use=use,
        model=model,
        band=band,
        baseline=baseline,
        points=len(some),
        workloads=len({workload(one.curve) for one in some}),
        error=_of_workloads(some, sizes),
        point_error=float(np.median(sizes)),
        factor_error=_of_workloads(some, np.array([abs(one.factor_error) for one in some])),
        within_25=float(np.mean(sizes <= 0.25)),
        coverage_90=float(np.mean(inside)) if inside else None,
        false_alarms=sum(one.factor >= SLOWED and one.slowdown < _FREE for one in some),
        misses=sum(one.slowdown >= SLOWED and one.factor < _FREE for one in some),
        noise=repeat_noise(some),
        cliffs=len(cliffs),
        cliff_within_3=float(np.mean(np.abs(cliffs) <= _NEAR)) if cliffs else None,
        cliff_within_6=float(np.mean(np.abs(cliffs) <= _RIGHT)) if cliffs else None,
    )


def _of_workloads(some: Sequence[HeldOutPrediction], sizes: np.ndarray) -> float:
    """The median over workloads of their medians."""
    groups: dict[str, list[float]] = {}
    for one, size in zip(some, sizes, strict=True):
        groups.setdefault(workload(one.curve), []).append(float(size))
    return float(np.median([np.median(group) for group in groups.values()]))


def _cliffs(answers: Sequence[HeldOutPrediction]) -> list[float]:
    """ln(predicted / measured) of the limits below which steady rounds take twice as long."""
    found = []
    for group in by_curve(a for a in answers if a.curve.phase == "total"):
        limits = np.array([a.limit_bytes for a in group])
        factors = np.array([[a.factor for a in group], [a.slowdown for a in group]])
        predicted, measured = (knee_bytes(limits, row, _CLIFF) for row in factors)
        if measured is not None:
            off = np.inf if predicted is None else np.log(predicted / measured)
            found.append(float(off))
    return found
