"""The sentence that stands above each table of a study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from edgebench.text import joined_words
from edgebench.units import MIB

if TYPE_CHECKING:
    from edgebench.analysis.studies.effects import SettingEffect


def operators_sentence(workload: str, shares: Mapping[str, float]) -> str:
    """Which families of operators take most of a step's time."""
    parts = joined_words(f"{family} takes {share:.0%}" for family, share in shares.items())
    return f"{workload}: of a step's time {parts}."


def partial_training_sentence(
    title: str,
    trained: str,
    *,
    step_share: float,
    memory_share: float,
    accuracies: tuple[float, float],
) -> str:
    """What training only a part costs, as shares of training all.

    Args:
        title: what was trained.
        trained: the part.
        step_share: of the time of a step.
        memory_share: of the memory above the base.
        accuracies: in the test, of the part and of all; NaN: not measured.
    """
    words = (
        f"{title}: if only “{trained}” is trained, a step takes {step_share:.0%} of the time "
        f"and {memory_share:.0%} of the memory above the base"
    )
    part, every = accuracies
    if part != part or every != every:
        return f"{words}."
    return f"{words}; test accuracy is {part:.1%} instead of {every:.1%}."


def learning_rate_words(effect: SettingEffect) -> str:
    """What one measure of memory says of the learning rate."""
    reach = (
        f"{effect.across / MIB:+.1f} MiB from the lowest rate to the highest "
        f"({effect.across_low / MIB:+.1f} … {effect.across_high / MIB:+.1f})"
    )
    if effect.high < 0:
        return f"small rates use more memory by this measure: {reach}"
    if effect.low > 0:
        return f"small rates use less memory by this measure: {reach}"
    return f"no effect of the rate can be shown: {reach}"


def effects_sentence(proved: Sequence[str], others: Sequence[str]) -> str:
    """Which settings have an effect on memory that is not chance."""
    if not proved:
        return "No setting is proved to change memory."
    words = f"Memory depends on {joined_words(proved)}"
    return f"{words}; no effect of {joined_words(others)} is proved." if others else f"{words}."


def cores_sentence(busy: Mapping[str, float], cores: int) -> str:
    """How many cores each phase keeps busy."""
    parts = joined_words(f"{count:.2g} in {phase}" for phase, count in busy.items())
    return f"Cores busy, of {cores}: {parts} (median of the trials)."


def bends_sentence(bent: int, cases: int) -> str:
    """In how many cases the time of a convolution bends."""
    line = "one straight line fits the others"
    return (
        f"In {bent} of {cases} cases the slope of the time per image changes at some size; {line}."
    )
