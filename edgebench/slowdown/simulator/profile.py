"""A simulated workload: its phases over a fine range of limits, and its layers at one limit."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import lru_cache

import numpy as np

from edgebench.results.rounds import START
from edgebench.slowdown.context import CannotPredictError, Context
from edgebench.slowdown.curves import WHOLES, Curve, FloatArray
from edgebench.slowdown.simulated_counts import kept_counts
from edgebench.slowdown.simulator.computing import computing_s
from edgebench.slowdown.simulator.cpu_time import TYPICAL_RATES
from edgebench.slowdown.simulator.movement_costs import FREE, MovementCosts
from edgebench.slowdown.simulator.simulation import (
    Device,
    Simulation,
    anonymous_peak_bytes,
    device_of,
    simulate,
)
from edgebench.slowdown.simulator.workload import Workload, workload_of
from edgebench.slowdown.slowdown_function import SlowdownFunction, never_rising
from edgebench.workloads.engines.registry import TORCH

#: Limits of a profile, as shares of the demand: close together where slowdown rises steeply.
_SHARES = np.concatenate(
    [np.geomspace(0.12, 0.38, 48), np.geomspace(0.4, 1.1, 70), np.geomspace(1.115, 1.5, 20)]
)
#: Own memory is known to so many bytes: what differs by less is simulated once.
_STEP = float(1 << 20)


@dataclass(frozen=True)
class Profile:
    """One phase of a workload over limits, in the order of the limits.

    Attributes:
        ln_limit: logarithms of the limits.
        io_s: seconds that each limit adds to one pass.
        moved: what moves in a pass: a row for each of the attributes of
            :class:`~edgebench.slowdown.simulator.movement_costs.MovementCosts`.
    """

    ln_limit: FloatArray
    io_s: FloatArray
    moved: FloatArray


def demand_bytes(workload: Workload, device: Device) -> float:
    """What the workload needs for no limit to matter, as the simulator sees it."""
    mapped = workload.weight_bytes if workload.loader == "mmap" else 0
    return anonymous_peak_bytes(workload, device) + mapped


def workload_for(curve: Curve, context: Context) -> Workload:
    """What the curve's trials ran.

    Raises:
        CannotPredictError: no layer table of it, or it is not simulated.
    """
    settings = curve.settings
    key = ("workload", *sorted(settings.items()))
    try:
        return context.once(key, lambda: workload_of(settings, context.tables))
    except KeyError as error:
        raise CannotPredictError(f"no layer table of this workload: {error.args[0]!r}") from None


def device_for(curve: Curve, context: Context) -> Device:
    """The constants of the curve's device.

    Raises:
        CannotPredictError: there are none, or they are of another device, kind of swap or engine.
    """
    if curve.engine != TORCH:
        raise CannotPredictError(
            f"the calibration is of torch, whose runtime takes other memory than {curve.engine}'s"
        )
    found = context.calibration or context.assumed
    if found is None:
        raise CannotPredictError("the device is not calibrated: edgebench calibrate")
    device = curve.settings.get("device", found.device)
    kind = curve.settings.get("swap_kind", found.swap_kind)
    if (device, kind) != (found.device, found.swap_kind):
        raise CannotPredictError(
            f"the calibration is of {found.device} with swap {found.swap_kind}, "
            f"the trials are of {device} with swap {kind}"
        )
    return context.once("device", lambda: _with_base(device_of(found), context.base_bytes))


def _with_base(device: Device, base_bytes: float | None) -> Device:
    """With the footprint that trials show: the calibration may be of other libraries."""
    if base_bytes is None:
        return device
    base = device.base
    return replace(device, base=replace(base, bytes=max(base_bytes, base.hot_bytes)))


def device_with_demand(curve: Curve, context: Context) -> Device:
    """The constants of the curve's device, with the memory that its measured demand shows.

    What the demand has beside what the workload is known to hold is its own: kernels that were
    compiled for it, libraries' memory, and what the allocator keeps. Every execution uses it.

    Raises:
        CannotPredictError: as :func:`device_for` and :func:`workload_for`.
    """
    workload, device = workload_for(curve, context), device_for(curve, context)
    if curve.demand_bytes is None:
        return device
    base = device.base
    rest = curve.demand_bytes - demand_bytes(workload, device)
    own = _STEP * round(max(rest, 0.0) / _STEP)
    return replace(device, base=replace(base, own_bytes=own))


def _workload_of_phase(curve: Curve, context: Context) -> Workload:
    """What the curve's trials ran: of a walk its rounds, or the start in a fresh process alone."""
    workload = workload_for(curve, context)
    if not curve.walked:
        return workload
    return replace(workload, rounds=1) if curve.phase == START else replace(workload, walked=True)


