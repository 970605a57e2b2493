"""The live memory of a program, kept up over a record of its allocations."""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from typing import Generic, TypeVar

Caller = TypeVar("Caller", bound=Hashable)


class LiveSet(Generic[Caller]):
    """Live bytes, and who holds them. What was got before the record began is not in it."""

    def __init__(self) -> None:
        self.live_bytes = 0
        self._blocks: dict[int, tuple[int, Caller]] = {}
        self._mappings: dict[int, tuple[int, Caller]] = {}
        self._held: dict[Caller, int] = {}

    def allocate(self, address: int, size: int, caller: Caller) -> None:
        """A block of malloc and its kin; one at the same address was freed unseen."""
        self.free(address)
        self._blocks[address] = (size, caller)
        self._hold(caller, size)

    def free(self, address: int) -> None:
        """A block is given back; nothing happens if its allocation was not seen."""
        block = self._blocks.pop(address, None)
        if block:
            self._hold(block[1], -block[0])

    def map(self, start: int, size: int, caller: Caller) -> None:
        """A mapping: it takes the place of what was mapped there."""
        self.unmap(start, size)
        self._mappings[start] = (size, caller)
        self._hold(caller, size)

    def unmap(self, start: int, size: int) -> None:
        """Give this range back: a mapping, part of one, or parts of several."""
        end = start + size
        for at, (length, caller) in list(self._mappings.items()):
            if at >= end or at + length <= start:
                continue
            del self._mappings[at]
            for piece, until in ((at, start), (end, at + length)):
                if piece < until:
                    self._mappings[piece] = (until - piece, caller)
            self._hold(caller, max(start, at) - min(end, at + length))

    def largest(self, most: int) -> list[tuple[Caller, int]]:
        """Who holds most, and how many bytes, largest first."""
        return heapq.nlargest(most, self._held.items(), key=lambda item: item[1])

    def _hold(self, caller: Caller, size: int) -> None:
        self.live_bytes += size
        self._held[caller] = self._held.get(caller, 0) + size
