"""What a walk of one network tells of others on the same device, beside its calibration.

``python benchmarks/one_walk.py`` (minutes the first time; what is simulated is kept) takes the kept
sweeps in which networks were slowed 1.5 times or more, and predicts each network whose unlimited
trials are known: from the calibration alone, and from the calibration and what one other network's
trials at limits show. That network is each of the others in turn.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
from claims.kept import folder
from claims.model_scores import COLUMNS
from counts import of_workloads
from report import write

from edgebench.parallel import begun_in_parallel
from edgebench.results.results import load
from edgebench.slowdown.context import CannotPredictError, DeviceData, device_data
from edgebench.slowdown.curves import WHOLES, Curve
from edgebench.slowdown.models.intervals import SLOWED
from edgebench.slowdown.models.simulated import Learnt, learn

#: How the rows of no walk at all, and of all walks taken one by one, are called.
NONE, EACH = "no", "each in turn"


@dataclass(frozen=True)
class WalkPoint:
    """A slowed limit of a workload as predicted: ``walked`` is the network whose trials told."""

    sweep: str
    phase: str
    walked: str
    workload: str
    limit_bytes: float
    measured: float
    predicted: float

    @property
    def error(self) -> float:
        """Of the slowdown, as a share."""
        return abs(self.predicted / self.measured - 1)


def main() -> None:
    """Predict, and write."""
    points = []
    for sweep in COLUMNS:
        (data, *_), _ = device_data(load(folder(sweep)))
        networks = sorted({curve.workload_network for curve in data.curves if len(curve.limits)})
        with begun_in_parallel(lambda one, d=data, s=sweep: _walked(s, one, d), networks) as begun:
            points += [point for found in begun() for point in found]
        points += _told(sweep, NONE, replace(learn(data.curves, data.context), factors={}), data)
    says = (
        "Slowdowns of 1.5 times or more, unlimited trials known: median error over workloads with "
        "the calibration, and what one walked network shows."
    )
    header = ("sweep", "phase", "walked network", "points", "error")
    write("one_walk", says, header, list(table(points)), [asdict(point) for point in points])


def _walked(sweep: str, network: str, data: DeviceData) -> list[WalkPoint]:
    own = [curve for curve in data.curves if curve.workload_network == network]
    others = tuple(curve for curve in data.curves if curve.workload_network != network)
    learnt = learn(own, data.context)
    return list(_told(sweep, network, learnt, replace(data, curves=others)))


def _told(sweep: str, walked: str, learnt: Learnt, data: DeviceData) -> Iterator[WalkPoint]:
    for curve in data.curves:
        slowed = curve.medians >= SLOWED
        if curve.phase not in WHOLES or not slowed.any() or not len(curve.unlimited_seconds):
            continue
        try:
            _, function = learnt.predict(curve.unseen(), data.context)
        except CannotPredictError:
            continue
        limits = curve.limits[slowed]
        for limit, measured, told in zip(
            limits, curve.medians[slowed], function.at(limits), strict=True
        ):
            numbers = (float(limit), float(measured), float(told))
            yield WalkPoint(sweep, curve.phase, walked, _workload(curve), *numbers)


def _workload(curve: Curve) -> str:
    return f"{curve.workload_network} {curve.settings.get('loader')}"


def table(points: Sequence[WalkPoint]) -> Iterator[tuple[str, ...]]:
    """By sweep and phase: without a walk, with each in turn (their median), and with each one."""
    groups: dict[tuple[str, str], dict[str, list[WalkPoint]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for one in points:
        groups[one.sweep, one.phase][one.walked].append(one)
    for key, by_walk in groups.items():
        errors = {
            walked: of_workloads([(one.workload, one.error) for one in own])
            for walked, own in by_walk.items()
        }
        counts = {walked: str(len(own)) for walked, own in by_walk.items()}
        none = errors.pop(NONE)
        yield (*key, NONE, counts[NONE], f"{100 * none:.1f} %")
        median, low, high = (100 * np.quantile([*errors.values()], at) for at in (0.5, 0.0, 1.0))
        yield (*key, EACH, "", f"{median:.1f} % ({low:.1f} to {high:.1f})")
        for walked, error in sorted(errors.items(), key=lambda pair: pair[1]):
            yield (*key, walked, counts[walked], f"{100 * error:.1f} %")


if __name__ == "__main__":
    main()
