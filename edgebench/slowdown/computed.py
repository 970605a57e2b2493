"""What both formulas say of a workload: the source of its bytes is decided here, and only here.

A network that never ran has the time without a limit, and the needs, that other networks show.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from edgebench.errors import ResultsError
from edgebench.layers.names import TORCH, WEIGHT_PRECISIONS, WHOLE
from edgebench.results.times import START
from edgebench.slowdown.calibration import relative_least_squares
from edgebench.slowdown.context import DeviceData, Tables, table_key
from edgebench.slowdown.curves import WHOLES, CannotPredictError, Curve, FloatArray, shown_phase
from edgebench.slowdown.seconds import (
    Layer,
    MissCurve,
    Round,
    Source,
    StorageCosts,
    Workload,
    cyclic_curve,
    start_s,
    steady_s,
    storage_costs,
    unlimited_elsewhere_s,
)
from edgebench.text import generates_text

if TYPE_CHECKING:
    from edgebench.results.miss_curve import MissCurve as Counted


#: Schedules in which nothing overlaps.
_IN_ORDER = ("bulk", WHOLE, "linear")


def workload_of(settings: Mapping[str, Any], tables: Tables) -> Workload:
    """Return the workload of a curve's settings.

    Raises:
        CannotPredictError: the formulas don't hold for it, or there is no layer table.
    """
    accelerator, schedule = settings.get("accelerator"), settings.get("schedule")
    own_trials_alone = {
        "a training": settings.get("kind") != "inference",
        f"the engine {settings.get('engine')}": settings.get("engine", TORCH) != TORCH,
        # NaN is not itself.
        "computing on an accelerator": accelerator is not None and accelerator == accelerator,
        "text generation": generates_text(settings),
        "weights of another precision": settings.get("precision") in WEIGHT_PRECISIONS,
        "several networks": "+" in str(settings.get("pipeline")),
        f"the schedule {schedule}": schedule not in _IN_ORDER,
    }
    for words, holds in own_trials_alone.items():
        if holds:
            raise CannotPredictError(f"{words} is answered from its own trials alone")
    network = str(settings.get("pipeline") or settings.get("network"))
    key = table_key(network, settings.get("image"))
    if key not in tables:
        raise CannotPredictError(f"no layer table of {key}")
    schedule, warm = str(settings["schedule"]), int(settings.get("warm") or 0)
    return Workload(
        network=network,
        layers=layers_of(tables[key], int(settings.get("batch") or 1)),
        schedule=schedule,
        loader=str(settings["loader"]),
        passes=1 + (warm if schedule != "linear" else 0),
    )


def layers_of(rows: Sequence[Mapping[str, Any]], batch: int = 1) -> tuple[Layer, ...]:
    """Return the rows of a layer table, which is of batch size 1, at a batch size.

    Raises:
        CannotPredictError: the table has no sizes, as that of an ONNX file's nodes.
        ResultsError: a figure in it is none.
    """
    seen: set[str] = set()
    found = []
    try:
        for row in rows:
            part = str(row["part"])
            weights = int(row.get("file_bytes") or 0) if part not in seen else 0
            seen.add(part)
            output = int(row["output_bytes"]) * batch
            working = 2 * output
            if row.get("live_after_bytes"):
                # Tensors that are alive meanwhile, and copies: of weights as many at any batch.
                copied = int(row["workspace_bytes"])
                of_weights = min(copied, int(row.get("file_bytes") or 0))
                alive = int(row["live_peak_bytes"]) * batch
                working = alive + of_weights + (copied - of_weights) * batch or working
            found.append(
                Layer(
                    name=str(row["name"]),
                    weight_bytes=weights,
                    output_bytes=output,
                    working_bytes=working,
                    flops=float(row["flops"]) * batch,
                )
            )
    except KeyError as error:
        raise CannotPredictError(f"its layer table has no {error.args[0]}") from None
    except (TypeError, ValueError) as error:
        raise ResultsError(f"networks.json has a damaged layer table: {error}") from None
    return tuple(found)


def counted_curve(counted: Counted, used_bytes: float | None) -> MissCurve | None:
    """Return the curve of counted bytes; None where no visits agree.

    Where nothing was counted above a limit, nothing is read again from ``used_bytes`` up.
    """
    points = sorted(counted.known, key=lambda one: one.limit_bytes)
    if not points:
        return None
    rows = [(p.limit_bytes, p.round_bytes, p.faults or 0) for p in points]
    if used_bytes is not None and used_bytes > rows[-1][0]:
        rows.append((round(used_bytes), 0, 0))
    limits, again, faults = (
        np.array(column, dtype=np.float64) for column in zip(*rows, strict=True)
    )
    return MissCurve(Source.COUNTED, limits, again, faults, float(counted.unlimited_bytes))


#: 20 measured edges of ten networks lie within the first of what unlimited trials needed, and
#: within the second of what follows from layer tables.
MEASURED_MARGIN, TABLE_MARGIN = 0.03, 0.08


@dataclass(frozen=True)
class Room:
    """What a workload needs beside clean file pages, and the swap that it has.

    Memory that can't be dropped needs a place below the limit or in swap: ``limit + swap >= needs``
    decides, but for a margin on both sides in which it is not known.

    Args:
        need_bytes: memory that can't be dropped.
        swap_bytes: what swap can take of it.
        margin: how far off the need may be, as a share.
    """

    need_bytes: float
    swap_bytes: float
    margin: float

    def finishes(self, limit_bytes: float) -> bool | None:
        """Return whether a trial finishes at a limit; None: too near to tell."""
        room = limit_bytes + self.swap_bytes
        if room >= self.need_bytes * (1 + self.margin):
            return True
        return None if room >= self.need_bytes * (1 - self.margin) else False

    @property
    def least_bytes(self) -> float:
        """The limit at which the need just fits; 0 where swap takes all of it."""
        return max(0.0, self.need_bytes - self.swap_bytes)


def mapped_bytes(tables: Tables, pipeline: str, settings: Mapping[str, Any]) -> float:
    """Return the mapped weights that are held at once: the kernel can drop them without swap."""
    held = max if settings.get("schedule") == "linear" else sum
    keys = (table_key(name, settings.get("image")) for name in pipeline.split("+"))
    tables_of = [tables[key] for key in keys if key in tables]
    files = [{row["part"]: row["file_bytes"] or 0 for row in table} for table in tables_of]
    return float(max((held(parts.values()) for parts in files if parts), default=0))


#: How far off the added seconds, and the limit that they belong to, are in nine of ten points
#: (logarithms): by source, and whether it is of a start. As is, and in zram, scans tell less of
#: steady rounds. Chosen on all three validation sweeps.
_REACH: Mapping[tuple[Source, bool], float] = {
    (Source.COUNTED, False): 0.3,
    (Source.WORKING_SET, False): 0.5,
    (Source.LAYER_TABLE, False): 0.4,
    (Source.LAYER_TABLE, True): 0.8,
}
_AS_IS_REACH = 0.8
#: How far off a round without a limit is: where it ran, and where it did not.
_NOISE, _NEVER_NOISE = 0.2, 0.4


@dataclass(frozen=True)
class ComputedPhase:
    """Steady rounds or the start of a workload, at any limit.

    Args:
        source: where the bytes are from.
        start: whether it is the start.
        round: without a limit, on the storage that is asked about.
        misses: of steady rounds.
        costs: of the storage that is asked about.
        ran: whether its unlimited trials are known.
    """

    source: Source
    start: bool
    round: Round
    misses: MissCurve
    costs: StorageCosts
    ran: bool

    @property
    def tightest_bytes(self) -> float:
        """Below this limit it is a lower bound."""
        return 0.0 if self.start else self.misses.tightest_bytes

    def seconds(self, limits: FloatArray) -> FloatArray:
        """Return the seconds at limits."""
        if self.start:
            return np.array([start_s(self.round, self.costs, float(at)) for at in limits])
        return steady_s(self.round, self.misses, self.costs, limits)

    def interval(self, limits: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the seconds that should hold nine of ten trials: narrow where nothing is read."""
        reach = _REACH[self.source, self.start]
        if not (self.start or self.costs.held):
            reach = max(reach, _AS_IS_REACH)
        noise, off = _NOISE if self.ran else _NEVER_NOISE, np.exp(reach)
        free = self.round.unlimited_s
        low, high = self.seconds(limits * off) - free, self.seconds(limits / off) - free
        return free * np.exp(-noise) + low / off, free * np.exp(noise) + high * off


