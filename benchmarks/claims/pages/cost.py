"""docs/explanation/cost.md."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from pairing import interval

from claims.kept import figures
from claims.texts import Claim, says

PAGE = "docs/explanation/cost.md"


def claims() -> Iterator[Claim]:
    """In the page's order."""
    yield from _costs()


def _costs() -> Iterator[Claim]:
    ratios = figures("overhead")["ratios"]
    yield says(
        "÷ under GNU time alone | {}, median of {} pairs (95 % interval {} to {})",
        *(f"{median(ratios):.3f}", len(ratios), *(f"{end:.3f}" for end in interval(ratios))),
    )
    alone = figures("overhead_one_core")["ratios"]
    yield says(
        "sampler and workload together | {}, median of {} pairs (95 % interval {} to {})",
        *(f"{median(alone):.3f}", len(alone), *(f"{end:.3f}" for end in interval(alone))),
    )
    yield from _kills()
    loop, ours, psrecord, mprof = figures("sampler_cost")
    yield says(
        "empty cgroup: share of one core | {} % (psrecord {} %, mprof {} %)",
        *(f"{one[1] * 100:.1f}" for one in (ours, psrecord, mprof)),
    )
    yield says(
        "sampler: memory | {} MiB (psrecord {}, mprof {})",
        *(f"{one[2]:.1f}" for one in (ours, psrecord, mprof)),
    )
    yield says("a thousand times a second takes {} % of a core", f"{loop[1] * 100:.1f}")


def _kills() -> Iterator[Claim]:
    from observer.effect_table import rate_ratio

    from claims.pages.observer_effect import WATCHED, killed_in_all

    nothing, ours, read = (
        killed_in_all(WATCHED[0], arm) for arm in ("nothing", "default", "stat-10ms")
    )
    low, _, high = rate_ratio(ours, nothing).split()
    yield says(
        "{} (95 % interval {} to {}) at three limits together, {} processes each way; with"
        " `memory.stat` read every 10 ms {}",
        *(f"{ours[0] / ours[1] / (nothing[0] / nothing[1]):.2f}", low, high, ours[1]),
        f"{read[0] / read[1] / (nothing[0] / nothing[1]):.2f}",
    )
