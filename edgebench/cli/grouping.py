"""Many notes and warnings made few: one line for each kind, with the workloads and limits."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?")
_QUOTED = re.compile(r"(?<!\w)(?:'[^'\n]+'|\"[^\"\n]+\")(?!\w)")
#: Stands for what was quoted; no text that is printed holds it.
_MARK = "\0"
_TRIAL = re.compile(r"^trial \S+: ")
#: More names than these are counted, not listed.
_MOST_NAMES, _MOST_LIMITS = 3, 3


def grouped(found: Iterable[tuple[str, str, str]]) -> list[str]:
    """Sentences that differ in their numbers alone become one, with the points it is about.

    Args:
        found: workload, limit and sentence of each.
    """
    groups: dict[str, list[tuple[str, str, str]]] = {}
    for workload, limit, words in found:
        sentence = _TRIAL.sub("", words)
        groups.setdefault(_NUMBER.sub("#", sentence), []).append((workload, limit, sentence))
    return [
        f"{_points(group)}: {_ranges([words for *_, words in group])}" for group in groups.values()
    ]


def merged(warnings: Iterable[str]) -> list[str]:
    """Warnings that differ in what they quote alone become one that quotes them all."""
    groups: dict[str, list[list[str]]] = {}
    for warning in warnings:
        groups.setdefault(_QUOTED.sub(_MARK, warning), []).append(_QUOTED.findall(warning))
    return [_all_quoted(pattern, quotes) for pattern, quotes in groups.items()]


def _points(group: Sequence[tuple[str, str, str]]) -> str:
    limits: dict[str, dict[str, None]] = {}
    for workload, limit, _ in group:
        limits.setdefault(workload, {})[limit] = None
    words = [f"{name} at {_listed(list(of), _MOST_LIMITS)}" for name, of in limits.items()]
    return _listed(words, _MOST_NAMES, "; ", " workloads")


def _listed(words: Sequence[str], most: int, separator: str = ", ", what: str = "") -> str:
    """All words, or the first of them and how many more there are."""
    left = len(words) - most
    # "1 more" is no shorter than the word itself.
    if left < 2:
        return separator.join(words)
    return separator.join([*words[:most], f"{left} more{what}"])


def _ranges(sentences: Sequence[str]) -> str:
    """The first sentence, with `low to high` in place of each number that differs."""
    values = zip(*(_NUMBER.findall(words) for words in sentences), strict=True)
    ends = iter([(min(own, key=float), max(own, key=float)) for own in values])

    def written(_: re.Match[str]) -> str:
        low, high = next(ends)
        return low if low == high else f"{low} to {high}"

    return _NUMBER.sub(written, sentences[0])


def _all_quoted(pattern: str, quotes: Sequence[Sequence[str]]) -> str:
    columns = iter([list(dict.fromkeys(own)) for own in zip(*quotes, strict=True)])
    return re.sub(_MARK, lambda _: _listed(next(columns), _MOST_NAMES), pattern)
