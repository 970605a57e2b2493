"""``stream``: keep the weights that fit in memory, and read the rest once in each pass.

Weights that are used in the same order again and again are a cyclic scan, for which a kernel that
evicts what was used longest ago is the worst there is: as soon as they don't fit all of them are
read again in each pass. The best that can be done is to keep some of them and read only the others
(Belady, "A study of replacement algorithms for a virtual-storage computer", 1966).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from edgebench.layers.cut import Call
from edgebench.layers.memory_room import MemoryRoom
from edgebench.layers.network import LayeredNetwork
from edgebench.layers.page_advice import PageRange, lock, pages_of
from edgebench.layers.pass_reader import PassReader
from edgebench.layers.samples import Sample
from edgebench.layers.schedules.base import Outputs, Schedule, unloading


class Stream(Schedule):
    """One thread; a network's weights are mapped, and as many locked as there is room for."""

    #: How much a limit leaves for weights; a schedule that was given none keeps all.
    room = MemoryRoom(None, swaps=False, free=lambda: None)
    #: Whether there was a pass, in which the kernel had to find out what is idle.
    _has_passed = False
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
        with (
            self.room.watching(lambda: weights.pages),
            self._whole(phase, network),
            weights.reader(network.calls, by_kernel=not self._has_passed) as reader,
        ):
            self._has_passed = True
            return self.forward(
                network,
                sample,
                phase,
                lambda call: reader.before(call.order),
                lambda call: reader.after(call.order),
            )


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
        #: Calls that use their weights more than once.
        self._used_again: set[int] = set()

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

    def reader(self, calls: Sequence[Call], *, by_kernel: bool) -> PassReader:
        """What reads those that are not kept, for one pass.

        ``by_kernel``: within layers the kernel reads and evicts, as it does for any program: so it
        finds out what of the runtime is idle, and swaps that out.
        """
        pages = {call.order: self.read_in_pass.get(call.part.name, ()) for call in calls}
        return PassReader(pages, set(pages) if by_kernel else self._used_again)

    def _kept(self, pages: PageRange) -> PageRange:
        """Lock as much of it as there is room for; what is left of it."""
        room = pages.length if self._room is None else self._room - self.kept_bytes
        kept = lock(pages.split(room)[0])
        self.kept_bytes += kept
        return pages.split(kept)[1]
