"""How right a steady round's seconds are that are computed from counted bytes.

``python benchmarks/counted_seconds.py`` (seconds) takes the limits of walked sweeps at which rounds
were counted and slowed 1.5 times or more, and computes their seconds with nothing fitted
(:mod:`edgebench.slowdown.counted`): from the bytes of the same walk, and from those of another
walk, on another storage or with swap in zram. With two threads the factor is that of the workload's
other limits, each left out in turn.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
from claims.kept import calibration, folder
from counts import of_workloads
from report import write

from edgebench.boards.storage import AS_IS, parse_storage
from edgebench.results.results import load
from edgebench.slowdown.calibration.device import Calibration
from edgebench.slowdown.context import device_data
from edgebench.slowdown.counted import (
    CountedRound,
    StorageCosts,
    counted_by_workload,
    counted_models,
    counted_rounds,
    storage_costs,
)

ONE, TWO, TEST = "validation-one-thread", "validation-two-threads", "validation-test"
STORAGE, ZRAM = "validation-storage", "validation-zram"
#: Sweeps whose limits are computed, and those whose bytes tell.
PAIRS = ((ONE, ONE), (TEST, TEST), (TWO, TWO), (STORAGE, ONE), (ZRAM, ONE))
#: Points that are looked at.
LEAST_SLOWDOWN = 1.5


@dataclass(frozen=True)
class CountedSeconds:
    """A steady round at a limit.

    Attributes:
        sweep, storage, counted: the sweep that measured it, on which storage, and that whose bytes
            tell.
        network, loader, limit_bytes: where.
        measured_s: the median of its rounds.
        told_s: as computed; ``low_s`` to ``high_s`` should hold nine of ten.
    """

    sweep: str
    storage: str
    counted: str
    network: str
    loader: str
    limit_bytes: float
    measured_s: float
    told_s: float
    low_s: float | None
    high_s: float | None

    @property
    def error(self) -> float:
        """As a share."""
        return abs(self.told_s / self.measured_s - 1)

    @property
    def held(self) -> bool:
        """Whether the interval holds it."""
        return bool(self.low_s and self.high_s and self.low_s <= self.measured_s <= self.high_s)


def main() -> None:
    """Compute, and write."""
    rounds = {name: counted_of(name) for name in sorted({name for pair in PAIRS for name in pair})}
    points = [point for pair in PAIRS for point in _of_pair(*pair, rounds)]
    says = (
        "Steady rounds slowed 1.5 times or more: median error of seconds that are computed from "
        "counted bytes, and how many the 90 % interval holds."
    )
    header = ("sweep", "storage", "bytes of", "loader", "points", "error", "interval holds")
    write("counted_seconds", says, header, list(table(points)), [asdict(one) for one in points])


def counted_of(scenario: str) -> list[CountedRound]:
    """The counted rounds of a kept sweep."""
    results = load(folder(scenario))
    told = counted_by_workload(results)
    return [one for data in device_data(results)[0] for one in counted_rounds(data.curves, told)]


def _of_pair(
    sweep: str, told_by: str, rounds: dict[str, list[CountedRound]]
) -> Iterator[CountedSeconds]:
    """Each slowed limit of a sweep's rounds, told by the rounds of the same workload there."""
    sources = {place(one): one for one in rounds[told_by]}
    for one in rounds[sweep]:
        source = one if told_by == sweep else sources.get(place(one))
        if source is None:
            continue
        others = [other for other in rounds[told_by] if other is not source]
        here, there = costs_of(source), costs_of(one)
        lowest, highest = _range(source)
        for limit, slowdown in zip(one.curve.limits, one.curve.medians, strict=True):
            if slowdown >= LEAST_SLOWDOWN and lowest <= limit <= highest:
                kept = replace(source, curve=source.curve.without(float(limit)))
                made = counted_models([kept, *others], here, there)[source.curve.key]
                found = made.predict(one.curve, np.array([limit]))
                ends = [float(end[0]) * found.unlimited_s for end in found.interval or ()]
                yield CountedSeconds(
                    sweep,
                    storage_of(one),
                    told_by,
                    *place(one),
                    float(limit),
                    float(slowdown * one.curve.unlimited_s),
                    float(found.slowdown[0] * found.unlimited_s),
                    *(ends or (None, None)),
                )


def place(one: CountedRound) -> tuple[str, str]:
    """The network and its loader."""
    return one.curve.network, str(one.curve.settings["loader"])


def storage_of(one: CountedRound) -> str:
    """The speed that its disk is held to, or zram."""
    about = one.curve.settings
    return "zram" if _in_zram(one) else str(about["storage"]).removesuffix(",disk=ram")


def costs_of(one: CountedRound) -> StorageCosts:
    """Those of the kept calibration, held to that speed."""
    made = Calibration.from_json(calibration("zram" if _in_zram(one) else "file-ram"))
    storage = str(one.curve.settings.get("storage", AS_IS))
    return storage_costs(made if storage == AS_IS else made.held_to(parse_storage(storage)))


def _in_zram(one: CountedRound) -> bool:
    return one.curve.settings["swap_kind"] == "zram"


def _range(one: CountedRound) -> tuple[float, float]:
    limits = [point.limit_bytes for point in one.misses.points]
    return 0.995 * min(limits), 1.005 * max(limits)


def table(points: Sequence[CountedSeconds]) -> Iterator[tuple[str, ...]]:
    """A row a pair of sweeps and a loader, and one of both: the median over workloads."""
    groups: dict[tuple[str, str, str], list[CountedSeconds]] = defaultdict(list)
    for one in points:
        groups[one.sweep, one.storage, one.counted].append(one)
    for pair, every in groups.items():
        for loader in ("mmap", "copy", "all"):
            own = [one for one in every if loader in (one.loader, "all")]
            if not own:
                continue
            error = of_workloads([(f"{one.network} {one.loader}", one.error) for one in own])
            held = 100 * np.mean([one.held for one in own])
            yield (*pair, loader, str(len(own)), f"{100 * error:.1f} %", f"{held:.0f} %")


if __name__ == "__main__":
    main()
