"""Sentences on kills: how often a limit kills, and how trials were watched."""

from __future__ import annotations

from edgebench.results.kill_rate import HOUR_S, KillRate, how_watched
from edgebench.results.sweep_reader import Sweep
from edgebench.units import format_duration

#: What a reader of such a sweep should know.
MAY_HAVE_SAVED = (
    "memory.stat was read while trials under a limit ran, which can prevent kills: "
    "without it some limits may be too tight"
)
#: An interval from below to above these says nothing.
_UNLIKELY, _LIKELY = 0.05, 0.95


def rate_words(rate: KillRate) -> str:
    """``killed in 1 of 4 trials of 2 rounds: probability 25 % (90 % interval 1 % to 75 %)``."""
    low, high = rate.interval
    return (
        f"killed in {rate.killed} of {_counted(rate.trials, 'trial')} of "
        f"{_counted(rate.rounds, 'round')}: probability {_percent(rate.killed / rate.trials)} "
        f"(90 % interval {_percent(low)} to {_percent(high)})"
    )


def hour_words(rate: KillRate) -> str:
    """What follows for an hour, with what it assumes; empty where that is nothing."""
    found = rate.holds()
    if found is None or not rate.round_s:
        return ""
    hour = f"for an hour ({HOUR_S / rate.round_s:,.0f} rounds of {format_duration(rate.round_s)})"
    tried = _counted(rate.rounds * rate.trials, "round")
    if found[0] < _UNLIKELY and found[1] > _LIKELY:
        return ""
    low, high = map(_percent, found)
    between = low if low == high else f"{low} to {high}"
    return (
        f"{hour} it holds with a probability of {between}, "
        f"if rounds are alike and independent; {tried} tried"
    )


def kill_words(rate: KillRate) -> str:
    """How often a limit kills, and what follows for an hour."""
    return "; ".join(filter(None, (rate_words(rate), hour_words(rate))))


def watching_warnings(sweep: Sweep) -> list[str]:
    """The warning about kills that reading memory.stat may have prevented, if it was read."""
    return [] if how_watched(sweep) in (None, "without memory.stat") else [MAY_HAVE_SAVED]


def _percent(share: float) -> str:
    """``25 %``; more than 0 is never shown as 0 %, less than 1 never as 100 %."""
    if 0 < share < 0.005:
        return "less than 1 %"
    if 0.995 <= share < 1:
        return "more than 99 %"
    return f"{share:.0%}".replace("%", " %")


def _counted(number: int, of: str) -> str:
    return f"{number} {of}{'' if number == 1 else 's'}"
