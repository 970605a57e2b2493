"""The lists of pages that reclaim takes from, and whose turn it is."""

from __future__ import annotations

from collections import OrderedDict

#: What reclaim leaves to the page cache before it turns to anonymous memory: ``inactive file >>
#: DEF_PRIORITY``, with DEF_PRIORITY 12, is 0 below 4096 pages of 4 KiB.
CACHE_KEPT_BYTES = 4096 * 4096
#: A page written to swap, and one whose eviction was a mistake, cost as much as this many scanned
#: in vain (``SWAP_CLUSTER_MAX``).
IO_COST = 32
#: ``vm.swappiness``, of 200.
_SWAPPINESS = 60
#: How much of its turn anonymous memory loses beside files in use: pages on their way to swap are
#: looked at and not yet freed. Chosen on counted passes of mapped weights
#: (docs/decisions.md).
_ANON_TURN_BESIDE_FILES = 0.2


class PageLists:
    """The two lists of one kind of memory, oldest first, and what reclaim remembers of it."""

    __slots__ = ("active", "active_bytes", "ages", "cost", "due", "inactive", "inactive_bytes")

    def __init__(self) -> None:
        self.inactive: OrderedDict[int, None] = OrderedDict()
        self.active: OrderedDict[int, None] = OrderedDict()
        self.inactive_bytes = self.active_bytes = 0.0
        #: Pages written and scanned in vain, lately.
        self.cost = 0.0
        #: Whether active pages age beside inactive ones: until the end of the next reclaim, once
        #: something of the working set came back or the active list was the longer one.
        self.ages = False
        #: Bytes of the active list whose turn it is to age.
        self.due = 0.0

    def put(self, piece: int, size: float, active: bool) -> None:
        """Add a piece as the newest of a list."""
        if active:
            self.active[piece] = None
            self.active_bytes += size
        else:
            self.inactive[piece] = None
            self.inactive_bytes += size

    def take(self, piece: int, size: float) -> None:
        """Remove a piece from the list that holds it."""
        if piece in self.active:
            del self.active[piece]
            self.active_bytes -= size
        else:
            del self.inactive[piece]
            self.inactive_bytes -= size


class Balance:
    """Anonymous memory and files, and how reclaim shares its scanning among them.

    ``swaps`` tells whether anonymous memory can go anywhere.
    """

    def __init__(self, swaps: bool) -> None:
        self.anon, self.file = PageLists(), PageLists()
        self._swaps = swaps
        #: The share of a turn that files have saved up.
        self._file_turn = 0.0

    def next_kind(self) -> PageLists:
        """Whose turn it is, by how much there is to scan and what scanning has cost.

        Active pages age beside inactive ones where they are more than these.
        """
        anon, file = self.anon, self.file
        anon_bytes, file_bytes = anon.inactive_bytes, file.inactive_bytes
        if anon.ages or anon_bytes < anon.active_bytes:
            anon.ages = True
            anon_bytes += anon.active_bytes
        if file.ages or file_bytes < file.active_bytes:
            file.ages = True
            file_bytes += file.active_bytes
        only_cache = file.inactive_bytes > CACHE_KEPT_BYTES and not file.ages
        if only_cache or not self._swaps:
            return file
        if not file_bytes:
            return anon
        total = anon.cost + file.cost
        anon_turn = anon_bytes * _SWAPPINESS / (total + anon.cost + 1)
        if file.inactive_bytes + file.active_bytes > CACHE_KEPT_BYTES:
            anon_turn *= _ANON_TURN_BESIDE_FILES
        file_turn = file_bytes * (200 - _SWAPPINESS) / (total + file.cost + 1)
        self._file_turn += file_turn / (anon_turn + file_turn)
        if self._file_turn < 1:
            return anon
        self._file_turn -= 1
        return file

    def note(self, lists: PageLists, cost: float) -> None:
        """What scanning a kind cost; old costs fade."""
        anon, file = self.anon, self.file
        lists.cost += cost
        if anon.cost + file.cost <= anon.inactive_bytes / 4:
            return
        most = anon.inactive_bytes + anon.active_bytes + file.inactive_bytes + file.active_bytes
        while anon.cost + file.cost > most / 4 > 0:
            anon.cost /= 2
            file.cost /= 2
