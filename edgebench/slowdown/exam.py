"""Every rung asked every question of every split, each time knowing only what the fold lets it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

import numpy as np

from edgebench.slowdown.data import Curve, FloatArray
from edgebench.slowdown.knowledge import Knowledge
from edgebench.slowdown.ladder import RUNGS, SET_RUNGS
from edgebench.slowdown.model import CannotTellError, Context, Fit, Rung, SetRung
from edgebench.slowdown.scores import Answer
from edgebench.slowdown.splits import Fold, Question, folds, same_curve, unseen

#: Splits whose networks are new, and as what they are asked for when not even an unlimited trial
#: of them is known.
UNRUN = {"network": "network-unrun", "held-out": "held-out-unrun"}
Bounds = tuple[FloatArray, FloatArray] | None


def examine(
    known: Knowledge,
    held_out: Collection[str] = (),
    rungs: Sequence[Rung] = RUNGS,
    set_rungs: Sequence[SetRung] = SET_RUNGS,
    under_way: Callable[[str], None] = lambda text: None,
) -> list[Answer]:
    """All answers, split by split, rung by rung; ``under_way`` is told what is asked next."""
    answers: list[Answer] = []
    every = folds(known.curves, held_out)
    for number, fold in enumerate(every, 1):
        of = f"swap {known.swap_kind} on {known.device}"
        under_way(f"[{number}/{len(every)}] {of}: without {fold.left_out}")
        for rung in rungs:
            answers += _ask(fold, rung)
        for set_rung in set_rungs:
            answers += _ask_set(fold, set_rung, known.context)
    return answers


def _ask(fold: Fold, rung: Rung) -> Iterator[Answer]:
    """A rung of one curve knows the curve's own other limits, if the fold does; nothing else."""
    for curve, questions in _by_curve(fold.asked):
        own = same_curve(curve, fold.known) or unseen(curve)
        limits = _limits(questions)
        try:
            fit = rung.fit(own)
            told = rung.predict(fit, limits), rung.interval(fit, limits)
        except CannotTellError:
            continue
        yield from _answers(rung.name, curve, questions, curve.unlimited_s, *told)


def _ask_set(fold: Fold, rung: SetRung, context: Context) -> Iterator[Answer]:
    """A rung of sets knows all that the fold lets it, and layer tables and the device."""
    try:
        fit = rung.fit(fold.known, context)
    except CannotTellError:
        return
    for curve, questions in _by_curve(fold.asked):
        yield from _from_set(rung, fit, unseen(curve), curve, questions, context)
        split = UNRUN.get(questions[0].split)
        if split:
            renamed = [Question(q.curve, q.limit_bytes, split) for q in questions]
            unrun = unseen(curve, with_unlimited=False)
            yield from _from_set(rung, fit, unrun, curve, renamed, context)


def _from_set(
    rung: SetRung,
    fit: Fit,
    asked: Curve,
    curve: Curve,
    questions: Sequence[Question],
    context: Context,
) -> Iterator[Answer]:
    limits = _limits(questions)
    try:
        unlimited_s = rung.unlimited_s(fit, asked, context)
        predicted = rung.predict(fit, asked, limits, context)
        bounds = rung.interval(fit, asked, limits, context)
    except CannotTellError:
        return
    yield from _answers(rung.name, curve, questions, unlimited_s, predicted, bounds)


def _limits(questions: Sequence[Question]) -> FloatArray:
    return np.array([question.limit_bytes for question in questions])


def _by_curve(asked: Sequence[Question]) -> list[tuple[Curve, list[Question]]]:
    grouped: dict[int, tuple[Curve, list[Question]]] = {}
    for question in asked:
        grouped.setdefault(id(question.curve), (question.curve, []))[1].append(question)
    return list(grouped.values())


def _answers(
    name: str,
    curve: Curve,
    questions: Sequence[Question],
    unlimited_s: float,
    predicted: FloatArray,
    bounds: Bounds,
) -> Iterator[Answer]:
    for n, question in enumerate(questions):
        yield Answer(
            split=question.split,
            rung=name,
            curve=curve,
            limit_bytes=question.limit_bytes,
            predicted_s=float(predicted[n]) * unlimited_s,
            low_s=float(bounds[0][n]) * unlimited_s if bounds else None,
            high_s=float(bounds[1][n]) * unlimited_s if bounds else None,
            repeats_s=tuple(curve.seconds[curve.limit_bytes == question.limit_bytes].tolist()),
        )
