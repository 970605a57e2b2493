"""Splits into curves to fit to and points to predict; no fit sees the points it is tested on.

All phases of a workload come from the same trials, so they are always left out together.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from edgebench.layers.names import family_of
from edgebench.slowdown.curves import Curve


@dataclass(frozen=True)
class HeldOutPoint:
    """A limit of a curve to be predicted. ``curve`` is whole: it holds the measured time."""

    curve: Curve
    limit_bytes: float
    split: str


@dataclass(frozen=True)
class Fold:
    """Curves to fit to (``training``), and points to predict then (``test``).

    ``left_out`` names what is not fitted to: a network, a family, a schedule, or which limits.
    """

    left_out: str
    training: tuple[Curve, ...]
    test: tuple[HeldOutPoint, ...]


def folds(curves: Sequence[Curve], held_out: Collection[str] = ()) -> list[Fold]:
    """Every fold of every split.

    Curves of the families in ``held_out`` are in no fold but the last, which tests all of them
    after fitting to all others.
    """
    kept = [curve for curve in curves if not _is_of(curve, held_out)]
    apart = [curve for curve in curves if _is_of(curve, held_out)]
    made = [
        *limit_folds(kept),
        *_groups(kept, "network", workload_network),
        *_groups(kept, "family", family),
        *_groups(kept, "schedule", lambda curve: str(curve.settings.get("schedule", ""))),
    ]
    if apart and kept:
        made.append(_fold("held-out", ", ".join(sorted(held_out)), kept, apart))
    return made


def workload_network(curve: Curve) -> str:
    """The network of the curve's trials: for one of a pipeline, the whole pipeline."""
    return str(curve.settings.get("pipeline") or curve.network)


def family(curve: Curve) -> str:
    """The family of :func:`workload_network`."""
    return family_of(workload_network(curve))


def by_engine(curves: Sequence[Curve]) -> dict[str, list[Curve]]:
    """Engine → its curves: times in one say nothing of another."""
    found: dict[str, list[Curve]] = {}
    for curve in curves:
        found.setdefault(curve.engine, []).append(curve)
    return found


def workload(curve: Curve) -> str:
    """What the curves of the same trials share: network and settings, not the phase."""
    return json.dumps([workload_network(curve), curve.settings], sort_keys=True, default=str)


def same_curve(curve: Curve, among: Sequence[Curve]) -> Curve | None:
    """The curve of the same network, phase and settings; None if there is none."""
    wanted = (curve.network, curve.phase, curve.settings)
    return next((c for c in among if (c.network, c.phase, c.settings) == wanted), None)


def _is_of(curve: Curve, families: Collection[str]) -> bool:
    return any(part in families for part in family(curve).split("+"))


def limit_folds(curves: Sequence[Curve]) -> Iterator[Fold]:
    """One fold a rank: of every workload, the limit of that rank is left out."""
    limits_of: dict[str, list[float]] = {}
    for curve in curves:
        limits_of.setdefault(workload(curve), []).extend(curve.limits)
    ranked = {key: sorted(set(limits)) for key, limits in limits_of.items()}
    for rank in range(max((len(limits) for limits in ranked.values()), default=0)):
        gone = {key: limits[rank] for key, limits in ranked.items() if rank < len(limits)}
        pairs = [(curve, gone.get(workload(curve))) for curve in curves]
        known = [curve if limit is None else curve.without(limit) for curve, limit in pairs]
        test = [_held_out_point(curve, limit) for curve, limit in pairs]
        yield Fold(
            left_out=f"limit {rank + 1}",
            training=tuple(curve for curve in known if len(curve.limits)),
            test=tuple(point for point in test if point),
        )


def _held_out_point(curve: Curve, limit: float | None) -> HeldOutPoint | None:
    if limit is None or limit not in curve.limits or len(curve.limits) < 2:
        return None
    inside = curve.limits[0] < limit < curve.limits[-1]
    return HeldOutPoint(curve, float(limit), "limit-inside" if inside else "limit-outside")


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


def unseen(curve: Curve, *, with_unlimited: bool = True) -> Curve:
    """The curve as a network's that was never run below a limit: no times but unlimited ones.

    ``with_unlimited`` false takes those away too, and the demand that they showed.
    """
    nothing = curve.limit_bytes[:0]
    below = replace(curve, limit_bytes=nothing, seconds=nothing, lost_bytes={})
    if with_unlimited:
        return below
    return replace(below, unlimited_seconds=nothing, demand_bytes=None)
