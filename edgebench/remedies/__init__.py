"""Remedies: what makes a workload faster under a memory limit, or makes it fit.

A new remedy is an entry in the ``REMEDIES`` of a module of this package, or an entry point of
another one.
"""

from __future__ import annotations

import importlib
import pkgutil

from edgebench import plugins
from edgebench.remedies import base
from edgebench.remedies.base import Remedy

__all__ = ["Remedy", "all_remedies"]


def all_remedies() -> list[Remedy]:
    """Every remedy; those that are easiest to set come first.

    Raises:
        MachineError: one of another package can't be imported.
    """
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    found = [remedy for module in modules if module is not base for remedy in module.REMEDIES]
    found += [plugins.load(entry) for entry in plugins.added(plugins.REMEDIES).values()]
    return sorted(found, key=lambda remedy: (remedy.effort, remedy.name))
