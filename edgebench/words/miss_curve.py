"""The sentence of a miss curve: from which limit down rounds read memory again, and how much."""

from __future__ import annotations

from edgebench.results.miss_curve import MissCurve
from edgebench.units import brief_size


def miss_curve_sentence(curve: MissCurve | None) -> str:
    """Its knee and plateau; else why there is none; empty where nothing was counted."""
    if curve is None or not (points := curve.of(curve.direction)):
        return ""
    tight, wide = points[-1], points[0]
    most = brief_size(tight.round_bytes)
    if curve.knee_bytes is not None and curve.knee_between and curve.plateau_bytes is not None:
        low, high = map(brief_size, curve.knee_between)
        plateau = brief_size(curve.plateau_bytes)
        return (
            f"Knee at {brief_size(curve.knee_bytes)} (between {low} and {high}): below it each "
            f"steady round reads up to {plateau} of its memory again."
        )
    at = brief_size(tight.limit_bytes)
    if curve.missing == "never_read":
        return f"No knee: down to {at} no steady round reads memory again."
    if curve.missing == "wider":
        return (
            f"Knee above {brief_size(wide.limit_bytes)}, the widest limit tried: a steady round "
            f"reads {brief_size(wide.round_bytes)} again there already."
        )
    if curve.missing == "disagree":
        unsure = "visits disagree on whether a steady round reads memory again"
        if curve.knee_between is None:
            return f"Knee not known: {unsure}."
        low, high = map(brief_size, curve.knee_between)
        return f"Knee not known: between {low} and {high} {unsure}."
    if curve.missing == "killed":
        return f"No knee before the limit kills: a steady round reads {most} again at {at}."
    return (
        f"Knee not known: a steady round reads {most} again at {at}, the tightest limit, and "
        "tighter ones may add to that."
    )
