"""All strategies by name, found in :mod:`edgebench.measures.strategies`.

A strategy is listed whether or not its tool is installed: what is missing on this machine is
reported when a scenario asks for it.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from edgebench.measures import strategies
from edgebench.measures.strategy import STRATEGIES, Strategy


@cache
def all_strategies() -> dict[str, Strategy]:
    """Every strategy by name, in the order of the modules' names."""
    for module in iter_modules(strategies.__path__, f"{strategies.__name__}."):
        import_module(module.name)
    found = sorted(STRATEGIES, key=lambda strategy: strategy.__module__)
    return {strategy.name: strategy() for strategy in found}


def in_every_trial() -> tuple[Strategy, ...]:
    """Strategies that read what any trial leaves behind, at no cost to it."""
    every = all_strategies().values()
    return tuple(one for one in every if not one.own_trial and one.beside is None)


def beside(strategy: str) -> tuple[Strategy, ...]:
    """Strategies that read the own trials of that one too."""
    return tuple(one for one in all_strategies().values() if one.beside == strategy)


@cache
def with_own_trial() -> dict[str, Strategy]:
    """Strategies that need a trial of their own, by name."""
    return {name: one for name, one in all_strategies().items() if one.own_trial}


def strategy_of(name: str) -> Strategy | None:
    """The strategy of that name; None if this version knows none."""
    return all_strategies().get(name)
