"""``admission``: a network starts only when the memory that it needs fits what is free.

What a network needs is known before: the bytes of its weights. What is free is what the limit
leaves beside the runtime, less the needs of the networks under way. EdgeCaffe calls this ``masa``
(Cox et al., "Masa: Responsive Multi-DNN Inference on the Edge", 2021).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from edgebench.layers.samples import Sample
from edgebench.layers.schedules.base import Outputs
from edgebench.layers.schedules.partial import Partial
from edgebench.layers.schedules.thread_order import ThreadOrder


class Admission(Partial):
    """Several workers; each executes an admitted network, or loads ahead for those under way."""

    def _run(self, inputs: Sequence[Sample]) -> Outputs:
        order, outputs = ThreadOrder(), dict[int, Any]()
        gate = AdmissionGate([network.weight_bytes for network in self.networks], self.free_bytes)

        def work() -> None:
            while True:
                # What can be executed goes before what can be loaded.
                number, ended = gate.start()
                if number is not None:
                    outputs[number] = self._execute(order, self.networks[number], inputs[number])
                    order.done(("ended", gate.end(number)))
                elif not self._load_ahead(order, gate.running):
                    if not gate.waiting:
                        return
                    order.wait(("ended", ended + 1))

        order.run([work] * self.workers)
        return [outputs[number] for number in range(len(self.networks))]

    def _load_ahead(self, order: ThreadOrder, running: Sequence[int]) -> bool:
        """Load the first layer that nobody has loaded yet; False if there is none."""
        for number in running:
            network = self.networks[number]
            if any(self._load_once(order, number, network, call) for call in network.calls):
                return True
        return False


class AdmissionGate:
    """Which networks wait, and which are under way.

    Args:
        needs: bytes that each network needs, in the pipeline's order.
        free_bytes: what all of them may take together; None: any number of bytes.
    """

    def __init__(self, needs: Sequence[int], free_bytes: int | None) -> None:
        self._needs = needs
        self._free = free_bytes
        self._lock = threading.Lock()
        self._ended = 0
        self.waiting = list(range(len(needs)))
        self.running: tuple[int, ...] = ()

    def start(self) -> tuple[int | None, int]:
        """The first waiting network that fits, now under way; and how many have ended so far.

        One that is larger than all that is free starts when no other is under way.
        """
        with self._lock:
            number = next((one for one in self.waiting if self._fits(one)), None)
            if number is not None:
                self.waiting.remove(number)
                self.running += (number,)
            return number, self._ended

    def end(self, number: int) -> int:
        """A network has run, and its memory is free again; how many have ended."""
        with self._lock:
            self.running = tuple(one for one in self.running if one != number)
            self._ended += 1
            return self._ended

    def _fits(self, number: int) -> bool:
        if not self.running or self._free is None:
            return True
        return sum(self._needs[one] for one in (*self.running, number)) <= self._free
