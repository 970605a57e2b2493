"""Which layers a limit makes slow, as the simulator sees it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgebench.slowdown.simulator import Device, simulate
from edgebench.slowdown.tables import Workload


@dataclass(frozen=True)
class LayerCost:
    """What a limit adds to a layer in one round: seconds, and what part that is of all."""

    network: str
    order: int
    name: str
    added_s: float
    share: float


def layer_costs(workload: Workload, device: Device, limit_bytes: float) -> list[LayerCost]:
    """The layers that a limit adds time to, the worst first."""
    simulation = simulate(workload, device, np.array([limit_bytes]))
    costs: list[tuple[float, str, int, str]] = []
    for place, network in enumerate(workload.networks):
        for layer in workload.tables[place]:
            tasks = simulation.where(None, [place], layer.order)
            added_s = float(simulation.a_round(simulation.io_s, tasks)[0])
            if added_s > 0:
                costs.append((added_s, network, layer.order, layer.name))
    total = sum(added_s for added_s, *_ in costs)
    worst_first = sorted(costs, key=lambda cost: (-cost[0], cost[1], cost[2]))
    return [LayerCost(n, order, name, s, s / total) for s, n, order, name in worst_first]
