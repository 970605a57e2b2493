"""Remedies: what makes a workload faster under a memory limit, or makes it fit.

A new one is one class in a module of this package, under ``@registered_remedy``.
"""

from __future__ import annotations

import importlib
import pkgutil

from edgebench.remedies.base import REMEDIES, Remedy

__all__ = ["Remedy", "all_remedies"]


def all_remedies() -> list[Remedy]:
    """Every remedy of every module here: what is easiest to set comes first."""
    for module in sorted(found.name for found in pkgutil.iter_modules(__path__)):
        importlib.import_module(f"{__name__}.{module}")
    return sorted((one() for one in REMEDIES), key=lambda one: (one.effort, one.name))
