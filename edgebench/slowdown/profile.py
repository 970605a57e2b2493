"""What the simulator says of a workload, phase by phase, over a fine range of limits."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from edgebench.slowdown.cpu import TYPICAL
from edgebench.slowdown.data import Curve, FloatArray
from edgebench.slowdown.landscape import Landscape, never_rising
from edgebench.slowdown.model import CannotTellError, Context
from edgebench.slowdown.simulator import (
    Device,
    Simulation,
    anonymous_peak_bytes,
    device_of,
    simulate,
)
from edgebench.slowdown.tables import Workload
from edgebench.slowdown.trainings import any_workload_of, is_training

#: Limits of a profile, a factor of about 1.02 apart, between these shares of the demand.
_STEPS, _LOWEST, _HIGHEST = 160, 0.06, 1.5


@dataclass(frozen=True)
class Profile:
    """One phase of a workload over limits, in the order of the limits.

    Attributes:
        ln_limit: logarithms of the limits.
        io_s: seconds that each limit adds to one pass.
        in_share, out_share, file_share: bytes that come back from swap, go there, and are read
            again from their file in a pass, against the weights' bytes.
        depth: ln(demand / M).
    """

    ln_limit: FloatArray
    io_s: FloatArray
    in_share: FloatArray
    out_share: FloatArray
    file_share: FloatArray
    depth: FloatArray


def demand_bytes(workload: Workload, device: Device) -> float:
    """What the workload needs for no limit to matter, as the simulator sees it."""
    mapped = workload.weight_bytes if workload.loader == "mmap" else 0
    return anonymous_peak_bytes(workload, device) + mapped


def workload_for(asked: Curve, context: Context) -> Workload:
    """What the curve's trials ran.

    Raises:
        CannotTellError: no layer table of it, or no networks were run.
    """
    settings = asked.settings
    key = ("workload", *sorted(settings.items()))
    try:
        return context.once(key, lambda: any_workload_of(settings, context.tables))
    except KeyError as error:
        raise CannotTellError(f"no layer table of this workload: {error.args[0]!r}") from None


def inference_for(asked: Curve, context: Context) -> Workload:
    """The same, of what is told by what networks take that are only run.

    Raises:
        CannotTellError: a training; or as :func:`workload_for`.
    """
    if is_training(asked.settings):
        raise CannotTellError("it tells of networks that are run, not of training")
    return workload_for(asked, context)


def device_for(asked: Curve, context: Context) -> Device:
    """The constants of the curve's device.

    Raises:
        CannotTellError: there are none, or they are of another device or kind of swap.
    """
    found = context.calibration
    if found is None:
        raise CannotTellError("the device is not calibrated: edgebench calibrate")
    device = asked.settings.get("device", found.device)
    kind = asked.settings.get("swap_kind", found.swap_kind)
    if (device, kind) != (found.device, found.swap_kind):
        raise CannotTellError(
            f"the calibration is of {found.device} with swap {found.swap_kind}, "
            f"the trials are of {device} with swap {kind}"
        )
    return context.once("device", lambda: device_of(found))


def profile(asked: Curve, unlimited_s: float, context: Context) -> Profile:
    """What the limit adds to the curve's phase; ``total`` is the round on the clock.

    Raises:
        CannotTellError: no table or no calibration.
    """
    workload, device = workload_for(asked, context), device_for(asked, context)
    # Where nothing overlaps, what is added does not depend on what it is added to.
    clock_s = unlimited_s if asked.phase == "total" and workload.overlaps else 0.0
    return _profile(workload, device, asked.phase, asked.network, clock_s)


def physical(asked: Curve, unlimited_s: float, context: Context) -> Landscape:
    """The slowdown that the physical model predicts: S(M) = (T(∞) + T_io(M)) / T(∞).

    Raises:
        CannotTellError: no table or no calibration.
    """
    found = profile(asked, unlimited_s, context)
    return never_rising(found.ln_limit, np.log1p(found.io_s / unlimited_s))


@lru_cache(maxsize=4096)
def _profile(
    workload: Workload, device: Device, phase: str, network: str, clock_s: float
) -> Profile:
    simulation = _simulation(workload, device)
    whole = phase == "total"
    places = range(len(workload.networks))
    here = [n for n in places if whole or workload.networks[n] == network]
    tasks = simulation.where(None if whole else phase, here)
    passes = max(1, workload.passes - 1) if phase == "execute" else 1
    weights = max(1.0, float(sum(workload.network_bytes(n) for n in here)))

    def share(bytes_: FloatArray) -> FloatArray:
        return simulation.a_round(bytes_, tasks) / passes / weights

    io_s = simulation.a_round(simulation.io_s, tasks) / passes
    if clock_s:
        io_s = simulation.round_s(_cpu_s(simulation, clock_s)) - clock_s
    limits = simulation.limit_bytes
    return Profile(
        ln_limit=np.log(limits),
        io_s=io_s,
        in_share=share(simulation.missed.in_bytes),
        out_share=share(simulation.missed.out_bytes),
        file_share=share(simulation.missed.file_bytes),
        depth=np.log(demand_bytes(workload, device) / limits),
    )


@lru_cache(maxsize=4)
def _simulation(workload: Workload, device: Device) -> Simulation:
    """All phases of a workload come from one simulation."""
    demand = demand_bytes(workload, device)
    return simulate(workload, device, np.geomspace(_LOWEST, _HIGHEST, _STEPS) * demand)


def _cpu_s(simulation: Simulation, clock_s: float) -> FloatArray:
    """Each task's unlimited time, so that a round takes ``clock_s``."""
    typical = np.array([TYPICAL.seconds(task) for task in simulation.tasks])
    return typical * (clock_s / simulation.unlimited_s(typical))
