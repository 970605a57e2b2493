"""Memory page by page, with no cleverness: what certifies the analytic misses."""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

from edgebench.slowdown.references import References


@dataclass(frozen=True)
class Counted:
    """Pages that each task read back, and that went out dirty in all."""

    back: dict[int, int]
    out: int


def lru_pages(references: References, page: int, frames: int) -> Counted:
    """Least recently used; a page that was written out is clean until it is changed."""
    resident: OrderedDict[tuple[int, int], None] = OrderedDict()
    dirty: set[tuple[int, int]] = set()
    known: set[tuple[int, int]] = set()
    back: dict[int, int] = {}
    out = 0
    for task, page_id, write, gone in _touches(references, page):
        if page_id not in resident:
            if page_id in known:
                back[task] = back.get(task, 0) + 1
            if len(resident) == frames:
                dropped, _ = resident.popitem(last=False)
                out += dropped in dirty
                dirty.discard(dropped)
            resident[page_id] = None
        resident.move_to_end(page_id)
        known.add(page_id)
        if write:
            dirty.add(page_id)
        for freed in gone:
            resident.pop(freed, None)
            dirty.discard(freed)
    return Counted(back, out)


def optimal_share(references: References, page: int, frames: int) -> float:
    """Missed share of all touches but first ones under Belady's rule, with no frees."""
    order = [page_id for _, page_id, _, _ in _touches(references, page)]
    later: dict[tuple[int, int], list[int]] = {}
    for place in reversed(range(len(order))):
        later.setdefault(order[place], []).append(place)
    resident: set[tuple[int, int]] = set()
    known: set[tuple[int, int]] = set()
    missed = 0
    for page_id in order:
        later[page_id].pop()
        if page_id not in resident:
            missed += page_id in known
            if len(resident) == frames:
                resident.remove(max(resident, key=lambda p: later[p][-1] if later[p] else 10**9))
            resident.add(page_id)
        known.add(page_id)
    return missed / (len(order) - len(known))


def random_share(references: References, page: int, frames: int, skip: int) -> float:
    """Missed share under random replacement, beyond the first ``skip`` touches."""
    chance, at, resident, missed, counted = random.Random(1), {}, [], 0, 0
    for place, (_, page_id, _, _) in enumerate(_touches(references, page)):
        counted += place >= skip
        if page_id in at:
            continue
        missed += place >= skip
        if len(resident) < frames:
            at[page_id] = len(resident)
            resident.append(page_id)
        else:
            frame = chance.randrange(frames)
            del at[resident[frame]]
            resident[frame], at[page_id] = page_id, frame
    return missed / counted


def _touches(
    references: References, page: int
) -> Iterator[tuple[int, tuple[int, int], bool, list[tuple[int, int]]]]:
    """Task, page, whether written, and the pages freed right after it."""
    freed_at: dict[int, list[int]] = {}
    for piece, at in enumerate(references.freed.tolist()):
        freed_at.setdefault(at, []).append(piece)
    for place, piece in enumerate(references.piece.tolist()):
        count = _count(references, piece, page)
        for number in range(count):
            gone = freed_at.get(place, []) if number == count - 1 else []
            pages = [(p, n) for p in gone for n in range(_count(references, p, page))]
            write = bool(references.write[place])
            yield int(references.task[place]), (piece, number), write, pages


def _count(references: References, piece: int, page: int) -> int:
    return int(references.bytes[piece]) // page
