"""docs/explanation/cost.md."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from pairing import interval

from claims.kept import MIB, figures
from claims.texts import Claim, says

PAGE = "docs/explanation/cost.md"


def claims() -> Iterator[Claim]:
    """In the page's order."""
    yield from _costs()
    yield from _first_minutes()
    yield from _dashboard()
    yield from _fleet_worker()


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
    known = figures("known_allocator")
    off = max(abs(float(one["kernel's"]) - float(one["truth"])) for one in known)
    truths = [int(one["truth"]) for one in known]
    yield says(
        "against its true size, {} to {} MiB, in a child of a child | never more than {} MiB off",
        *(min(truths), max(truths), f"{off:.2f}"),
    )
    cache = next(
        one["GNU time's"]
        for one in known
        if (one["kind"], int(one["truth"]), one["harness"]) == ("file cache", 64, "small")
    )
    yield says("GNU time's peak of 64 MiB of file cache | {} MiB", cache)
    yield says(
        "harness's own time a trial (outside the workload's) | {} ms",
        f"{median(figures('harness_time')['harness_s']) * 1e3:.0f}",
    )
    yield from _sampler_in_trials()
    loop, ours, psrecord, mprof = figures("sampler_cost")
    yield says(
        "empty cgroup: share of one core | {} % (psrecord {} %, mprof {} %)",
        *(f"{one[1] * 100:.1f}" for one in (ours, psrecord, mprof)),
    )
    yield says(
        "sampler: memory | {} MiB (psrecord {}, mprof {})",
        *(f"{one[2]:.1f}" for one in (ours, psrecord, mprof)),
    )
    read = [one[2] * 100 for one in figures("sensor_cost") if one[1]]
    yield says(
        "sensors of {} boards, as files, read ten times a second: share of one core | {} to {} %",
        *(len(read), f"{min(read):.1f}", f"{max(read):.1f}"),
    )
    yield says("a thousand times a second takes {} % of a core", f"{loop[1] * 100:.1f}")


def _sampler_in_trials() -> Iterator[Claim]:
    trials = figures("sampler_trials").values()
    shares, steady = ([one[key] * 100 for one in trials] for key in ("own_share", "steady_share"))
    yield says(
        "share of one core | {} to {} % (one at a fixed 1 kHz beside it {} to {} %)",
        *(f"{end(of):.1f}" for of in (shares, steady) for end in (min, max)),
    )
    beyond, moves = ([one[key] * 100 for one in trials] for key in ("beyond", "moves_beyond"))
    yield says(
        "beyond 1 MiB or 1 % of the peak | {} to {} % of the time, at most {} MiB",
        *(f"{end(beyond):.1f}" for end in (min, max)),
        f"{max(one['largest_mib'] for one in trials):.0f}",
    )
    yield says(
        "changes by more than the table's threshold within {} to {} % of all milliseconds, at most by {} MiB",
        *(f"{end(moves):.1f}" for end in (min, max)),
        f"{max(one['largest_move_mib'] for one in trials):.0f}",
    )


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


def _first_minutes() -> Iterator[Claim]:
    page = figures("serve_paint")
    base, size = figures("base_install"), figures("base_install_size")
    loads = page["later"]
    yield says(
        "server's memory afterwards | {} s; {} s, medians of {} loads; {} MiB",
        f"{median(one['first-contentful-paint'] for one in loads):.2f}",
        f"{median(one['answer-shown'] for one in loads):.2f}",
        *(len(loads), f"{page['server_mib']:.1f}"),
    )
    yield says(
        "`edgebench --help` in it | {} MB; {} s; {} s",
        f"{sum(size['bytes'].values()) / 1e6:.1f}",
        *(f"{median(base['install_s']):.1f}", f"{median(base['help_s']):.2f}"),
    )


def _dashboard() -> Iterator[Claim]:
    pairs = figures("serve_cost")["pairs"]["measured"]
    read, browser = (
        pairs[how]["ratios"] for how in ("the stream is read", "Chromium on this machine")
    )
    yield says(
        "÷ unwatched | {}, median of {} pairs (95 % interval {} to {})",
        *(f"{median(read):.3f}", len(read), *(f"{end:.3f}" for end in interval(read))),
    )
    yield says(
        "measuring machine itself | {} ({} to {}): watch from another machine",
        *(f"{median(browser):.3f}", *(f"{end:.3f}" for end in interval(browser))),
    )
    showing = figures("serve_cost")["pairs"]["rows"][2][1].split()[0]
    yield says(
        "while it shows a trial | {} MiB; {} MiB",
        *(f"{figures('serve_cost')['reconnecting']['measured']['largest_mib']:.1f}", showing),
    )


def _fleet_worker() -> Iterator[Claim]:
    found = figures("worker_cost")
    both, alone = found["cores"]
    yield says(
        "at rest and during a trial | {} MiB; {} and {} %",
        f"{both['rss_bytes'] / MIB:.1f}",
        *(f"{one['share'] * 100:.2f}" for one in (found["rest"], both)),
    )
    for words, one in (("that worker is frozen", both), ("worker and trial share one core", alone)):
        ratios = one["ratios"]
        yield says(
            words + " | {}, median of {} pairs (95 % interval {} to {})",
            *(f"{median(ratios):.3f}", len(ratios), *(f"{end:.3f}" for end in interval(ratios))),
        )
