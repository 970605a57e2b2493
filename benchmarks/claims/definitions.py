"""Thresholds that pages tell, held to the constants of the code."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from claims.texts import Claim, says


def _whole(number: float) -> str:
    return f"{number:.0f}"


def _compare() -> Iterator[Claim]:
    from edgebench.analysis.comparison import ALPHA

    yield says("on the logarithms must also have p ≤ {}, with", f"{ALPHA:g}")


def _minimum() -> Iterator[Claim]:
    from edgebench.answers.limits import _LESS
    from edgebench.results.times import SLIGHT
    from edgebench.run.search.search import (
        _CONFIRM_S,
        _DOWN,
        _STOP,
        PRECISION,
    )

    yield says("finish without swap at less than {} of the need", f"{_LESS:g}")
    yield says("until they are at most {} % apart", _whole(100 * (PRECISION - 1)))
    yield says("with swap, steps of {} % down", _whole(100 * (1 - _DOWN)))
    yield says("once the search has taken {} s", f"{_CONFIRM_S:g}")
    yield says("is stopped at about {} times the unlimited time", f"{1 + _STOP * SLIGHT:.0f}")


def _answers() -> Iterator[Claim]:
    from edgebench.answers.table import _AGREE
    from edgebench.results.times import SLIGHT

    yield says("none took more than {} times as long", f"{SLIGHT:g}")
    yield says("from their median by more than {} %", _whole(100 * _AGREE))


def _ledgers() -> Iterator[Claim]:
    from edgebench.measures.ledger import SMALL_BYTES, SMALL_SHARE

    small = _whole(100 * SMALL_SHARE), SMALL_BYTES >> 20
    yield says("at most {} % of the larger figure, or {} MiB", *small)


def _board() -> Iterator[Claim]:
    from edgebench.boards import ASSUMED_IDLE_BYTES

    yield says("only `idle_memory` is then assumed, as {} MiB", ASSUMED_IDLE_BYTES >> 20)


def _glossary() -> Iterator[Claim]:
    from edgebench.results.times import TOLERANCE

    yield says("up to the last one, within {} % of their", _whole(100 * TOLERANCE))


CLAIMS: dict[str, Callable[[], Iterator[Claim]]] = {
    "docs/boards.md": _board,
    "docs/glossary.md": _glossary,
    "docs/reading-an-answer.md": _answers,
    "docs/verbs/compare.md": _compare,
    "docs/verbs/minimum.md": _minimum,
    "docs/explanation/why-numbers-differ.md": _ledgers,
}
