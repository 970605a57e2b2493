"""``linear``: load a layer, execute it, unload it, and on to the next."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from edgebench.layers.samples import Sample
from edgebench.layers.schedules.base import Outputs, Schedule


class Linear(Schedule):
    """One thread; the least memory: one layer's weights at a time."""

    def _run(self, inputs: Sequence[Sample]) -> Outputs:
        return [
            self.forward(network, sample, "first", partial(self.load, network), network.unload)
            for network, sample in zip(self.networks, inputs, strict=True)
        ]
