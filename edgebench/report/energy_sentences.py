"""Sentences on energy: what a pass takes without a limit, and what limits add. Only measured ones.

A difference is claimed only where neither repeats nor the integration's error allow the opposite.
"""

from __future__ import annotations

from edgebench.report.workload import WorkloadPoints, limit_label
from edgebench.results.point_energy import TRIAL, PointEnergy
from edgebench.results.spread import Ratio
from edgebench.results.summary import PointSummary
from edgebench.units import format_energy


def energy_sentences(workload: WorkloadPoints) -> list[str]:
    """What it takes unlimited and at the tightest limit; empty where no energy was measured."""
    measured = [point for point in workload.points if point.energy]
    if not measured:
        return []
    unlimited = workload.unlimited
    said = []
    if unlimited is not None and unlimited.energy:
        one = unlimited.energy
        who = "the whole trial" if one.part == TRIAL else workload.pass_words
        said.append(f"Unlimited, {who} takes {_joules(one)} of the {one.domain}.")
    limited = [point for point in measured if point in workload.tried]
    return [*said, _at(limited[-1])] if limited else said


def grows_more(point: PointSummary) -> str | None:
    """Which of both a limit adds more to, ``energy`` or ``time``; None: the repeats don't tell."""
    energy, time = point.energy_ratio, point.ratio
    if energy is None or time is None:
        return None
    if _is_above(energy, time):
        return "energy"
    return "time" if _is_above(time, energy) else None


def _is_above(one: Ratio, other: Ratio) -> bool:
    return one.low is not None and other.high is not None and one.low > other.high


def _at(point: PointSummary) -> str:
    assert point.energy
    words = f"At {limit_label(point)} it takes {_joules(point.energy)}"
    energy, time = point.energy_ratio, point.ratio
    if energy is None:
        return f"{words}."
    words += f": ×{energy.median:.3g} the energy"
    if time is None:
        return f"{words}."
    words += f" in ×{time.median:.3g} the time"
    more = grows_more(point)
    if more is None:
        return f"{words}; which of both grows more can't be told."
    other = {"energy": "time", "time": "energy"}[more]
    return f"{words}, so the limit costs more {more} than {other}."


def _joules(energy: PointEnergy) -> str:
    spread = energy.energy_j
    words = format_energy(spread.median, energy.error_j)
    if spread.count < 2:
        return f"{words} (one trial)"
    low, high = format_energy(spread.low), format_energy(spread.high)
    return f"{words} ({spread.count} trials, {low} to {high})"
