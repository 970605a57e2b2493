"""Errors of predictions by use, by model and by how much a point is slowed.

Errors are of seconds, predicted against the measured median, never of logarithms: 5 % of a
logarithm can be 30 % of a second. Four phases of one trial are not four facts: the points of a
workload give one number first, their median, and workloads give the median of these.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from edgebench.slowdown.curves import Curve, FloatArray
from evaluation.baselines import BASELINES, compared_models

#: The phase under which all phases are scored together.
ALL = "all"
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
class HeldOutPrediction:
    """The prediction of a limit that the model was not fitted to, and what was measured there.

    ``low_s`` and ``high_s`` bound where 90 % of trials should lie; None without an interval.
    ``repeats_s`` are the trials' times whose median is ``measured_s``; ``unlimited_s`` is the
    unlimited time that the model went by.
    """

    split: str
    model: str
    curve: Curve
    limit_bytes: float
    predicted_s: float
    low_s: float | None
    high_s: float | None
    repeats_s: tuple[float, ...]
    unlimited_s: float | None = None

    @property
    def measured_s(self) -> float:
        """The median of the trials."""
        return float(np.median(self.repeats_s))

    @property
    def error(self) -> float:
        """Signed, as a share of the measured time."""
        return self.predicted_s / self.measured_s - 1

    @property
    def slowdown(self) -> float:
        """As measured: the median against the median without a limit."""
        return self.measured_s / self.curve.unlimited_s

    @property
    def factor(self) -> float:
        """The slowdown as predicted, whatever unlimited time it multiplies."""
        return self.predicted_s / (self.unlimited_s or self.curve.unlimited_s)

    @property
    def factor_error(self) -> float:
        """Signed error of :attr:`factor`, as a share of the measured slowdown."""
        return self.factor / self.slowdown - 1

    @property
    def inside_interval(self) -> list[bool]:
        """For each trial whether it lies in the interval; empty without an interval."""
        if self.low_s is None or self.high_s is None:
            return []
        return [self.low_s <= seconds <= self.high_s for seconds in self.repeats_s]


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
    rank = {one.name: (one.name in BASELINES, -one.rank) for one in compared_models()}
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
        workloads=len({one.curve.workload for one in some}),
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
        groups.setdefault(one.curve.workload, []).append(float(size))
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


def repeat_noise(answers: Iterable[HeldOutPrediction]) -> float | None:
    """Median distance of a repeat from its limit's median; None without repeats."""
    distances = [
        abs(seconds / answer.measured_s - 1)
        for answer in answers
        if len(answer.repeats_s) > 1
        for seconds in answer.repeats_s
    ]
    return float(np.median(distances)) if distances else None


def knee_bytes(limit_bytes: FloatArray, slowdown: FloatArray, factor: float) -> float | None:
    """The limit at which slowdown passes a factor, coming from wide limits.

    Between two limits it lies on the line in ln M and ln S. None if slowdown never passes it, or
    has passed it at the widest limit already.
    """
    order = np.argsort(limit_bytes)[::-1]
    ln_limit, ln_slowdown = np.log(limit_bytes[order]), np.log(slowdown[order] / factor)
    passed = np.flatnonzero(ln_slowdown > 0)
    if not len(passed) or passed[0] == 0:
        return None
    wide, tight = passed[0] - 1, passed[0]
    part = ln_slowdown[wide] / (ln_slowdown[wide] - ln_slowdown[tight])
    return float(np.exp(ln_limit[wide] + part * (ln_limit[tight] - ln_limit[wide])))


def by_curve(answers: Iterable[HeldOutPrediction]) -> list[list[HeldOutPrediction]]:
    """Answers of one model, curve by curve."""
    groups: dict[tuple[str, str, str], list[HeldOutPrediction]] = {}
    for answer in answers:
        curve = answer.curve
        groups.setdefault((curve.workload, curve.network, curve.phase), []).append(answer)
    return list(groups.values())
