"""How good predictions are, in raw seconds, by split, model and phase.

Errors are of the predicted against the measured median time, never of logarithms: 5 % of a
logarithm can be 30 % of a second.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from edgebench.slowdown.curves import Curve, FloatArray
from edgebench.slowdown.splits import workload

#: The phase under which all phases are scored together.
ALL = "all"
#: A curve's knee is where, from wide limits to tight ones, its slowdown passes this.
KNEE = 1.2


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
    def share(self) -> float | None:
        """The limit as a share of the measured demand."""
        demand = self.curve.demand_bytes
        return self.limit_bytes / demand if demand else None

    @property
    def inside_interval(self) -> list[bool]:
        """For each trial whether it lies in the interval; empty without an interval."""
        if self.low_s is None or self.high_s is None:
            return []
        return [self.low_s <= seconds <= self.high_s for seconds in self.repeats_s]


@dataclass(frozen=True)
class Score:
    """One model's errors in one split, for one phase or for all of them together.

    Attributes:
        count: how many limits were predicted, of all curves together.
        median_ape, mape: median and mean size of the errors, as shares of the measured time.
        within_5, within_10, within_15, within_25: share of answers whose error is no larger.
        bias: mean error with its sign; above 0 predicts too slow.
        coverage_90: share of trials that lie in the 90 % interval; None if the model has none.
        noise: what the repeats themselves differ by, as the same median error: no model can do
            better. None without repeats.
        knee: median of |ln(Ŵ/W)|, how far the predicted knee is from the measured one; None if
            no curve shows a knee in both.
        knees: how many curves that is of.
    """

    split: str
    model: str
    phase: str
    count: int
    median_ape: float
    mape: float
    within_5: float
    within_10: float
    within_15: float
    within_25: float
    bias: float
    coverage_90: float | None
    noise: float | None
    knee: float | None
    knees: int


def scores(answers: Sequence[HeldOutPrediction]) -> list[Score]:
    """One for each split, model and phase, and one for all phases, in the order of the answers."""
    grouped: dict[tuple[str, str, str], list[HeldOutPrediction]] = {}
    for answer in answers:
        for phase in (ALL, answer.curve.phase):
            grouped.setdefault((answer.split, answer.model, phase), []).append(answer)
    return [_score(*key, group) for key, group in grouped.items()]


def _score(split: str, model: str, phase: str, answers: Sequence[HeldOutPrediction]) -> Score:
    errors = np.array([answer.error for answer in answers])
    sizes = abs(errors)
    inside = [hit for answer in answers for hit in answer.inside_interval]
    knees = _knee_errors(answers)
    return Score(
        split=split,
        model=model,
        phase=phase,
        count=len(answers),
        median_ape=float(np.median(sizes)),
        mape=float(np.mean(sizes)),
        within_5=float(np.mean(sizes <= 0.05)),
        within_10=float(np.mean(sizes <= 0.10)),
        within_15=float(np.mean(sizes <= 0.15)),
        within_25=float(np.mean(sizes <= 0.25)),
        bias=float(np.mean(errors)),
        coverage_90=float(np.mean(inside)) if inside else None,
        noise=repeat_noise(answers),
        knee=float(np.median(knees)) if knees else None,
        knees=len(knees),
    )


def repeat_noise(answers: Iterable[HeldOutPrediction]) -> float | None:
    """Median distance of a repeat from its limit's median; None without repeats."""
    distances = [
        abs(seconds / answer.measured_s - 1)
        for answer in answers
        if len(answer.repeats_s) > 1
        for seconds in answer.repeats_s
    ]
    return float(np.median(distances)) if distances else None


def knee_bytes(limit_bytes: FloatArray, slowdown: FloatArray, factor: float = KNEE) -> float | None:
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


def _knee_errors(answers: Iterable[HeldOutPrediction]) -> list[float]:
    """|ln(Ŵ/W)| of each curve whose every limit was predicted and that has both knees."""
    found = []
    for group in by_curve(answers):
        unlimited = group[0].curve.unlimited_s
        limits = np.array([answer.limit_bytes for answer in group])
        predicted = np.array([answer.predicted_s for answer in group]) / unlimited
        measured = np.array([answer.measured_s for answer in group]) / unlimited
        knees = knee_bytes(limits, predicted), knee_bytes(limits, measured)
        if knees[0] is not None and knees[1] is not None:
            found.append(abs(float(np.log(knees[0] / knees[1]))))
    return found


def by_curve(answers: Iterable[HeldOutPrediction]) -> list[list[HeldOutPrediction]]:
    """Answers of one model, curve by curve."""
    groups: dict[tuple[str, str, str], list[HeldOutPrediction]] = {}
    for answer in answers:
        curve = answer.curve
        groups.setdefault((workload(curve), curve.network, curve.phase), []).append(answer)
    return list(groups.values())
