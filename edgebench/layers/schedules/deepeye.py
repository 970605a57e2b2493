"""``deepeye``: two lanes; one loads and executes convolutions, the other fully connected layers.

The convolutional part is all before the first fully connected layer. The second lane loads a
network's fully connected part while the first still works on its convolutions, and executes it
when both are ready; meanwhile the first lane has gone on to the next network.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import nn

from edgebench.layers.cut import Call
from edgebench.layers.network import LayeredNetwork
from edgebench.layers.schedules.base import Outputs, Schedule
from edgebench.layers.schedules.gate import Gate


def first_connected(network: LayeredNetwork) -> int:
    """Order of the first fully connected layer; the number of layers if there is none."""
    kinds = (nn.Linear, nn.MultiheadAttention)
    connected = (call.order for call in network.calls if isinstance(call.part.module, kinds))
    return next(connected, len(network.calls))


class DeepEye(Schedule):
    """A forward pass can't change threads, so each has its own, and the lanes are turns."""

    def _run(self, inputs: Sequence[torch.Tensor]) -> Outputs:
        gate = Gate()
        outputs: dict[int, torch.Tensor] = {}
        for turn in ("convolved", "executed"):
            gate.done((-1, turn))

        def network_thread(number: int) -> None:
            outputs[number] = self._forward(gate, number, inputs[number])
            gate.done((number, "convolved"))
            gate.done((number, "executed"))

        numbers = range(len(self.networks))
        passes = [partial(network_thread, number) for number in numbers]
        gate.run([partial(self._load_connected, gate), *passes])
        return [outputs[number] for number in numbers]

    def _load_connected(self, gate: Gate) -> None:
        """The second lane between its executions: load, then wait until this one has run."""
        for number, network in enumerate(self.networks):
            for call in network.calls[first_connected(network) :]:
                self.load(network, call)
            gate.done((number, "loaded"))
            gate.wait((number, "executed"))

    def _forward(self, gate: Gate, number: int, sample: torch.Tensor) -> torch.Tensor:
        network = self.networks[number]
        split = first_connected(network)

        def before(call: Call) -> None:
            if call.order < split:
                self.load(network, call)
            elif call.order == split:
                # From here on it is the second lane's: the first may take the next network.
                gate.done((number, "convolved"))
                gate.wait((number, "loaded"))

        gate.wait((number - 1, "convolved"))
        return self.forward(network, sample, "first", before, network.unload)