def profile(
    curve: Curve,
    unlimited_s: float,
    context: Context,
    limit_bytes: FloatArray | None = None,
) -> Profile:
    """What a limit adds to the curve's phase; ``total`` and ``start`` are rounds on the clock.

    At limits from far below the demand to above it, unless ``limit_bytes`` are given.

    Raises:
        CannotPredictError: no table or no calibration.
    """
    workload, device = _workload_of_phase(curve, context), device_with_demand(curve, context)
    # What moves does not depend on what it costs.
    free = replace(device, costs=FREE, held_in_s=0.0, held_file_s=0.0)
    if limit_bytes is None:
        limit_bytes = _SHARES * demand_bytes(workload, free)
    limits = tuple(limit_bytes.tolist())
    found = _profile(workload, free, curve.phase, curve.network, limits)
    if curve.phase in WHOLES and workload.overlaps:
        return replace(found, io_s=_clock_s(workload, device, curve.phase, unlimited_s, limits))
    # Where no tasks overlap, only a held disk depends on how long the phase computes.
    computing = computing_s(curve, unlimited_s, workload, device)
    return replace(found, io_s=device.seconds(found.moved, computing))


def simulated_slowdown(curve: Curve, unlimited_s: float, context: Context) -> SlowdownFunction:
    """The slowdown that is simulated: S(M) = (T(∞) + T_io(M)) / T(∞).

    Raises:
        CannotPredictError: no table or no calibration.
    """
    found = profile(curve, unlimited_s, context)
    return never_rising(found.ln_limit, np.log1p(found.io_s / unlimited_s))


def added_at(
    curve: Curve, unlimited_s: float, context: Context, limit_bytes: FloatArray
) -> FloatArray:
    """Seconds that are simulated to be added at some limits.

    Raises:
        CannotPredictError: as :func:`profile`.
    """
    return profile(curve, unlimited_s, context, limit_bytes).io_s


@lru_cache(maxsize=4096)
def _profile(
    workload: Workload, free: Device, phase: str, network: str, limits: tuple[float, ...]
) -> Profile:
    """What moves in a round; on a device on which nothing costs anything."""
    question = ("profile", workload, free, phase, network, limits)
    shape = (len(fields(MovementCosts)), len(limits))
    moved = kept_counts(question, shape, lambda: _moved(workload, free, phase, network, limits))
    return Profile(np.log(np.array(limits)), np.zeros(len(limits)), moved)


def _moved(
    workload: Workload, free: Device, phase: str, network: str, limits: tuple[float, ...]
) -> FloatArray:
    simulation = _simulation(workload, free, limits)
    whole, start = phase in WHOLES, phase == START
    places = range(len(workload.networks))
    here = [n for n in places if whole or workload.networks[n] == network]
    tasks = simulation.where(None if whole else phase, here)
    passes = max(1, workload.passes - 1) if phase == "execute" else 1
    return np.array([simulation.a_round(one, tasks, start) / passes for one in simulation.moved])


@lru_cache(maxsize=256)
def _clock_s(
    workload: Workload, device: Device, phase: str, unlimited_s: float, limits: tuple[float, ...]
) -> FloatArray:
    """What limits add to a round on the clock in which tasks overlap."""
    simulation = _simulation(workload, device, limits)
    typical = np.array([TYPICAL_RATES.seconds(task) for task in simulation.tasks])
    cpu_s = typical * (unlimited_s / simulation.unlimited_s(typical))
    return simulation.round_s(cpu_s, phase == START) - unlimited_s


@lru_cache(maxsize=4)
def _simulation(workload: Workload, device: Device, limits: tuple[float, ...]) -> Simulation:
    """All phases of a workload come from one simulation."""
    return simulate(workload, device, np.array(limits))


@dataclass(frozen=True)
class AddedLayerTime:
    """What a limit adds to a layer in a steady round: seconds, and what part that is of all."""

    network: str
    order: int
    name: str
    added_s: float
    share: float


def added_layer_times(
    workload: Workload, device: Device, limit_bytes: float
) -> list[AddedLayerTime]:
    """The layers that a limit adds time to, the worst first."""
    simulation = simulate(workload, device, np.array([limit_bytes]))
    added = simulation.layers_s()
    costs = [
        (added_s, network, layer.order, layer.name)
        for place, network in enumerate(workload.networks)
        for layer in workload.tables[place]
        if (added_s := added.get((place, layer.order), 0.0)) > 0
    ]
    total = sum(added_s for added_s, *_ in costs)
    worst_first = sorted(costs, key=lambda cost: (-cost[0], cost[1], cost[2]))
    return [AddedLayerTime(n, order, name, s, s / total) for s, n, order, name in worst_first]
