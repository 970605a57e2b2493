"""Splits into curves to fit to and points to predict; no fit sees the points it is tested on.

All phases of a workload come from the same trials, so they are always left out together.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

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


def workload_network(curve: Curve) -> str:
    """The network of the curve's trials: for one of a pipeline, the whole pipeline."""
    return str(curve.settings.get("pipeline") or curve.network)


def by_engine(curves: Sequence[Curve]) -> dict[str, list[Curve]]:
    """Engine → its curves: times in one say nothing of another."""
    found: dict[str, list[Curve]] = {}
    for curve in curves:
        found.setdefault(curve.engine, []).append(curve)
    return found


def workload(curve: Curve) -> str:
    """What the curves of the same trials share: network and settings, not the phase."""
    return json.dumps([workload_network(curve), curve.settings], sort_keys=True, default=str)


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


def unseen(curve: Curve, *, with_unlimited: bool = True) -> Curve:
    """The curve as a network's that was never run below a limit: no times but unlimited ones.

    ``with_unlimited`` false takes those away too, and the demand that they showed.
    """
    nothing = curve.limit_bytes[:0]
    below = replace(curve, limit_bytes=nothing, seconds=nothing, lost_bytes={})
    if with_unlimited:
        return below
    return replace(below, unlimited_seconds=nothing, demand_bytes=None)
