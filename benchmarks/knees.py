"""How near the simulated knee of a workload is to the measured one.

``python benchmarks/knees.py`` (minutes the first time; what is simulated is kept) takes the walked
workloads whose rounds show a knee, and simulates their rounds at limits 2 % apart, with what their
unlimited trials tell. The knee is the limit at which the bytes read again pass half of the plateau.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from claims.kept import folder
from counted_seconds import ONE, TEST, TWO
from report import write

from edgebench.knee import find_knee
from edgebench.parallel import begun_in_parallel
from edgebench.results.miss_curve import MissCurve
from edgebench.results.results import load
from edgebench.slowdown.context import CannotPredictError, Context, device_data
from edgebench.slowdown.counted import counted_by_workload
from edgebench.slowdown.curves import Curve
from edgebench.slowdown.simulator.profile import profile

SWEEPS = (ONE, TWO, TEST)
#: A simulated knee within this share of the measured one is right.
NEAR = 0.05
_STEP, _BEYOND = 1.02, 2.0


@dataclass(frozen=True)
class KneePoint:
    """A workload's knee in bytes: measured, and simulated (None: no plateau was simulated)."""

    sweep: str
    network: str
    loader: str
    measured_bytes: int
    simulated_bytes: int | None

    @property
    def ratio(self) -> float | None:
        """Simulated ÷ measured."""
        return self.simulated_bytes / self.measured_bytes if self.simulated_bytes else None

    @property
    def right(self) -> bool:
        """Whether they are near."""
        return self.ratio is not None and abs(np.log(self.ratio)) <= np.log1p(NEAR)


def main() -> None:
    """Simulate, and write."""
    points: list[KneePoint] = []
    for sweep in SWEEPS:
        results = load(folder(sweep))
        known = counted_by_workload(results)
        asked = [
            (curve, data.context, known[curve.workload])
            for data in device_data(results)[0]
            for curve in data.curves
            if curve.phase == "total" and curve.workload in known
        ]
        asked = [one for one in asked if one[2].knee_bytes]
        with begun_in_parallel(lambda one, s=sweep: _knee(s, *one), asked) as begun:
            points += [point for point in begun() if point]
    says = f"Knees of walked workloads, simulated ÷ measured; right: within {NEAR:.0%}."
    header = ("sweep", "knees", "right", "median ratio", "lowest", "highest", "none simulated")
    write("knees", says, header, list(table(points)), [asdict(one) for one in points])


def _knee(sweep: str, curve: Curve, context: Context, misses: MissCurve) -> KneePoint | None:
    assert misses.knee_bytes is not None
    lowest = min(point.limit_bytes for point in misses.known)
    steps = int(np.log(_BEYOND * misses.knee_bytes / lowest) / np.log(_STEP)) + 2
    limits = np.round(lowest * _STEP ** np.arange(steps))
    try:
        moved = profile(curve, curve.unlimited_s, context, limits).moved
    except CannotPredictError:
        return None
    again = moved[1] + moved[3]
    found = find_knee({int(at): (int(read),) for at, read in zip(limits, again, strict=True)})
    loader = str(curve.settings["loader"])
    return KneePoint(sweep, curve.network, loader, misses.knee_bytes, found.knee_bytes)


def table(points: Sequence[KneePoint]) -> Iterator[tuple[str, ...]]:
    """A row a sweep, and one of all."""
    for sweep in (*SWEEPS, "all"):
        own = [one for one in points if sweep in (one.sweep, "all")]
        ratios = [one.ratio for one in own if one.ratio is not None]
        right = sum(one.right for one in own)
        known = [np.median(ratios), min(ratios), max(ratios)] if ratios else []
        none = str(len(own) - len(ratios))
        yield (sweep, str(len(own)), str(right), *(f"{one:.2f}" for one in known), none)


if __name__ == "__main__":
    main()
