"""Sentences of ``advise``: what helps below a limit, by how much, and what it costs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from edgebench.results.spread import SLIGHT
from edgebench.units import brief_size, format_duration
from edgebench.words.outcomes import outcome_words
from edgebench.words.unmeasured import unmeasured_parts

if TYPE_CHECKING:
    from edgebench.results.advice_file import KeptAdvice
    from edgebench.run.advice_answer import Advice, BestRemedy

#: A factor below this is told in percent.
_TWICE = 1.995
_STOPPED = (
    "slower: stopped, as it took longer than the plain workload, or far longer than the fastest "
    "remedy so far."
)
_LONG = "what seems best is measured in five pairs of trials in any case"
_UNITS = {"training": " a step", "inference": " a round"}


def kept_advice_sentence(advice: KeptAdvice) -> str:
    """The answer of a search that was kept, with the workload's name."""
    return f"{advice.name} {advice.sentence}."


def advice_sentence(found: Advice) -> str:
    """The answer: ``at 250 MiB is 3.3 times faster with mmap-threshold: …``."""
    told = f"({found.trials} trials, {format_duration(found.total_s)})"
    opens = list(unmeasured_parts(found.unmeasured))
    return f"{'; '.join([_words(found), *opens])} {told}"


def _words(found: Advice) -> str:
    at = f"at {brief_size(found.limit_bytes)}"
    if not found.pressed:
        return f"{at} is not slowed ({_slowed(found)}): no remedy was tried, none is advised"
    lost = outcome_words(found.plain_end).now + (" at times" if found.plain_s else "")
    state = f"{at} {lost}" if found.plain_end != "ok" else f"{at} is slowed ({_slowed(found)})"
    if found.best is None:
        return f"{state}: {_none_of(len(found.tried))}"
    if not found.best.confirmed:
        return f"{state}: {found.best.name} may help, but {_doubt(found.best)}"
    if found.plain_end != "ok":
        often = f"{found.best.finished} of {found.best.trials} times"
        plain = f"plain {found.best.plain_finished}"
        return f"{state}; with {found.best.name} it finishes {often} ({plain}){_each(found)}"
    return (
        f"{at} is {_gain(found.best)} with {found.best.name}{_each(found)}"
        f"{_more_often(found.best)}{_elsewhere(found.best)}"
    )


def _slowed(found: Advice) -> str:
    factor = found.slowdown
    return "its slowdown is unknown" if factor is None else f"×{factor:.3g}"


def _each(found: Advice) -> str:
    """``: 223 ms a step instead of 735 ms``."""
    if found.best is None or found.best.seconds is None:
        return ""
    unit = _UNITS.get(found.kind, "")
    instead = f" instead of {format_duration(found.plain_s)}" if found.plain_s else ""
    return f": {format_duration(found.best.seconds)}{unit}{instead}"


def _none_of(count: int) -> str:
    if count < 2:
        return "the one remedy that was tried does not help" if count else "no remedy fits it"
    return f"none of the {count} remedies that were tried helps"


def _doubt(best: BestRemedy) -> str:
    """Why the winner is not advised: it failed, or its fresh pairs differ too much."""
    if best.finished < best.trials:
        return f"it finished only {best.finished} of {best.trials} times when it was measured anew"
    if best.ratio is None or best.low is None or best.high is None:
        return "this was not seen again when it was measured anew"
    between = f"×{best.ratio:.2f}, 95 % interval {best.low:.2f} to {best.high:.2f}"
    return f"{best.pairs} pairs of fresh trials can't tell ({between})"


def _gain(best: BestRemedy) -> str:
    """``3.3 times faster (3.1 to 3.5)``, or ``12 % faster (8 to 16)``."""
    ratio, low, high = best.ratio or 1.0, best.low, best.high
    if 1 / ratio < _TWICE:
        percents = [f"{100 * (1 - part):.0f}" for part in (ratio, high, low) if part is not None]
        between = f" ({percents[1]} to {percents[2]} %)" if len(percents) > 1 else ""
        return f"{percents[0]} % faster{between}"
    between = f" ({1 / high:.2g} to {1 / low:.2g})" if low and high else ""
    return f"{1 / ratio:.2g} times faster{between}"


def _more_often(best: BestRemedy) -> str:
    """Of a plain workload that was killed at times."""
    if best.plain_finished >= best.finished:
        return ""
    return f"; it finished {best.finished} of {best.trials} times, plain {best.plain_finished}"


def _elsewhere(best: BestRemedy) -> str:
    ratio = best.unlimited_ratio
    if ratio is None:
        return ""
    if ratio > SLIGHT:
        return f"; without a limit it takes {ratio:.2g} times as long"
    return "; without a limit it takes no more than 10 % longer"


def left_out_sentences(found: Advice, *, verbose: bool) -> Iterator[str]:
    """What was stopped, or not tried: for lack of time, or since it does not fit."""
    if any(one.end == "timeout" for one in found.tried):
        yield _STOPPED
    if found.out_of_time:
        each = f", as a trial takes {format_duration(found.trial_s)}" if found.trial_s else ""
        names = ", ".join(found.out_of_time)
        yield f"not tried for lack of time{each}: {names}. A longer --budget tries more."
    if found.best and found.budget_s is not None and found.total_s > found.budget_s:
        yield f"It took longer than its budget of {format_duration(found.budget_s)}: {_LONG}."
    if not found.pressed:
        return
    for one in found.untried if verbose else ():
        yield f"not tried: {one.name}: {one.reason}"
