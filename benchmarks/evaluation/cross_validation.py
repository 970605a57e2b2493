"""Predictions of limits, networks, families and schedules that were left out of the fit.

Every model predicts every point of every split, fitted only to the fold's training curves.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

import numpy as np

from edgebench.layers.names import family_of
from edgebench.slowdown.context import CannotPredictError, Context, DeviceData
from edgebench.slowdown.curves import Curve, by_engine
from edgebench.slowdown.models.base import Fit, Model
from edgebench.slowdown.models.fitting import Fold, HeldOutPoint, limit_folds
from evaluation.baselines import compared_models
from evaluation.scores import HeldOutPrediction

#: Splits whose networks are new, and the split of the same points predicted without even the
#: network's unlimited trials.
WITHOUT_TRIALS = {"network": "network-unrun", "held-out": "held-out-unrun"}


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
        for model in compared_models():
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
        parts = [((same_curve(one[0], fold.training) or one[0].unseen(),), [one]) for one in every]
    for training, tested in parts:
        try:
            fit = model.fit(training, context)
        except CannotPredictError:
            continue
        for curve, points in tested:
            split = points[0].split
            yield from _of_curve(model, fit, curve.unseen(), points, context)
            if split in WITHOUT_TRIALS:
                renamed = [
                    HeldOutPoint(p.curve, p.limit_bytes, WITHOUT_TRIALS[split]) for p in points
                ]
                bare = curve.unseen(with_unlimited=False)
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


def folds(curves: Sequence[Curve], held_out: Collection[str] = ()) -> list[Fold]:
    """Every fold of every split.

    Curves of the families in ``held_out`` are in no fold but the last, which tests all of them
    after fitting to all others.
    """
    kept = [curve for curve in curves if not _is_of(curve, held_out)]
    apart = [curve for curve in curves if _is_of(curve, held_out)]
    made = [
        *limit_folds(kept),
        *_groups(kept, "network", lambda curve: curve.workload_network),
        *_groups(kept, "family", family),
        *_groups(kept, "schedule", lambda curve: str(curve.settings.get("schedule", ""))),
    ]
    if apart and kept:
        made.append(_fold("held-out", ", ".join(sorted(held_out)), kept, apart))
    return made


def family(curve: Curve) -> str:
    """The family of :attr:`Curve.workload_network`."""
    return family_of(curve.workload_network)


def same_curve(curve: Curve, among: Sequence[Curve]) -> Curve | None:
    """The curve of the same network, phase and settings; None if there is none."""
    wanted = (curve.network, curve.phase, curve.settings)
    return next((c for c in among if (c.network, c.phase, c.settings) == wanted), None)


def _is_of(curve: Curve, families: Collection[str]) -> bool:
    return any(part in families for part in family(curve).split("+"))


def _groups(curves: Sequence[Curve], split: str, of: Callable[[Curve], str]) -> Iterator[Fold]:
    names = sorted({of(curve) for curve in curves if len(curve.limits)})
    if len(names) < 2:
        return
    for name in names:
        known = [curve for curve in curves if of(curve) != name]
        yield _fold(split, name, known, [curve for curve in curves if of(curve) == name])


def _fold(split: str, left_out: str, known: Sequence[Curve], test: Sequence[Curve]) -> Fold:
    points = (HeldOutPoint(c, float(limit), split) for c in test for limit in c.limits)
    return Fold(left_out, tuple(known), tuple(points))
