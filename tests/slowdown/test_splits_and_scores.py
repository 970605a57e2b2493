"""What is left out when something is asked, and how answers are scored."""

from __future__ import annotations

import pytest
from curve_making import MIB, curve, curves

from edgebench.slowdown.evaluation.scores import ALL, HeldOutPrediction, scores
from edgebench.slowdown.splits import family, folds, same_curve, unseen, workload


def answer(
    predicted: float, repeats: tuple[float, ...], split: str = "network", **told
) -> HeldOutPrediction:
    """A model's prediction for the tightest limit of a curve."""
    bounds = {"low_s": None, "high_s": None, **told}
    return HeldOutPrediction(
        split, "some", curve(), 100.0 * MIB, predicted, repeats_s=repeats, **bounds
    )


def test_no_answer_stands_in_its_own_question():
    """Of a workload whose limit is asked, no phase knows that limit; nor anything that is out."""
    for fold in folds(curves(), ["densenet"]):
        for question in fold.test:
            for known in fold.training:
                if question.split.startswith("limit"):
                    same = workload(known) == workload(question.curve)
                    assert not (same and question.limit_bytes in known.limits)
                elif question.split == "network":
                    assert known.network != question.curve.network
                elif question.split in ("family", "held-out"):
                    assert family(known) != family(question.curve)
                else:
                    assert known.settings["schedule"] != question.curve.settings["schedule"]


def test_an_unseen_curve_has_no_times():
    """What is given to a model of a new network holds nothing of its answer."""
    below = unseen(curve())
    assert not len(below.seconds)
    assert below.unlimited_s == 2.0
    nothing = unseen(curve(), with_unlimited=False)
    assert not len(nothing.unlimited_seconds)
    assert nothing.demand_bytes is None
    assert same_curve(curve(), [below]) is below


def test_errors_are_of_seconds():
    """Certified answers: each figure of a score is what it says."""
    answers = [answer(p, (2.0,)) for p in (2.0, 2.08, 2.3, 1.6, 4.0)]
    (score, _) = scores(answers)
    assert (score.phase, score.count) == (ALL, 5)
    assert score.median_ape == pytest.approx(0.15)
    assert score.mape == pytest.approx((0 + 0.04 + 0.15 + 0.2 + 1.0) / 5)
    assert score.bias == pytest.approx((0 + 0.04 + 0.15 - 0.2 + 1.0) / 5)
    assert (score.within_5, score.within_10, score.within_15, score.within_25) == pytest.approx(
        (0.4, 0.4, 0.6, 0.8)
    )
    assert score.coverage_90 is None
    assert score.noise is None
