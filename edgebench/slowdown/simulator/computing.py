"""How long a phase computes while a disk that is held to a declared speed may already read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgebench.slowdown.curves import WHOLES

if TYPE_CHECKING:
    from edgebench.slowdown.curves import Curve
    from edgebench.slowdown.simulator.simulation import Device
    from edgebench.slowdown.simulator.workload import Workload


def computing_s(curve: Curve, unlimited_s: float, workload: Workload, device: Device) -> float:
    """For how long of its unlimited time a phase does not wait for a held disk."""
    of_file = {"copy": ("load", *WHOLES), "mmap": ("first", *WHOLES)}.get(workload.loader, ())
    if not workload.cold or curve.phase not in of_file:
        return unlimited_s
    places = range(len(workload.networks))
    here = [n for n in places if curve.phase in WHOLES or workload.networks[n] == curve.network]
    read_bytes = sum(workload.network_bytes(place) for place in here)
    return max(0.0, unlimited_s - read_bytes * device.held_file_s)
