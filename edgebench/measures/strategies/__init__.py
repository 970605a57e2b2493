"""The strategies: one module each, with what it does outside the worker and inside it.

A strategy is listed whether or not its tool is installed: what is missing on this machine is
reported when a scenario asks for it.
"""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from edgebench import plugins
from edgebench.measures.strategy import STRATEGIES, Strategy, StrategyOptions, TrialData


@cache
def all_strategies() -> dict[str, Strategy]:
    """List every strategy by name, in the order of the names.

    Raises:
        MachineError: one of another package can't be imported.
    """
    for module in iter_modules(__path__, f"{__name__}."):
        import_module(module.name)
    others = [plugins.load(entry) for entry in plugins.added(plugins.STRATEGIES).values()]
    every = {strategy.name: strategy for strategy in (*STRATEGIES, *others)}
    return {name: every[name]() for name in sorted(every)}


def in_every_trial() -> tuple[Strategy, ...]:
    """List strategies that read what any trial leaves behind, at no cost to it."""
    every = all_strategies().values()
    return tuple(s for s in every if not s.own_trial and s.beside is None)


def beside(strategy: str) -> tuple[Strategy, ...]:
    """List strategies that read the own trials of that one too."""
    return tuple(s for s in all_strategies().values() if s.beside == strategy)


@cache
def with_own_trial() -> dict[str, Strategy]:
    """List strategies that need a trial of their own, by name."""
    return {name: s for name, s in all_strategies().items() if s.own_trial}


def strategy_of(name: str) -> Strategy | None:
    """Find the strategy of that name; None if this version knows none."""
    return all_strategies().get(name)


def read_own_trial(request: Mapping[str, Any]) -> dict[str, Any]:
    """Read a strategy's own trial; return the reading as plain data.

    Args:
        request: ``strategy`` (``module:class``), its ``options``, the trial's ``folder``,
            ``record``, ``events`` and ``cpus``.

    Raises:
        ResultsError: what the strategy left can't be read.
    """
    from edgebench.records import TrialRecord

    module, _, name = request["strategy"].partition(":")
    options = StrategyOptions(**request["options"])
    trial = TrialData(
        events=request["events"],
        record=TrialRecord.from_json(request["record"]),
        folder=Path(request["folder"]),
        cpus=request["cpus"],
        page_bytes=mmap.PAGESIZE,
    )
    strategy = getattr(import_module(module), name)().configured(options)
    reading: dict[str, Any] = strategy.read(trial).to_json()
    return reading
