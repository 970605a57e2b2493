"""``partial``: several workers; loads wait for nothing, an execution for its load and its turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from edgebench.layers.cut import Call
from edgebench.layers.network import LayeredNetwork
from edgebench.layers.samples import Sample
from edgebench.layers.schedules.base import Outputs, Schedule
from edgebench.layers.schedules.thread_order import ThreadOrder


class Partial(Schedule):
    """One worker executes; all load ahead, over the whole pipeline, as fast as they can."""

    def _run(self, inputs: Sequence[Sample]) -> Outputs:
        order, outputs = ThreadOrder(), Outputs()

        def execute() -> None:
            for network, sample in zip(self.networks, inputs, strict=True):
                outputs.append(self._execute(order, network, sample))

        def load_ahead() -> None:
            for number, network in enumerate(self.networks):
                for call in network.calls:
                    self._load_once(order, number, network, call)

        order.run([execute, *[load_ahead] * (self.workers - 1)])
        return outputs

    def _execute(self, order: ThreadOrder, network: LayeredNetwork, sample: Sample) -> Any:
        number = self.networks.index(network)

        def before(call: Call) -> None:
            # A worker with nothing to execute loads what it waits for.
            self._load_once(order, number, network, call)
            order.wait((number, call.order))

        return self.forward(network, sample, "first", before, network.unload)

    def _load_once(
        self, order: ThreadOrder, number: int, network: LayeredNetwork, call: Call
    ) -> bool:
        """Load a layer unless another worker has or does; whether it was loaded here."""
        if not order.claim((number, call.order)):
            return False
        self.load(network, call)
        order.done((number, call.order))
        return True
