"""How surely something is claimed: words that every sentence on a slowdown shares.

A difference is claimed only where the repeats prove it (:mod:`edgebench.results.spread`).
"""

from __future__ import annotations

from edgebench.results.facts import WorkloadFacts
from edgebench.results.point_facts import PointFacts
from edgebench.results.spread import SLIGHT, Ratio
from edgebench.throughput import THROUGHPUT
from edgebench.units import times_as_long
from edgebench.words.outcomes import doing_words

#: How a claim says that no repeats stand behind it.
IN_ONE_TRIAL = " in one trial"
_MORE_REPEATS = "repeat more often"
#: The same where there are repeats below the limit, but none without one.
_UNLIMITED_ONCE = ", compared with one unlimited trial"


def one_trial_words(point: PointFacts, name: str | None = None) -> str:
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


def factor_words(ratio: Ratio, surely: str = "") -> str:
    """``4 times as long``, with what the repeats leave of it; ``surely``: what follows if it is."""
    factor = times_as_long(ratio.median)
    if ratio.is_more:
        return factor + surely
    if ratio.is_less:
        return f"{factor}, so it is faster there"
    if ratio.is_within(SLIGHT):
        return f"{factor}, at most 10 % slower"
    if ratio.is_surely_more:
        return f"{factor}; {why_unsure(ratio)}"
    return f"{factor}: {why_unsure(ratio)}"


def why_unsure(ratio: Ratio) -> str:
    """What the repeats leave possible, and what to do: the end of such a sentence."""
    if ratio.low is None or ratio.high is None:
        return f"one trial doesn't tell how far repeats differ; {_MORE_REPEATS}"
    between = f"{ratio.low:.2f} to {ratio.high:.2f} times"
    if ratio.low <= 1 <= ratio.high:
        return f"no clear change ({between}); {_MORE_REPEATS}"
    return f"{between} by its repeats; {_MORE_REPEATS}"


def before_end(workload: WorkloadFacts, point: PointFacts) -> tuple[str, str]:
    """What a limit ended, and how slow it was: `` while executing fc``, ``after rounds that …``.

    Each is empty where it is not known, or differs from trial to trial.
    """
    words = doing_words(point.ended_in)
    doing = f" while {words}" if words else ""
    rounds, ratio = point.rounds_before_end_s, workload.rounds_before_end(point)
    if rounds is None or ratio is None or not ratio.is_surely_more:
        return doing, ""
    which = "rounds" if rounds.count > 1 else "a round"
    once = _UNLIMITED_ONCE if rounds.count > 1 and ratio.low is None else ""
    return doing, f"after {which} that took {times_as_long(ratio.median)}{once}"