class Computed:
    """Answers of the formulas about one device's workloads.

    Args:
        here: the device as it was measured; its curves tell of networks that never ran.
        there: the same with the storage that is asked about; None: where it was measured.
        counted: by a workload's id the bytes that were counted.
    """

    def __init__(
        self,
        here: DeviceData,
        there: DeviceData | None = None,
        counted: Mapping[str, Counted] | None = None,
    ) -> None:
        self._here, self._there, self._counted = here, there, counted or {}

    def needs_bytes(self, curve: Curve) -> float:
        """Return what a workload needs: measured, or by its layer table and other networks.

        Raises:
            CannotPredictError: there is no table, or no calibration.
        """
        if curve.demand_bytes is not None:
            return curve.demand_bytes
        workload = workload_of(curve.settings, self._here.tables)
        return needs_of_others(workload, self._here)

    def phase(self, curve: Curve) -> ComputedPhase:
        """Return a curve's phase.

        Raises:
            CannotPredictError: it is no whole round, or something is not known of it.
        """
        if curve.phase not in WHOLES:
            raise CannotPredictError(f"{curve.phase} is told where it was measured")
        workload = workload_of(curve.settings, self._here.tables)
        threads = curve.settings.get("threads")
        # NaN is not itself.
        threads = int(threads) if threads and threads == threads else None
        constants, base = self._here.constants, self._here.runtime_bytes
        costs, needs = storage_costs(constants, threads), self.needs_bytes(curve)
        ran = bool(len(curve.unlimited_seconds))
        free_s = curve.unlimited_s if ran else seconds_of_others(workload, curve.phase, self._here)
        misses = None
        if counted := self._counted.get(curve.workload):
            misses = counted_curve(counted, curve.working_set_bytes or curve.demand_bytes)
        if misses is None:
            # In a fresh process the kernel takes clean pages of mapped weights, not the idle
            # runtime.
            keeps = workload.mapped and not curve.walked
            idle = 0.0 if keeps else base - constants.hot_base_bytes.value
            misses = cyclic_curve(workload, needs, idle, curve.working_set_bytes)
        start = shown_phase(curve.phase, curve.settings) == START
        found = ComputedPhase(
            source=Source.LAYER_TABLE if start else misses.source,
            start=start,
            round=Round(workload, free_s, needs, base),
            misses=misses,
            costs=costs,
            ran=ran,
        )
        if self._there is None:
            return found
        there = storage_costs(self._there.constants, threads)
        # A round without a limit reads in its load; mapped weights in ``first``.
        alike = (c for c in self._here.curves if c.trials_key == curve.trials_key)
        took = {c.phase: c.unlimited_s for c in alike if len(c.unlimited_seconds)}
        loading_s = took.get("load", 0.0)
        if workload.mapped:
            loading_s = max(0.0, took.get("first", 0.0) - took.get("execute", 0.0))
        moved_s = unlimited_elsewhere_s(
            found.round, misses.unlimited_bytes, loading_s, costs, there
        )
        return replace(found, round=replace(found.round, unlimited_s=moved_s), costs=there)


