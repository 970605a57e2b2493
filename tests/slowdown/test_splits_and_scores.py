"""What is left out when something is asked, and how answers are scored."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from curve_making import LIMITS, MIB, curve, curves, truth

from edgebench.slowdown.context import Context, DeviceData
from edgebench.slowdown.evaluation.evaluation import cross_validate
from edgebench.slowdown.evaluation.scores import ALL, KNEE, HeldOutPrediction, knee_bytes, scores
from edgebench.slowdown.evaluation.use_scores import EITHER, use_scores
from edgebench.slowdown.splits import family, folds, same_curve, unseen, workload

#: Every split.
SPLITS = ("limit-inside", "limit-outside", "network", "family", "schedule", "held-out")


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


def test_every_limit_is_asked_once_in_each_split():
    """Nothing is asked twice or forgotten; inner and outer limits are told apart."""
    made = [c for c in curves() if c.network != "densenet121"]
    asked = [q for fold in folds(curves(), ["densenet"]) for q in fold.test]
    counts = {split: sum(q.split == split for q in asked) for split in SPLITS}
    every = len(made) * len(LIMITS)
    assert counts["limit-inside"] == len(made) * (len(LIMITS) - 2)
    assert counts["limit-outside"] == len(made) * 2
    assert counts["network"] == counts["family"] == counts["schedule"] == every
    assert counts["held-out"] == 4 * len(LIMITS)


def test_held_out_families_are_known_to_nobody():
    """What is kept out of everything is neither known nor asked in any other fold."""
    for fold in folds(curves(), ["densenet"]):
        asked = {question.split for question in fold.test}
        assert all(c.network != "densenet121" for c in fold.training)
        if asked != {"held-out"}:
            assert all(q.curve.network != "densenet121" for q in fold.test)


def test_a_pipeline_is_left_out_as_a_whole():
    """The networks of a pipeline were run together, so they are asked together."""
    pipeline = [curve(n, pipeline="alexnet+vgg11") for n in ("alexnet", "vgg11")]
    made = folds([*pipeline, curve("resnet18")])
    (fold,) = [f for f in made if f.left_out == "alexnet+vgg11"]
    assert {question.curve.network for question in fold.test} == {"alexnet", "vgg11"}


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


def test_coverage_counts_trials_and_noise_is_theirs():
    """An interval is held against single trials; noise is how far they are from their median."""
    told = [answer(2.0, (1.8, 2.0, 2.2), low_s=1.9, high_s=2.1)]
    (score, _) = scores(told)
    assert score.coverage_90 == pytest.approx(1 / 3)
    assert score.noise == pytest.approx(0.1)


def test_the_knee_is_where_slowdown_passes_a_fifth():
    """Found between limits; none where it is never passed, or passed at the widest already."""
    limits = np.linspace(90, 200, 500) * MIB
    assert knee_bytes(limits, truth(limits / MIB)) == pytest.approx(
        170 * MIB / np.exp(((KNEE - 1) / 3) ** (1 / 1.5)), rel=0.01
    )
    assert knee_bytes(limits, np.ones(500)) is None
    assert knee_bytes(limits, np.full(500, 2.0)) is None


@pytest.mark.heavy
def test_a_right_model_scores_well_and_no_slowdown_badly():
    """The hinge predicts a hinge well, a line through its points less so, 'no slowdown' badly."""
    known = DeviceData("board", "file", tuple(curves(noise=0.01)), Context({}))
    made = {(s.split, s.model): s for s in scores(cross_validate(known)) if s.phase == ALL}
    inside = made["limit-inside", "hinge"]
    assert inside.median_ape < 0.02
    assert inside.median_ape < made["limit-inside", "measured"].median_ape
    assert made["limit-inside", "unslowed"].median_ape > 0.1
    assert inside.knee is not None
    assert inside.knee < 0.05
    assert ("network", "hinge") not in made
    assert made["network", "unslowed"].bias < 0


def test_a_network_with_one_limit_is_no_trouble():
    """Curves that have too few limits are left to the splits that can ask them."""
    lone = replace(curve("vgg11", limits=(150.0,)), network="vgg11")
    splits = {q.split for fold in folds([lone, *curves()]) for q in fold.test if q.curve is lone}
    assert splits == {"network", "family", "schedule"}


def test_a_workload_s_points_are_one_number_first():
    """Three points of one workload, one of another: the median of the two workloads' medians."""
    wrong, right = curve("alexnet"), curve("vgg11")
    some = [
        HeldOutPrediction("network", "combined", one, limit * MIB, predicted, None, None, (4.0,))
        for one, limit, predicted in (
            *((wrong, limit, 8.0) for limit in (100.0, 120.0, 140.0)),
            (right, 100.0, 4.0),
        )
    ]
    (every, slowed, twice, either) = use_scores(some)
    assert [one.band for one in (every, slowed, twice, either)] == ["all", "1.5", "2", EITHER]
    assert (every.points, every.workloads) == (4, 2)
    assert every.error == pytest.approx(0.5)
    assert every.point_error == pytest.approx(1.0)
    assert not every.baseline


