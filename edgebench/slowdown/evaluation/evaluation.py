"""The whole evaluation: predictions of all splits, viability, links of the physical model.

Every model predicts every point of every split, fitted only to the fold's training curves.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from edgebench.errors import ResultsError, UsageError
from edgebench.slowdown.context import CannotPredictError, Context, DeviceData, device_data
from edgebench.slowdown.curves import Curve, curves
from edgebench.slowdown.evaluation.links import Link, LinkScore, links, score_links
from edgebench.slowdown.evaluation.scores import HeldOutPrediction, Score, scores
from edgebench.slowdown.evaluation.viability_scores import (
    ViabilityEdge,
    ViabilityPrediction,
    ViabilityScore,
    cross_validate_viability,
    score_viability,
)
from edgebench.slowdown.models.base import Fit, Model, all_models
from edgebench.slowdown.models.fitting import LEAST_LIMITS, TOO_FEW_REMEDY
from edgebench.slowdown.splits import (
    Fold,
    HeldOutPoint,
    by_engine,
    family,
    folds,
    same_curve,
    unseen,
)
from edgebench.slowdown.viability import fit_viability, viability_trials
from edgebench.text import did_you_mean

if TYPE_CHECKING:
    from edgebench.results.results import Results


#: Splits whose networks are new, and the split of the same points predicted without even the
#: network's unlimited trials.
WITHOUT_TRIALS = {"network": "network-unrun", "held-out": "held-out-unrun"}


@dataclass(frozen=True)
class Evaluation:
    """Predictions of held-out points, and their scores.

    ``held_out`` are the families that were kept out of all fitting; ``lacking`` are warnings about
    what could not be evaluated.
    """

    held_out: tuple[str, ...]
    answers: list[HeldOutPrediction]
    scores: list[Score]
    judged: dict[str, list[ViabilityPrediction]]
    edges: dict[str, list[ViabilityEdge]]
    viability: list[ViabilityScore]
    links: list[Link]
    link_scores: list[LinkScore]
    lacking: list[str]


def evaluate(
    results: Results,
    held_out: Collection[str] = (),
    progress: Callable[[str], None] = lambda text: None,
) -> Evaluation:
    """Evaluate every device and kind of swap apart; ``progress`` gets a line for each step.

    Raises:
        ResultsError: nothing to evaluate: only unlimited trials, all killed, or too few limits.
        UsageError: a family to hold out that isn't there.
    """
    made = curves(results)
    where = str(results.sweeps[0].path)
    _check_families(held_out, made)
    if not any(len(curve.limits) >= LEAST_LIMITS for curve in made):
        raise ResultsError(
            "too few limits: to leave one out, two must be left at which a trial finished",
            where=where,
            remedy=TOO_FEW_REMEDY,
        )
    known, lacking = device_data(results)
    answers = [a for one in known for a in cross_validate(one, held_out, progress)]
    progress("comparing each link of the physical model with kernel counts")
    found = [link for one in known for link in links(results, one.context)]
    tried = viability_trials(results)
    judged, edges = cross_validate_viability(tried, held_out)
    return Evaluation(
        held_out=tuple(sorted(held_out)),
        answers=answers,
        scores=scores(answers),
        judged=judged,
        edges=edges,
        viability=[score_viability(split, judged[split], edges[split]) for split in judged],
        links=found,
        link_scores=score_links(found),
        lacking=[*lacking, *fit_viability(tried).left_out_words],
    )


def _check_families(held_out: Collection[str], made: Sequence[Curve]) -> None:
    known = {part for curve in made for part in family(curve).split("+")}
    for name in held_out:
        if name not in known:
            guess = did_you_mean(name, known)
            hint = f"did you mean {guess}?" if guess else f"one of {', '.join(sorted(known))}"
            raise UsageError(f"no family {name!r} among these results", remedy=hint)
    if known <= set(held_out):
        raise UsageError(
            "all families are held out: nothing is left to fit to",
            remedy="leave one out of --hold-out",
        )


def cross_validate(
    data: DeviceData,
    held_out: Collection[str] = (),
    progress: Callable[[str], None] = lambda text: None,
    without: Collection[str] = (),
) -> list[HeldOutPrediction]:
    """All predictions, split by split, model by model; ``progress`` gets a line for each fold.

    Folds of the splits ``without`` are passed over.
    """
    predictions: list[HeldOutPrediction] = []
    made = [fold for own in by_engine(data.curves).values() for fold in folds(own, held_out)]
    every = [f for f in made if not {point.split for point in f.test} <= set(without)]
    for number, fold in enumerate(every, 1):
        of = f"swap {data.swap_kind} on {data.device}"
        progress(f"[{number}/{len(every)}] {of}: without {fold.left_out}")
        for model in all_models():
            predictions += _of_fold(model, fold, data.context)
    return predictions


def _of_fold(model: Model, fold: Fold, context: Context) -> Iterator[HeldOutPrediction]:
    """A model of one curve is fitted to the curve's own other limits, any other to all curves."""
    by_curve: dict[int, tuple[Curve, list[HeldOutPoint]]] = {}
    for point in fold.test:
        by_curve.setdefault(id(point.curve), (point.curve, []))[1].append(point)
    every = list(by_curve.values())
    parts: list[tuple[Sequence[Curve], list[tuple[Curve, list[HeldOutPoint]]]]]
    parts = [(fold.training, every)]
    if model.per_curve:
        parts = [((same_curve(one[0], fold.training) or unseen(one[0]),), [one]) for one in every]
    for training, tested in parts:
        try:
            fit = model.fit(training, context)
        except CannotPredictError:
            continue
        for curve, points in tested:
            split = points[0].split
            yield from _of_curve(model, fit, unseen(curve), points, context)
            if split in WITHOUT_TRIALS:
                renamed = [
                    HeldOutPoint(p.curve, p.limit_bytes, WITHOUT_TRIALS[split]) for p in points
                ]
                bare = unseen(curve, with_unlimited=False)
                yield from _of_curve(model, fit, bare, renamed, context)


def _of_curve(
    model: Model, fit: Fit, curve: Curve, points: Sequence[HeldOutPoint], context: Context
) -> Iterator[HeldOutPrediction]:
    """``curve`` is that of the points, with what the model may know of it."""
    limits = np.array([point.limit_bytes for point in points])
    try:
        found = model.predict(fit, curve, limits, context)
    except CannotPredictError:
        return
    for n, point in enumerate(points):
        whole, interval = point.curve, found.interval
        yield HeldOutPrediction(
            split=point.split,
            model=model.name,
            curve=whole,
            limit_bytes=point.limit_bytes,
            predicted_s=float(found.slowdown[n]) * found.unlimited_s,
            low_s=float(interval[0][n]) * found.unlimited_s if interval else None,
            high_s=float(interval[1][n]) * found.unlimited_s if interval else None,
            repeats_s=tuple(whole.seconds[whole.limit_bytes == point.limit_bytes].tolist()),
            unlimited_s=found.unlimited_s,
        )
