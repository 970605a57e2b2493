"""A ledger: how one strategy's figure becomes the next one's, term by term.

Every term is a quantity that was measured by itself; what the terms do not come to is left over
as ``unexplained_bytes``, and is never put into a term.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from edgebench.measures.reading import ErrorBar

MIB = 1 << 20
#: A rest of so large a share of the larger figure, or so many bytes, is small.
SMALL_SHARE, SMALL_BYTES = 0.02, 2 * MIB


@dataclass(frozen=True)
class Figure:
    """One strategy's figure: bytes, of which trial, and where in it (``peak``, a layer's end)."""

    strategy: str
    size_bytes: int
    trial: str | None
    where: str
    error: ErrorBar


@dataclass(frozen=True)
class Term:
    """What has to be added (or, negative, taken away) to get nearer to the next figure.

    ``says`` tells in words what it is, ``measured`` by what it was told.
    """

    name: str
    size_bytes: int
    says: str
    measured: str


@dataclass(frozen=True)
class Ledger:
    """From one figure to the next: ``source + terms + unexplained = target``."""

    source: Figure
    target: Figure
    terms: tuple[Term, ...] = ()

    @property
    def unexplained_bytes(self) -> int:
        """What the terms leave over; negative where they come to more than the difference."""
        explained = sum(term.size_bytes for term in self.terms)
        return self.target.size_bytes - self.source.size_bytes - explained

    @property
    def small_bytes(self) -> int:
        """How large a rest is still small: a share of the larger figure, or a fixed size."""
        largest = max(self.source.size_bytes, self.target.size_bytes)
        return max(round(SMALL_SHARE * largest), SMALL_BYTES)

    @property
    def closes(self) -> bool:
        """Whether the rest is small."""
        return abs(self.unexplained_bytes) <= self.small_bytes

    def to_json(self) -> dict[str, Any]:
        """Plain data: ``from`` and ``to`` name strategies, and what is known of their figures."""
        return {
            **_end("from", self.source),
            **_end("to", self.target),
            "terms": [asdict(term) for term in self.terms],
            "unexplained_bytes": self.unexplained_bytes,
            "small_bytes": self.small_bytes,
            "closes": self.closes,
        }


def _end(name: str, figure: Figure) -> dict[str, Any]:
    return {
        name: figure.strategy,
        f"{name}_bytes": figure.size_bytes,
        f"{name}_where": figure.where,
        f"{name}_trial": figure.trial,
        f"{name}_error": asdict(figure.error),
    }


def without_zeros(terms: Sequence[Term]) -> tuple[Term, ...]:
    """The terms that change anything."""
    return tuple(term for term in terms if term.size_bytes)
