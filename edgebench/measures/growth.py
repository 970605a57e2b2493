"""Whether a program's memory still grows when it is stopped: judged over its samples alone.

Programs start up, fill caches and collect garbage, so a rise alone says little. What counts is the
last part of the series, cut into windows of equal time: memory grows if its least values rise from
window to window, if it still rises at the end, and if it does not level off.
"""

from __future__ import annotations

import statistics
from bisect import bisect_left
from collections.abc import Sequence
from itertools import combinations, pairwise

from edgebench.records import GrowthReport
from edgebench.units import MIB

#: What comes before this share of the time is the start, which is not looked at.
_START_SHARE = 1 / 3
#: At most this share of it, at its end, is the program's exit.
_EXIT_SHARE = 0.05
#: The rest is cut into this many windows.
_WINDOWS = 8
#: A series that is shorter, or has fewer samples, tells nothing.
_LEAST_S, _LEAST_SAMPLES = 1.0, 12
#: A rise counts from this many bytes on, and from this share of the memory.
_LEAST_BYTES, _LEAST_SHARE = MIB, 0.005
#: This share of all pairs of windows must rise, less those that fall (Kendall's tau).
_RISING_PAIRS = 0.5
#: A rise is cut into this many steps. It has ended where the next one does not come for this share
#: of the time, and for this many times the longest rest between two steps.
_STEPS, _QUIET_SHARE, _QUIET_RESTS = 20, 0.1, 2.0
#: A rise that keeps this share of its pace from one half to the next does not level off; one that
#: does counts where what is still to come is this share of the memory.
_LEVELS_BELOW, _TO_COME_SHARE = 0.6, 0.05


def judge_growth(seconds: Sequence[float], sizes: Sequence[int]) -> GrowthReport | None:
    """Judge whether memory grew at the end of a series; None: it is too short to tell.

    Args:
        seconds: when each sample was taken, rising.
        sizes: the bytes in use at each; they hold until the next one.
    """
    if sizes:
        # Without the last moments, in which a program that ends gives its memory back.
        half, last = max(sizes) / 2, len(sizes)
        from_s = seconds[-1] - _EXIT_SHARE * (seconds[-1] - seconds[0])
        while last > 1 and sizes[last - 1] < half and seconds[last - 1] >= from_s:
            last -= 1
        seconds, sizes = seconds[:last], sizes[:last]
    if len(seconds) < _LEAST_SAMPLES or seconds[-1] - seconds[0] < _LEAST_S:
        return None
    length_s = seconds[-1] - seconds[0]
    first = bisect_left(seconds, seconds[0] + _START_SHARE * length_s)
    times, tail = seconds[first:], sizes[first:]
    each_s = (times[-1] - times[0]) / _WINDOWS
    cuts = [bisect_left(times, times[0] + n * each_s) for n in range(1, _WINDOWS)]
    # Each window has the size that it begins with, too.
    ends = pairwise([0, *cuts, len(tail)])
    windows = [tail[max(0, low - 1) : max(high, 1)] for low, high in ends]
    floors, tops = list(map(min, windows)), list(map(max, windows))
    end = tops[-1]
    enough = max(_LEAST_BYTES, _LEAST_SHARE * end)
    slope = min(_slope(floors), _slope(tops))
    grows = (
        slope * (_WINDOWS - 1) >= enough
        and min(_tau(floors), _tau(tops)) >= _RISING_PAIRS
        and not _has_ended(times, tail)
        and not _levels_off(floors, end)
    )
    if grows:
        return GrowthReport(True, slope * _WINDOWS / (times[-1] - times[0]), end, None, length_s)
    reached = next(n for n, size in enumerate(sizes) if size >= max(sizes) - enough)
    return GrowthReport(False, 0.0, end, seconds[reached] - seconds[0], length_s)


def _slope(values: Sequence[int]) -> float:
    """Find the median rise from one window to the next, over all pairs (Theil and Sen)."""
    pairs = combinations(enumerate(values), 2)
    return statistics.median((high - low) / (n - m) for (m, low), (n, high) in pairs)


def _tau(values: Sequence[int]) -> float:
    """Return the share of pairs that rise, less those that fall (Kendall)."""
    signs = [(high > low) - (high < low) for low, high in combinations(values, 2)]
    return sum(signs) / len(signs)


def _has_ended(times: Sequence[float], sizes: Sequence[int]) -> bool:
    step = (max(sizes) - sizes[0]) / _STEPS
    rises, level = [times[0]], float(sizes[0])
    for at_s, size in zip(times, sizes, strict=True):
        if size >= level + step:
            rises.append(at_s)
            level = size
    rests = [late - early for early, late in pairwise(rises)]
    longest = max(_QUIET_SHARE * (times[-1] - times[0]), _QUIET_RESTS * max(rests, default=0.0))
    return times[-1] - rises[-1] > longest


def _levels_off(floors: Sequence[int], end_bytes: int) -> bool:
    middle = len(floors) // 2
    before, after = floors[middle] - floors[0], floors[-1] - floors[middle]
    if before <= 0 or after >= _LEVELS_BELOW * before:
        return False
    ratio = max(0.0, after / before)
    return after * ratio / (1 - ratio) < _TO_COME_SHARE * end_bytes
