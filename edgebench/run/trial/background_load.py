"""``python background_load.py MOST_BYTES SEED``: takes memory and frees it, at random.

It holds between none and ``MOST_BYTES`` of anonymous memory, another amount every half second to
two seconds, until stdin closes. What it holds is touched, so that it is really used.
"""

from __future__ import annotations

import mmap
import random
import select
import sys

#: Seconds for which it keeps an amount.
_SHORTEST_S, _LONGEST_S = 0.5, 2.0


def hold(area: mmap.mmap, held: int, wanted: int) -> None:
    """Touch pages up to ``wanted`` bytes, or give those above it back; both are whole pages."""
    for page in range(held, wanted, mmap.PAGESIZE):
        area[page] = 1
    if wanted < held:
        area.madvise(mmap.MADV_DONTNEED, wanted, held - wanted)


def main(words: list[str]) -> None:
    """Take and free memory until stdin closes."""
    most, seed = int(words[0]), words[1]
    chance = random.Random(seed)
    area = mmap.mmap(-1, max(most, mmap.PAGESIZE), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    held = 0
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while True:
        wanted = int(chance.random() * most) // mmap.PAGESIZE * mmap.PAGESIZE
        hold(area, held, wanted)
        held = wanted
        if select.select([sys.stdin], [], [], chance.uniform(_SHORTEST_S, _LONGEST_S))[0]:
            return


if __name__ == "__main__":
    main(sys.argv[1:])
