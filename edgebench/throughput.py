"""What a workload gets done in a second: whether it is told, in which unit, and in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: The slowdown in throughput, beside those of times: unlimited rate ÷ rate.
THROUGHPUT = "throughput"
#: What a program's settings have if its throughput is read from its output.
_KEYS = ("throughput", "throughput_pattern")
#: What is counted of text generation.
TOKENS = "tokens"
_LINES = "lines"


def reads_throughput(settings: Mapping[str, Any]) -> bool:
    """Whether the throughput is read from what a program prints."""
    return any(settings.get(key) for key in _KEYS)


def generates_text(settings: Mapping[str, Any]) -> bool:
    """Whether a language model generates text, so that it has tokens per second."""
    return bool(settings.get("new_tokens"))


def throughput_unit(settings: Mapping[str, Any]) -> str:
    """Return what is counted: ``tokens`` or ``lines``; empty where a pattern finds the rate."""
    if generates_text(settings):
        return TOKENS
    return _LINES if settings.get("throughput") and not settings.get("throughput_pattern") else ""


def throughput_words(per_second: float, unit: str) -> str:
    """``41.2 tokens/s``; ``41.2/s`` without a unit."""
    number = f"{per_second:,.0f}" if per_second >= 1000 else f"{per_second:.3g}"
    return f"{number} {unit}/s" if unit else f"{number}/s"


def per_second_words(unit: str) -> str:
    """``tokens per second``; ``per second`` without a unit."""
    return f"{unit} per second".strip()
