"""``partial``: several workers; loads wait for nothing, an execution for its load and its turn."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from edgebench.layers.cut import Call
from edgebench.layers.network import LayeredNetwork
from edgebench.layers.schedules.base import Outputs, Schedule
from edgebench.layers.schedules.gate import Gate


class Partial(Schedule):
    """One worker executes; all load ahead, over the whole pipeline, as fast as they can."""

    def _run(self, inputs: Sequence[torch.Tensor]) -> Outputs:
        gate, outputs = Gate(), Outputs()

        def execute() -> None:
            for network, sample in zip(self.networks, inputs, strict=True):
                outputs.append(self._execute(gate, network, sample))

        def load_ahead() -> None:
            for number, network in enumerate(self.networks):
                for call in network.calls:
                    self._load_once(gate, number, network, call)

        gate.run([execute, *[load_ahead] * (self.workers - 1)])
        return outputs

    def _execute(self, gate: Gate, network: LayeredNetwork, sample: torch.Tensor) -> torch.Tensor:
        number = self.networks.index(network)

        def before(call: Call) -> None:
            # A worker with nothing to execute loads what it waits for.
            self._load_once(gate, number, network, call)
            gate.wait((number, call.order))

        return self.forward(network, sample, "first", before, network.unload)

    def _load_once(self, gate: Gate, number: int, network: LayeredNetwork, call: Call) -> None:
        if gate.claim((number, call.order)):
            self.load(network, call)
            gate.done((number, call.order))
