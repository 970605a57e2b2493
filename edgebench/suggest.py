"""Guess what a mistyped word was meant to be."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(word: str, choices: Iterable[str]) -> str | None:
    """The nearest of the choices; None if none is near."""
    lowered = {choice.lower(): choice for choice in choices}
    near = difflib.get_close_matches(str(word).lower(), lowered, n=1, cutoff=0.6)
    return lowered[near[0]] if near else None
