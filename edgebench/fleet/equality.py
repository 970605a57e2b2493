"""Which machines are equal enough to share the trials of one sweep: probes take as long on each."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from edgebench.scenario.points import Point

#: Machines whose medians differ by no more than this are equal, however little probes spread.
LEAST_DIFFERENCE = 0.05
#: Label of a probe's limit → seconds of each trial.
ProbeTimes = Mapping[str, Sequence[float]]


def probe_points(points: Sequence[Point]) -> list[Point]:
    """Return what is tried on each machine: a workload without a limit, and at its middle limit."""
    unlimited = next((point for point in points if point.unlimited), None)
    if unlimited is None:
        return list(points[:1])
    limited = [p for p in points if not p.unlimited and p.same_workload(unlimited)]
    return [unlimited, *limited[len(limited) // 2 :][:1]]


def unequal_machines(probes: Mapping[str, ProbeTimes], reference: str | None) -> dict[str, str]:
    """Machine → why it is not mixed with the others.

    Equal are those that equal the reference; None: those of the largest group of equal ones.
    """

    def differing(centre: str) -> dict[str, str]:
        words = {name: _difference(probes[centre], own) for name, own in probes.items()}
        return {name: f"it is not equal to {centre}: {one}" for name, one in words.items() if one}

    # The first of the inventory, where groups are as large.
    return differing(reference or min(probes, key=lambda name: len(differing(name))))


def _difference(reference: ProbeTimes, other: ProbeTimes) -> str | None:
    """How the probes of a machine differ from another one's; None: by no more than they spread."""
    for label, times in reference.items():
        own = other.get(label, ())
        if bool(times) != bool(own):
            return f"the probe at {label} finishes on one of them only"
        if times:
            ratio = statistics.median(own) / statistics.median(times)
            spread = max((max(one) - min(one)) / statistics.median(one) for one in (times, own))
            if max(ratio, 1 / ratio) - 1 > max(LEAST_DIFFERENCE, spread):
                return f"the probe at {label} takes {ratio:.2f} times as long (spread {spread:.0%})"
    return None
