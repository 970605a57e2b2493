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
    """Every strategy by name, in the order of the names.

    Raises:
        MachineError: one of another package can't be imported.
    """
    for module in iter_modules(__path__, f"{__name__}."):
        import_module(module.name)
    others = [plugins.load(entry) for entry in plugins.added(plugins.STRATEGIES).values()]
    every = {one.name: one for one in (*STRATEGIES, *others)}
    return {name: every[name]() for name in sorted(every)}


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


def read_own_trial(request: Mapping[str, Any]) -> dict[str, Any]:
    """The reading as plain data.

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
