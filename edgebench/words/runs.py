"""What a run is going to do, and how its trials ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from edgebench.units import format_duration

if TYPE_CHECKING:
    from edgebench.run.sweep import SweepSummary
    from edgebench.scenario.preview import Preview
    from edgebench.scenario.scenario import Scenario
    from edgebench.scenario.search import Search


def preview_sentence(seen: Preview) -> str:
    """That it is valid, how much it would run and how long that takes at most."""
    trials = seen.trials + seen.own_trials
    limits = len({point.limits.label for point in seen.points})
    return (
        f"{seen.name} is valid: {_count(trials, 'trial')} at {_count(limits, 'limit')}, "
        f"at most {format_duration(seen.longest_s)}."
    )


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def planned_words(seen: Preview, repeats: int) -> str:
    """``12: 3 of each point``."""
    if seen.walks:
        fresh = _count(seen.trials - seen.walks, "fresh one")
        return f"{seen.trials}: {fresh}, and {_count(seen.walks, 'walk')} through all limits"
    return f"{seen.trials}: {repeats} of each point"


def strategies_words(seen: Preview, strategies: Sequence[str]) -> str:
    """The trials that memory strategies need beside the timed ones, in words."""
    return f"{seen.own_trials} more trials: {', '.join(strategies)}, once for each point"


def longest_words(seen: Preview, scenario: Scenario) -> str:
    """How long it takes at most, and when."""
    longest = format_duration(seen.longest_s)
    return f"at most {longest}, if every trial ran to {_each(scenario)}"


def search_words(search: Search) -> str:
    """``20 draws of batch, learning_rate``."""
    return f"{search.draws} draws of {', '.join(search.axes)}"


def unexpected_words(unexpected: Mapping[str, int]) -> str:
    """That trials ended in ways that nobody plans."""
    words = ", ".join(f"{n} {outcome}" for outcome, n in unexpected.items())
    return f"the sweep is done, but some trials ended unexpectedly: {words}"


def _each(scenario: Scenario) -> str:
    """The time limit of a trial; trials of strategies may have another one."""
    timed, own = scenario.timeout_s, scenario.memory.timeout_s
    if own is None or not scenario.strategies:
        return f"its time limit of {format_duration(timed)}"
    return f"its time limit of {format_duration(timed)} (strategies: {format_duration(own)})"


def _outcomes(summary: SweepSummary) -> str:
    return ", ".join(f"{n} {outcome}" for outcome, n in sorted(summary.outcomes.items()))


def summary_lines(summary: SweepSummary, verbose: bool) -> list[str]:
    """How its trials ended, and how long they took; ``verbose``: and the harness."""
    took = format_duration(summary.wall_s)
    lines = [f"{_count(summary.trials, 'trial')} in {took}: {_outcomes(summary)}"]
    each, share = summary.harness_s_per_trial, summary.harness_share
    if verbose and each is not None and share is not None:
        lines.append(f"harness: {format_duration(each)} a trial, {share:.1%} of the trials' time")
    return lines
