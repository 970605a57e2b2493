"""All strategies by name: those that always look on, and those with trials of their own.

The heap's profilers are added where they are installed or not: what a machine lacks is said when
a scenario asks for it.
"""

from __future__ import annotations

from functools import cache

from edgebench.measures.analytic import Analytic
from edgebench.measures.categories import TorchCategories
from edgebench.measures.cores import Cores
from edgebench.measures.gnu_time import GnuTimeStrategy
from edgebench.measures.kernel import KernelMark
from edgebench.measures.operators import Operators
from edgebench.measures.process import Malloc, Process, Proportional, ResidentAndSwapped
from edgebench.measures.sampled import Sampled
from edgebench.measures.strategy import Strategy
from edgebench.measures.torch_view import TorchAllocations


def always() -> tuple[Strategy, ...]:
    """Strategies that read what any trial leaves behind, at no cost to it."""
    return (KernelMark(), Sampled(), GnuTimeStrategy(), Analytic())


def beside_process() -> tuple[Strategy, ...]:
    """Strategies that read the process's own trial as well."""
    return (ResidentAndSwapped(), Proportional(), Malloc())


@cache
def own() -> dict[str, Strategy]:
    """Strategies that need a trial of their own, by name."""
    from edgebench.measures import heap

    inside = (Process(), TorchAllocations(), TorchCategories(), Operators(), Cores())
    strategies = (*inside, *getattr(heap, "STRATEGIES", ()))
    return {strategy.name: strategy for strategy in strategies}


def own_names() -> tuple[str, ...]:
    """What a scenario's ``strategies`` may name."""
    return tuple(own())


def strategy_of(name: str) -> Strategy | None:
    """The strategy of that name; None if this version knows none."""
    free = (*always(), *beside_process())
    return ({strategy.name: strategy for strategy in free} | own()).get(name)
