"""What is left out of a fit before it is predicted."""

from __future__ import annotations

from curve_making import curve, curves

from edgebench.slowdown.models.fitting import limit_folds


def test_no_answer_stands_in_its_own_question():
    """Of a workload whose limit is asked, no phase knows that limit."""
    folds = list(limit_folds(curves()))
    assert any(fold.test for fold in folds)
    for fold in folds:
        for question in fold.test:
            for known in fold.training:
                same = known.workload == question.curve.workload
                assert not (same and question.limit_bytes in known.limits)


def test_an_unseen_curve_has_no_times():
    """What is given to a model of a new network holds nothing of its answer."""
    below = curve().unseen()
    assert not len(below.seconds)
    assert below.unlimited_s == 2.0
    nothing = curve().unseen(with_unlimited=False)
    assert not len(nothing.unlimited_seconds)
    assert nothing.demand_bytes is None
