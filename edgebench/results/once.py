"""What is worked out once for the same results, however many tables and figures ask for it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from edgebench.results.results import Results

_Found = TypeVar("_Found")


def once_for_results(find: Callable[[Results], _Found]) -> Callable[[Results], _Found]:
    """Decorate a function of results: a second call returns what the first one did.

    What it returns is not to be changed. It is forgotten with the results; an exception is not
    kept.
    """
    known: WeakKeyDictionary[Results, _Found] = WeakKeyDictionary()

    @wraps(find)
    def found(results: Results) -> _Found:
        if results not in known:
            known[results] = find(results)
        return known[results]

    return found
