"""Where a workload is slower than without a limit, as far as its repeats prove it."""

from __future__ import annotations

from edgebench.report.workload import WorkloadPoints
from edgebench.results.spread import SLIGHT, Ratio, ratio_of
from edgebench.results.stages import STEADY
from edgebench.results.summary import PointSummary
from edgebench.throughput import THROUGHPUT
from edgebench.units import times_as_long

#: How a claim says that no repeats stand behind it.
IN_ONE_TRIAL = " in one trial"
#: The same where there are repeats below the limit, but none without one.
_UNLIMITED_ONCE = ", compared with one unlimited trial"


def is_surely_more(ratio: Ratio | None) -> bool:
    """Whether a ratio of times is above 1: proved by the repeats, where there are any."""
    # One repeat has no interval: its ratio is all there is.
    return ratio is not None and (ratio.is_more if ratio.low is not None else ratio.median > SLIGHT)


def one_trial_words(point: PointSummary, name: str | None = None) -> str:
    """`` in one trial``: how little a slowdown rests on; empty where repeats prove it.

    Args:
        point: whose slowdown.
        name: of one of its times; None: the slowdown that counts.
    """
    ratio = point.ratios.get(name) if name else point.ratio
    if ratio is None or ratio.low is not None:
        return ""
    counted = name is None and THROUGHPUT in point.ratios
    own = point.throughput_per_s if counted else point.times_s[name or "total"]
    return IN_ONE_TRIAL if own and own.count < 2 else _UNLIMITED_ONCE


def is_slower(point: PointSummary) -> bool:
    """Whether it is slower than unlimited: proved by the repeats, where there are any."""
    return is_surely_more(point.ratio)


def factor_words(ratio: Ratio, surely: str = "") -> str:
    """``4 times as long``, with what the repeats leave of it; ``surely``: what follows if it is."""
    factor = times_as_long(ratio.median)
    if ratio.is_more:
        return factor + surely
    if ratio.is_less:
        return f"{factor}, so it is faster there"
    if ratio.is_within(SLIGHT):
        return f"{factor}, at most 10 % slower"
    return f"{factor}, but can't tell whether that is slower: {ratio.why_unsure}"


def tightest_fast_limit(workload: WorkloadPoints) -> PointSummary | None:
    """The tightest limit at which, and above which, the slowdown is surely below :data:`SLIGHT`.

    Every trial finished there and at all wider limits. None: not even at the widest limit.
    """
    found = None
    for point in workload.viable:
        ratio = point.ratio
        if ratio is None or not ratio.is_within(SLIGHT):
            break
        found = point
    return found


def before_end(workload: WorkloadPoints, point: PointSummary) -> str:
    """`` while executing fc, after rounds that took 2 times as long``: how a limit ended trials.

    Empty where nothing of that is known, or it differs from trial to trial.
    """
    doing = f" while {point.ended_in}" if point.ended_in else ""
    rounds = slow_rounds_before_end(workload, point)
    return doing + (f", {rounds}" if rounds else "")


def slow_rounds_before_end(workload: WorkloadPoints, point: PointSummary) -> str:
    """How slow rounds were at a limit that ended its trials: ``after rounds that took …``.

    Empty where they were not slower than steady rounds without a limit, or it is not known.
    """
    rounds, unlimited = point.rounds_before_end_s, workload.unlimited
    if rounds is None or unlimited is None or STEADY not in unlimited.times_s:
        return ""
    ratio = ratio_of(rounds, unlimited.times_s[STEADY])
    which = "rounds" if rounds.count > 1 else "a round"
    words = f"after {which} that took {times_as_long(ratio.median)}"
    if rounds.count > 1 and ratio.low is None:
        words += _UNLIMITED_ONCE
    return words if is_surely_more(ratio) else ""
