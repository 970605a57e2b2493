"""``deepeye``: two lanes; one loads and executes convolutions, the other fully connected layers.

The convolutional part is all before the first fully connected layer. While the first lane works
on a network's convolutions, the second loads its fully connected part, and those of the networks
after it; what can be executed goes before what can be loaded. The first lane is on the next
network by then.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

from torch import nn

from edgebench.layers.cut import Call
from edgebench.layers.network import LayeredNetwork
from edgebench.layers.samples import Sample
from edgebench.layers.schedules.base import Outputs, Schedule
from edgebench.layers.schedules.thread_order import ThreadOrder


def first_connected(network: LayeredNetwork) -> int:
    """Order of the first layer with a fully connected one in it; how many layers, if none."""
    connected = (call.order for call in network.calls if _connected(call))
    return next(connected, len(network.calls))


def _connected(call: Call) -> bool:
    inside = [call.part.module] if call.part.own_only else call.part.module.modules()
    return any(isinstance(module, nn.Linear) for module in inside)


class DeepEye(Schedule):
    """A forward pass can't change threads, so each has its own, and the lanes are turns."""

    def _run(self, inputs: Sequence[Sample]) -> Outputs:
        lanes = Lanes(self.networks)
        outputs: dict[int, Any] = {}

        def network_thread(number: int) -> None:
            with ExitStack() as second_lane:
                outputs[number] = self._forward(lanes, number, inputs[number], second_lane)
                # A network without fully connected layers never got to the second lane.
                lanes.order.done((number, "convolved"))
                lanes.order.done((number, "executed"))

        numbers = range(len(self.networks))
        passes = [partial(network_thread, number) for number in numbers]
        lanes.order.run([partial(self._load_connected, lanes), *passes])
        return [outputs[number] for number in numbers]

    def _load_connected(self, lanes: Lanes) -> None:
        """The second lane, but for its executions."""
        for number in range(len(self.networks)):
            self._load_part(lanes, number)

    def _load_part(self, lanes: Lanes, number: int) -> None:
        """Load the fully connected part of one network, layer by layer."""
        network = self.networks[number]
        for call in network.calls[lanes.splits[number] :]:
            lanes.let_pass(number)
            with lanes.second:
                self.load(network, call)
        lanes.order.done((number, "loaded"))

    def _forward(self, lanes: Lanes, number: int, sample: Sample, second_lane: ExitStack) -> Any:
        network, split = self.networks[number], lanes.splits[number]

        def before(call: Call) -> None:
            if call.order < split:
                self.load(network, call)
            elif call.order == split:
                # From here on it is in the second lane: the first takes the next network.
                lanes.order.done((number, "convolved"))
                lanes.order.wait((number, "loaded"))
                second_lane.enter_context(lanes.second)

        if number > 0:
            lanes.order.wait((number - 1, "convolved"))
        return self.forward(network, sample, "first", before, network.unload)


class Lanes:
    """Where the networks of one round are, and who is in the second lane."""

    def __init__(self, networks: Sequence[LayeredNetwork]) -> None:
        self.order = ThreadOrder()
        self.second = threading.Lock()
        self.splits = [first_connected(network) for network in networks]

    def let_pass(self, number: int) -> None:
        """Wait for the networks before this one that are ready to execute in the second lane."""
        for earlier in range(number):
            if self.order.is_done((earlier, "convolved")):
                self.order.wait((earlier, "executed"))