def seconds_of_others(workload: Workload, phase: str, data: DeviceData) -> float:
    """Return a round's seconds by four rates: a byte loaded, a layer, a FLOP, a byte touched.

    The rates are fitted to the same phase of other networks with the same schedule and loader, by
    non-negative least squares of relative errors.

    Raises:
        CannotPredictError: no such network ran.
    """
    known = [
        (other.amounts, curve.unlimited_s)
        for curve, other in _alike(workload, data)
        if curve.phase == phase and len(curve.unlimited_seconds)
    ]
    if not known:
        raise CannotPredictError("no unlimited trial of it, nor of other networks to learn from")
    rates = relative_least_squares(*zip(*known, strict=True))
    return float(np.dot(workload.amounts, rates))


def needs_of_others(workload: Workload, data: DeviceData) -> float:
    """Return what a network needs: the runtime, its table's bytes, and memory of its own.

    Its own are kernels that are compiled for it, and what the allocator keeps: as much for each
    layer as other networks with the same schedule and loader have.

    Raises:
        CannotPredictError: the runtime's footprint is not known.
    """
    base_bytes, own = data.runtime_bytes, {}
    for curve, other in _alike(workload, data):
        if curve.demand_bytes is not None:
            rest = curve.demand_bytes - base_bytes - other.table_bytes
            own[other.network] = rest / len(other.layers)
    each = max(0.0, median(own.values())) if own else 0.0
    return base_bytes + workload.table_bytes + each * len(workload.layers)


def _alike(workload: Workload, data: DeviceData) -> Iterator[tuple[Curve, Workload]]:
    for curve in data.curves:
        if curve.workload_network != workload.network:
            try:
                other = workload_of(curve.settings, data.tables)
            except CannotPredictError:
                continue
            if (other.schedule, other.loader) == (workload.schedule, workload.loader):
                yield curve, other
