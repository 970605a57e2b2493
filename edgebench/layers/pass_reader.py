"""Reads, ahead of a pass, the weights that are not kept, and drops them behind it.

A thread of its own does, since a layer may be larger than what may be read ahead. How far a pass
is the page table tells: a page that was only read ahead is not in it (Linux,
Documentation/admin-guide/mm/pagemap.rst).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from edgebench.layers.page_advice import (
    PageRange,
    PageTable,
    drop,
    expect_in_sequence,
    expect_no_order,
    read_ahead,
)

#: So much is read ahead of what a pass has used.
WINDOW_BYTES = 2 << 20
#: So much is read, and dropped, at a time.
PIECE_BYTES = 256 << 10
#: So often the page table is read, while there is something to read or to drop.
_LOOK_S = 0.001
#: A layer uses its weights again if it came back to this part of what was dropped, and to so many
#: pieces. A thread that stood still in a piece that looked used comes back to that one alone.
_SHARE, _PIECES = 0.25, 3


@dataclass(eq=False)
class _Piece:
    """A part of what one call reads in a pass."""

    pages: PageRange
    asked: bool = False
    mapped_bytes: int = 0
    dropped: bool = False

    @property
    def ahead_bytes(self) -> int:
        """Read ahead, and not used yet."""
        return self.pages.length - self.mapped_bytes if self.asked and not self.dropped else 0

    @property
    def is_waiting(self) -> bool:
        """Nobody has asked for it in this pass."""
        return not (self.asked or self.dropped)

    def drop(self) -> None:
        """Give it back."""
        drop(self.pages)
        self.dropped, self.mapped_bytes = True, 0


@dataclass(eq=False)
class _CallsPages:
    """What one call reads in a pass: its ranges, each with its pieces."""

    call: int
    ranges: list[tuple[PageRange, list[_Piece]]]
    drops: int = 0
    again: int = 0
    pieces: list[_Piece] = field(init=False)

    def __post_init__(self) -> None:
        self.pieces = [piece for _, pieces in self.ranges for piece in pieces]

    def follow(self, table: PageTable) -> None:
        """Drop what the layer is beyond: what was all used at the look before."""
        for pages, pieces in self.ranges:
            mapped = table.mapped_bytes(pages, PIECE_BYTES)
            for piece, mapped_bytes in zip(pieces, mapped, strict=True):
                if piece.dropped and mapped_bytes:
                    piece.dropped = False
                    self.again += 1
                elif not piece.dropped and piece.mapped_bytes == piece.pages.length:
                    piece.drop()
                    self.drops += 1
                    continue
                piece.mapped_bytes = mapped_bytes

    @property
    def is_used_again(self) -> bool:
        """Whether the layer comes back to what it has used."""
        return self.again >= max(_PIECES, _SHARE * self.drops)

    def advise(self, *, in_sequence: bool) -> None:
        """Have the kernel read ahead by itself, or not."""
        for pages, _ in self.ranges:
            (expect_in_sequence if in_sequence else expect_no_order)(pages)

    def drop(self) -> None:
        """Give all of it back."""
        for pages, _ in self.ranges:
            drop(pages)


class PassReader:
    """Reads ahead of one pass.

    Some layers use their weights more than once, as a product by blocks does. They are noted, and
    the kernel reads their weights as it does by itself; they are dropped after the layer.

    Args:
        pages: call → its pages that are not kept, in the order of the calls.
        used_again: calls that use their weights more than once; filled in.
    """

    def __init__(self, pages: Mapping[int, Sequence[PageRange]], used_again: set[int]) -> None:
        self._used_again = used_again
        self._left = list(_calls_pages(pages))
        self._begun: set[int] = set()
        self._ended: set[int] = set()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pass-reader", daemon=True)

    def __enter__(self) -> PassReader:
        if self._left:
            for one in self._left:
                one.advise(in_sequence=one.call in self._used_again)
            self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._thread.ident is not None:
            self._end.set()
            self._thread.join()

    def before(self, call: int) -> None:
        """It is about to be executed."""
        self._begun.add(call)

    def after(self, call: int) -> None:
        """It has been."""
        self._ended.add(call)

    def _run(self) -> None:
        with PageTable() as table:
            if not table.is_readable:
                for one in self._left:
                    self._note(one)
            while self._left:
                self._look(table)
                if self._end.wait(_LOOK_S):
                    break
        for one in self._left:
            one.drop()

    def _look(self, table: PageTable) -> None:
        begun, ended = set(self._begun), set(self._ended)
        for one in self._left:
            if one.call in ended:
                one.drop()
            elif one.call in begun - self._used_again:
                one.follow(table)
                if one.is_used_again:
                    self._note(one)
        self._left = [one for one in self._left if one.call not in ended]
        self._ask()

    def _note(self, one: _CallsPages) -> None:
        self._used_again.add(one.call)
        one.advise(in_sequence=True)

    def _ask(self) -> None:
        """Read on: first what the pass has come to by itself, then what is next."""
        pieces = [piece for one in self._left for piece in one.pieces]
        ahead = sum(piece.ahead_bytes for piece in pieces)
        waiting = [piece for piece in pieces if piece.is_waiting]
        for piece in sorted(waiting, key=lambda one: not one.mapped_bytes):
            if ahead >= WINDOW_BYTES:
                break
            read_ahead(piece.pages)
            piece.asked = True
            ahead += piece.ahead_bytes


def _calls_pages(pages: Mapping[int, Sequence[PageRange]]) -> Iterator[_CallsPages]:
    for call, ranges in pages.items():
        if some := [one for one in ranges if one.length]:
            cut = [(one, [_Piece(piece) for piece in one.pieces(PIECE_BYTES)]) for one in some]
            yield _CallsPages(call, cut)
