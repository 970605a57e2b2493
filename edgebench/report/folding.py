"""Sentences that differ in their trial alone, told once with how many they are."""

from __future__ import annotations

import re
from collections.abc import Iterable

_TRIAL = re.compile(r"trial '([^']+)'")


def folded(sentences: Iterable[str]) -> list[str]:
    """Each sentence once; of those alike but for the trial, the first and how many more."""
    alike: dict[str, list[str]] = {}
    for sentence in sentences:
        alike.setdefault(_without_trial(sentence), []).append(sentence)
    return [
        first if not more else f"{first}, and {len(more)} more like it"
        for first, *more in alike.values()
    ]


def _without_trial(sentence: str) -> str:
    found = _TRIAL.search(sentence)
    # Its files are named after it.
    return sentence.replace(found[1], "…") if found else sentence
