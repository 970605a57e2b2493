"""How right the slowdown model is, on the kept sweeps: steady rounds and starts apart.

``python benchmarks/slowdown_model.py [SWEEP...]`` (a minute) writes ``results/slowdown_model.json``
with every point, and a table. Points are symmetric: those that were slowed 1.5 times or more, or
are said to be. A network that is predicted tells nothing of itself but what a use names. Chosen on
validation-one-thread: the ramp of misses (``seconds._RAMP``). Chosen on all three sweeps: the
reach of intervals (``computed._REACH``).

The use ``probe`` knows of a walk what ``predict --probe`` makes: its unlimited rounds, the working
set and the visit nearest to 0.8 of that. Lower bounds, at tighter limits, are scored as answers.

"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from claims.kept import folder
from report import RESULTS, write

from edgebench.results.miss_curve import MissCurve as Counted
from edgebench.results.results import load
from edgebench.results.times import START
from edgebench.slowdown.computed import Computed, ComputedPhase
from edgebench.slowdown.context import DeviceData, device_data
from edgebench.slowdown.curves import WHOLES, CannotPredictError, Curve, fit_curve, shown_phase
from edgebench.slowdown.prediction import counted_by_workload

ONE, TWO, FREE = "validation-one-thread", "validation-two-threads", "validation"
SWEEPS = (ONE, TWO, FREE)
#: Sweeps of other storages, computed from bytes that were counted in ONE.
STORAGES = ("validation-storage", "validation-zram")
SLOWED = 1.5
KNOWN, WORKING_SET, NEVER, COUNTED = "unlimited known", "working set", "never run", "counted"
#: And the part of the working set that a probe leaves.
PROBE, PROBED = "probe", 0.8
LEFT_OUT, NOTHING, NEAREST = "a limit left out", "not slowed", "nearest network"
_LEVEL, _DRAWS, _SEED = 0.9, 2000, 54


@dataclass(frozen=True)
class Scored:
    """What is said of one limit of a workload, and what was measured.

    Args:
        sweep, use: where, and what was known.
        workload, network, stage, limit_bytes: of which point; ``stage`` is start or steady.
        measured_s, said_s: seconds.
        slowed: whether it was slowed, or is said to be.
        held: whether the 90 % interval holds it; None: the use has none.
    """

    sweep: str
    use: str
    workload: str
    network: str
    stage: str
    limit_bytes: float
    measured_s: float
    said_s: float
    slowed: bool
    held: bool | None = None

    @property
    def error(self) -> float:
        """As a share of what was measured."""
        return abs(self.said_s / self.measured_s - 1)


def score_sweep(sweep: str) -> list[Scored]:
    """Score each use at each limit of a kept sweep."""
    results = load(folder(sweep))
    counted = counted_by_workload(results)
    found = []
    for data in device_data(results)[0]:
        computed = Computed(data, counted=counted)
        for curve in (one for one in data.curves if one.phase in WHOLES and len(one.limits)):
            found += _score_curve(sweep, curve, data, computed, counted)
    return found


def _score_curve(
    sweep: str,
    curve: Curve,
    data: DeviceData,
    computed: Computed,
    counted: Mapping[str, Counted],
) -> Iterator[Scored]:
    bare = replace(curve.unseen(), working_set_bytes=None, workload="")
    asked = {
        KNOWN: bare,
        WORKING_SET: replace(bare, working_set_bytes=curve.working_set_bytes),
        NEVER: replace(bare, unlimited_seconds=bare.limit_bytes, demand_bytes=None),
    }
    if not curve.working_set_bytes or curve.phase == START:
        del asked[WORKING_SET]
    try:
        phases = {use: computed.phase(one) for use, one in asked.items()}
    except CannotPredictError:
        return
    probed_bytes = float("inf")
    if WORKING_SET in asked and curve.workload in counted:
        aim = np.log(PROBED * (curve.working_set_bytes or 1.0))
        probed_bytes = min(curve.limits.tolist(), key=lambda limit: abs(np.log(limit) - aim))
        visit = counted[curve.workload]
        points = tuple(p for p in visit.points if abs(p.limit_bytes / probed_bytes - 1) < 0.005)
        at = curve.limit_bytes == probed_bytes
        kept = replace(curve, limit_bytes=curve.limit_bytes[at], seconds=curve.seconds[at])
        known = {curve.workload: replace(visit, points=points)}
        phases[PROBE] = Computed(data, counted=known).phase(kept)
    about = curve.settings
    name = f"{curve.workload_network} {about['schedule']} {about['loader']}"
    stage = shown_phase(curve.phase, about)
    for limit, slowdown in zip(curve.limits.tolist(), curve.medians.tolist(), strict=True):
        measured_s, at = slowdown * curve.unlimited_s, np.array([limit])

        def scored(
            use: str,
            said_s: float,
            free_s: float = curve.unlimited_s,
            held: bool | None = None,
            *,
            where: tuple[str, str, str, float] = (name, curve.workload_network, stage, limit),
            measured_s: float = measured_s,
        ) -> Scored:
            slowed = max(measured_s / curve.unlimited_s, said_s / free_s) >= SLOWED
            return Scored(sweep, use, *where, measured_s, said_s, slowed, held)

        for use, phase in phases.items():
            if use == PROBE and limit == probed_bytes:
                continue
            said_s = float(phase.seconds(at)[0])
            yield scored(use, said_s, phase.round.unlimited_s, _is_held(phase, limit, measured_s))
        yield scored(NOTHING, curve.unlimited_s)
        nearest = _nearest(curve, limit, data.curves)
        if nearest is not None:
            yield scored(NEAREST, nearest * curve.unlimited_s)
        kept = curve.without(limit)
        if stage != START and len(kept.limits):
            phase = computed.phase(kept)
            if phase.misses.tightest_bytes and limit >= phase.misses.tightest_bytes:
                said_s = float(phase.seconds(at)[0])
                yield scored(COUNTED, said_s, curve.unlimited_s, _is_held(phase, limit, measured_s))
        try:
            said = fit_curve(kept).slowdown(at)
        except CannotPredictError:
            continue
        yield scored(LEFT_OUT, float(said[0]) * curve.unlimited_s)


def _is_held(phase: ComputedPhase, limit: float, measured_s: float) -> bool:
    low, high = phase.interval(np.array([limit]))
    return bool(low[0] <= measured_s <= high[0])


def _nearest(curve: Curve, limit: float, curves: Iterable[Curve]) -> float | None:
    """Return the slowdown of the network that needs most nearly as much, at the same share."""
    alike = [
        one
        for one in curves
        if one.phase == curve.phase
        and one.workload_network != curve.workload_network
        and len(one.limits) > 1
        and one.demand_bytes
        and all(one.settings.get(k) == curve.settings.get(k) for k in ("schedule", "loader"))
    ]
    if not alike or not curve.demand_bytes:
        return None
    needs = curve.demand_bytes
    other = min(alike, key=lambda one: abs(np.log((one.demand_bytes or 1.0) / needs)))
    at = np.log(limit / needs * (other.demand_bytes or 1.0))
    return float(np.exp(np.interp(at, np.log(other.limits), np.log(other.medians))))


def score_storages() -> list[Scored]:
    """Score steady rounds on other storages by the bytes that were counted on the first."""
    results = load(folder(ONE))
    counted = counted_by_workload(results)
    (here, *_), _ = device_data(results)
    sources = {_place(one): one for one in here.curves if one.phase == "total"}
    found = []
    for sweep in STORAGES:
        for data in device_data(load(folder(sweep)))[0]:
            computed = Computed(here, data, counted)
            for curve in (one for one in data.curves if one.phase == "total"):
                source = sources.get(_place(curve))
                if source is None:
                    continue
                phase = computed.phase(source)
                said = phase.seconds(curve.limits)
                for limit, slowdown, said_s in zip(curve.limits, curve.medians, said, strict=True):
                    measured_s = float(slowdown * curve.unlimited_s)
                    slowed = max(slowdown, said_s / phase.round.unlimited_s) >= SLOWED
                    if slowed and limit * 1.005 >= phase.misses.tightest_bytes:
                        storage = f"{data.swap_kind} {data.storage}"
                        where = (" ".join(_place(curve)), curve.workload_network, "steady")
                        held = _is_held(phase, float(limit), measured_s)
                        numbers = (float(limit), measured_s, float(said_s), True, held)
                        found.append(Scored(sweep, storage, *where, *numbers))
    return found


def _place(curve: Curve) -> tuple[str, str]:
    return curve.workload_network, str(curve.settings["loader"])


def median_error(points: Sequence[Scored]) -> tuple[float, float, float]:
    """Return the median over workloads of their medians, and its 90 % interval over workloads."""
    groups: dict[str, list[float]] = defaultdict(list)
    for one in points:
        groups[one.workload].append(one.error)
    medians = np.array([np.median(own) for own in groups.values()])
    random = np.random.default_rng(_SEED)
    draws = np.median(medians[random.integers(0, len(medians), (_DRAWS, len(medians)))], axis=1)
    low, high = np.quantile(draws, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2])
    return float(np.median(medians)), float(low), float(high)


def table(points: Sequence[Scored]) -> Iterator[tuple[str, ...]]:
    """One row a sweep, stage and use."""
    groups: dict[tuple[str, str, str], list[Scored]] = defaultdict(list)
    for one in points:
        if one.slowed:
            groups[one.sweep, one.stage, one.use].append(one)
    for key, own in sorted(groups.items()):
        error, low, high = (100 * one for one in median_error(own))
        known = [one.held for one in own if one.held is not None]
        held = f"{100 * np.mean(known):.0f} %" if known else "-"
        networks = len({one.network for one in own})
        p90 = 100 * float(np.quantile([one.error for one in own], 0.9))
        ends = f"{error:.1f} % ({low:.1f} to {high:.1f})"
        yield (*key, str(len(own)), str(networks), ends, f"{p90:.0f} %", held)


def main() -> None:
    """Score, and write."""
    file = RESULTS / "slowdown_model.json"
    kept: dict[str, Any] = json.loads(file.read_text())["data"] if file.exists() else {}
    names = sys.argv[1:] or [*SWEEPS, "storages"]
    for name in names:
        found = score_storages() if name == "storages" else score_sweep(name)
        kept[name] = [{k: _short(v) for k, v in asdict(one).items()} for one in found]
    points = [Scored(**row) for rows in kept.values() for row in rows]
    header = ("sweep", "stage", "use", "points", "networks", "error", "p90", "interval holds")
    says = "Error of seconds at points slowed, or said to be slowed, 1.5 times or more."
    write("slowdown_model", says, header, list(table(points)), {})
    file.write_text(json.dumps({"data": kept}, separators=(",", ":"), allow_nan=False) + "\n")


def _short(value: object) -> object:
    return float(f"{value:.6g}") if isinstance(value, float) else value


if __name__ == "__main__":
    main()
