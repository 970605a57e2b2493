"""``stream``: keep the weights that fit in memory, and read the rest once in each pass.

Weights that are used in the same order again and again are a cyclic scan, for which a kernel that
evicts what was used longest ago is the worst there is: as soon as they don't fit all of them are
read again in each pass. The best that can be done is to keep some of them and read only the others
(Belady, "A study of replacement algorithms for a virtual-storage computer", 1966).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from edgebench.layers.cut import Call
from edgebench.layers.memory_room import MemoryRoom
from edgebench.layers.network import LayeredNetwork
from edgebench.layers.page_advice import (
    PageRange,
    drop,
    expect_in_sequence,
    lock,
    pages_of,
    read_ahead,
    total_bytes,
)
from edgebench.layers.samples import Sample
from edgebench.layers.schedules.base import Outputs, Schedule, unloading

#: So much is read ahead of the layer that is executed.
WINDOW_BYTES = 4 << 20


class Stream(Schedule):
    """One thread; a network's weights are mapped, and as many locked as there is room for."""

    #: How much a limit leaves for weights; a schedule that was given none keeps all.
    room = MemoryRoom(None, swaps=False, free=lambda: None)
    #: The most bytes of weights that were locked at a time.
    most_kept_bytes = 0

    def _run(self, inputs: Sequence[Sample]) -> Outputs:
        return [self._one(net, x) for net, x in zip(self.networks, inputs, strict=True)]

    def _one(self, network: LayeredNetwork, sample: Sample) -> Any:
        calls = network.first_calls()
        weights = StreamedWeights(self.room.for_weights())
        for call in calls:
            with self._layer("load", network, call):
                network.load(call)
                weights.add(call)
        with unloading(network, calls):
            output = self._pass(network, sample, "first", weights)
            for _ in range(self.warm):
                # What the first pass needed besides is known now.
                weights.keep(self.room.for_weights())
                self._pass(network, sample, "execute", weights)
            self.most_kept_bytes = max(self.most_kept_bytes, weights.kept_bytes)
        return output

    def _pass(
        self, network: LayeredNetwork, sample: Sample, phase: str, weights: StreamedWeights
    ) -> Any:
        reader = _Reader(weights.read_in_pass)
        with self.room.watching(lambda: weights.pages), self._whole(phase, network):
            return self.forward(network, sample, phase, reader.before, reader.after)


class StreamedWeights:
    """The pages of a network's parts: those that are kept, then those that are read in each pass.

    Args:
        room_bytes: how many may be kept; None: all.
    """

    def __init__(self, room_bytes: int | None) -> None:
        self._room = room_bytes
        self._seen: set[int] = set()
        self.kept_bytes = 0
        #: Where all of them lie.
        self.pages: list[PageRange] = []
        #: Part → its pages that are not kept.
        self.read_in_pass: dict[str, list[PageRange]] = {}

    def add(self, call: Call) -> None:
        """Its part's weights, mapped by now; tensors of several parts are the first one's."""
        pages = [
            one for one in pages_of(call.part.tensors().values()) if one.address not in self._seen
        ]
        self._seen.update(one.address for one in pages)
        self.pages += pages
        self.read_in_pass[call.part.name] = [self._kept(one) for one in pages]

    def keep(self, room_bytes: int | None) -> None:
        """Keep more, from the first part on, if there is more room than there was."""
        self._room = room_bytes
        for part, pages in self.read_in_pass.items():
            self.read_in_pass[part] = [self._kept(one) for one in pages]

    def _kept(self, pages: PageRange) -> PageRange:
        """Lock as much of it as there is room for; what is left of it."""
        room = pages.length if self._room is None else self._room - self.kept_bytes
        kept = lock(pages.split(room)[0])
        self.kept_bytes += kept
        _, rest = pages.split(kept)
        if rest.length:
            expect_in_sequence(rest)
        return rest


class _Reader:
    """Reads ahead of a pass, and drops behind it, what is not kept."""

    def __init__(self, pages: Mapping[str, Sequence[PageRange]]) -> None:
        self._pages = pages
        self._queue = [one for ranges in pages.values() for one in ranges if one.length]
        self._ahead = 0

    def before(self, call: Call) -> None:
        """A layer is about to be executed."""
        if not self._ahead:
            self._read()

    def after(self, call: Call) -> None:
        """It has been."""
        done = self._pages.get(call.part.name, ())
        for pages in done:
            drop(pages)
        self._ahead = max(0, self._ahead - total_bytes(done))
        self._read()

    def _read(self) -> None:
        while self._queue and self._ahead < WINDOW_BYTES:
            pages = self._queue.pop(0)
            first, _ = pages.split(WINDOW_BYTES - self._ahead)
            # From there on the kernel reads ahead, when the layer comes to it.
            read_ahead(first)
            self._ahead += pages.length