def test_bands_are_of_what_was_measured():
    """A point slowed 1.3 times is in its band and in all; and in one more if told to be slowed."""
    one = HeldOutPrediction("network", "unslowed", curve(), 100.0 * MIB, 9.0, None, None, (2.6,))
    found = {score.band: score for score in use_scores([one])}
    assert {*found} == {"all", "1.2", EITHER}
    assert found["all"].baseline
    (*bands,) = use_scores([replace(one, predicted_s=2.0)])
    assert [score.band for score in bands] == ["all", "1.2"]


@pytest.mark.parametrize(
    ("predicted", "measured", "alarms", "misses"),
    [(3.0, 2.3, 1, 0), (2.3, 3.0, 0, 1), (2.9, 2.9, 0, 0), (2.5, 3.0, 0, 0)],
)
def test_what_is_said_in_vain_counts_and_what_is_missed(predicted, measured, alarms, misses):
    """Unlimited it takes 2 s: slowed is 3 s, and 2.4 s or more is slightly slowed."""
    about = ("network", "combined", curve(), 100.0 * MIB, predicted, None, None, (measured,))
    score = use_scores([HeldOutPrediction(*about)])[0]
    assert (score.false_alarms, score.misses) == (alarms, misses)


def test_a_slowdown_factor_is_held_against_its_own_unlimited_time():
    """Seconds off by an unlimited time that was guessed twice too long; the factor is right."""
    one = HeldOutPrediction(
        "network-unrun", "combined", curve(), 100.0 * MIB, 16.0, None, None, (8.0,), 4.0
    )
    (score, *_) = use_scores([one])
    assert (score.use, score.error) == ("unrun", pytest.approx(1.0))
    assert score.factor_error == pytest.approx(0.0)


def test_the_cliff_is_where_steady_rounds_take_twice_as_long():
    """Predicted within 6 % of the measured limit, or not."""
    whole = curve("alexnet", "total", limits=(60.0, 80.0, 100.0, 120.0, 140.0, 160.0, 180.0))

    def shifted(by: float) -> list[HeldOutPrediction]:
        return [
            HeldOutPrediction(
                *("network", "combined", whole, float(limit)),
                2.0 * float(truth(np.array([limit / MIB / by]))[0]),
                *(None, None),
                tuple(whole.seconds[whole.limit_bytes == limit]),
            )
            for limit in whole.limits
        ]

    near, far = (use_scores(shifted(by))[0] for by in (1.03, 1.3))
    assert (near.cliffs, near.cliff_within_6) == (1, 1.0)
    nearest = use_scores(shifted(1.02))[0]
    assert (nearest.cliff_within_3, far.cliff_within_3) == (1.0, 0.0)
    assert (far.cliffs, far.cliff_within_6) == (1, 0.0)
    never = [replace(one, predicted_s=whole.unlimited_s) for one in shifted(1.0)]
    assert (use_scores(never)[0].cliffs, use_scores(never)[0].cliff_within_6) == (1, 0.0)
