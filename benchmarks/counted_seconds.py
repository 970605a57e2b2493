"""How right a steady round's seconds are where the bytes are right.

``python benchmarks/counted_seconds.py`` (seconds) takes the limits of the walked sweep at which
rounds were counted and slowed 1.5 times or more. Each is predicted twice by the model `simulated`,
at costs that the other networks show: by the bytes that it simulates, and by those that the kernel
counted. What is off the second time is the seconds' own error.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
from claims.kept import folder
from counts import Rounds, counted_rounds, of_workloads
from report import write

from edgebench.results.results import load
from edgebench.slowdown.context import Context, device_data
from edgebench.slowdown.curves import Curve
from edgebench.slowdown.models.simulated import Learnt, learn
from edgebench.slowdown.simulator.profile import device_for, profile, workload_for
from edgebench.slowdown.simulator.simulation import Device

SWEEP = "validation-one-thread"
#: Points that are looked at.
LEAST_SLOWDOWN = 1.5


@dataclass(frozen=True)
class CountedSeconds:
    """A steady round at a limit.

    Attributes:
        network, loader, limit_bytes: where.
        measured_s: the median of its rounds.
        simulated_s: as predicted.
        counted_s: as predicted, with the bytes that were counted.
    """

    network: str
    loader: str
    limit_bytes: float
    measured_s: float
    simulated_s: float
    counted_s: float

    @property
    def error(self) -> float:
        """Of the prediction, as a share."""
        return abs(self.simulated_s / self.measured_s - 1)

    @property
    def own_error(self) -> float:
        """With counted bytes."""
        return abs(self.counted_s / self.measured_s - 1)


def main() -> None:
    """Predict, and write."""
    points = list(counted_seconds())
    says = (
        "Steady rounds slowed 1.5 times or more, of networks left out: median error of seconds, "
        "with bytes as simulated and as counted."
    )
    header = ("loader", "network", "points", "bytes simulated", "bytes counted")
    write("counted_seconds", says, header, list(table(points)), [asdict(one) for one in points])


def counted_seconds() -> Iterator[CountedSeconds]:
    """Every limit of every workload that was counted."""
    for data in device_data(load(folder(SWEEP)))[0]:
        _, others = learn(data.curves, data.context)
        for curve, rounds in counted_rounds(data.curves):
            learnt = others.get(curve.workload_network)
            if learnt is not None and rounds.get(math.inf):
                yield from _of_curve(curve, rounds, learnt, data.context)


def _of_curve(
    curve: Curve, rounds: Rounds, learnt: Learnt, context: Context
) -> Iterator[CountedSeconds]:
    own_s, loader = curve.unlimited_s, workload_for(curve, context).loader
    found = profile(curve, own_s, context, learnt.costs)
    device = replace(device_for(curve, context), costs=learnt.costs)
    free = float(np.median(rounds[math.inf]))
    for limit, slowdown in zip(curve.limits.tolist(), curve.medians.tolist(), strict=True):
        if slowdown < LEAST_SLOWDOWN or not rounds.get(limit):
            continue
        moved = np.array([np.interp(np.log(limit), found.ln_limit, row) for row in found.moved])
        counted = max(0.0, float(np.median(rounds[limit])) - free)
        threads = workload_for(curve, context).threads
        yield CountedSeconds(
            network=curve.workload_network,
            loader=loader,
            limit_bytes=limit,
            measured_s=own_s * slowdown,
            simulated_s=own_s + float(device.seconds(moved)),
            counted_s=own_s
            + float(device.seconds(with_bytes(moved, counted, loader, device, threads))),
        )


def with_bytes(
    moved: np.ndarray, counted: float, loader: str, device: Device, threads: int | None
) -> np.ndarray:
    """What moves where so many bytes come back.

    Of too many simulated bytes all kinds are cut alike; what is missing is of the loader's kind:
    from swap with `copy`, from a file with `mmap`.
    """
    back = moved[1] + moved[3]
    if counted < back:
        return np.asarray(moved * [*[counted / back] * 4, 1.0])
    missing = counted - back
    from_swap = loader == "copy"
    fault_bytes = device.swap_fault_bytes(threads) if from_swap else device.file_fault_bytes
    more = [missing / fault_bytes, missing * from_swap, 0.0, missing * (not from_swap), 0.0]
    return np.asarray(moved + more)


def table(points: Sequence[CountedSeconds]) -> Iterator[tuple[str, ...]]:
    """A row a workload, and one of all of a loader's: the median of these."""
    groups: dict[str, dict[str, list[CountedSeconds]]] = defaultdict(lambda: defaultdict(list))
    for one in points:
        groups[one.loader][one.network].append(one)
    for loader, networks in sorted(groups.items()):
        for network, own in sorted(networks.items()):
            yield loader, network, *_cells(own)
        yield loader, "all", *_cells([one for own in networks.values() for one in own])


def _cells(points: Sequence[CountedSeconds]) -> tuple[str, ...]:
    errors = (
        of_workloads([(one.network, getattr(one, name)) for one in points])
        for name in ("error", "own_error")
    )
    return str(len(points)), *(f"{100 * error:.1f} %" for error in errors)


if __name__ == "__main__":
    main()
