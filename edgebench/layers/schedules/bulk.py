"""``bulk``: load all of a network, then execute all of it, then the next network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from edgebench.layers.advised_pages import AdvisedPages
from edgebench.layers.network import LayeredNetwork
from edgebench.layers.samples import Sample
from edgebench.layers.schedules.base import Outputs, Schedule, unloading


class Bulk(Schedule):
    """One thread; a network's weights stay until it has run, so it can run again, warm."""

    #: What the kernel is told of mapped weights; None: nothing.
    page_advice: str | None = None

    def _run(self, inputs: Sequence[Sample]) -> Outputs:
        return [self._one(net, x) for net, x in zip(self.networks, inputs, strict=True)]

    def _one(self, network: LayeredNetwork, sample: Sample) -> Any:
        calls = network.first_calls()
        for call in calls:
            self.load(network, call)
        pages = AdvisedPages(self.page_advice, network)
        with unloading(network, calls):
            output = self._pass(network, sample, "first", pages)
            for _ in range(self.warm):
                self._pass(network, sample, "execute", pages)
        return output

    def _pass(
        self, network: LayeredNetwork, sample: Sample, phase: str, pages: AdvisedPages
    ) -> Any:
        with self._whole(phase, network):
            return self.forward(network, sample, phase, pages.before, pages.after)
