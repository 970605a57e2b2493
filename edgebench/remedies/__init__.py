"""Remedies: what makes a workload faster under a memory limit, or makes it fit.

A new remedy is an entry in a table of this package, or an entry point of another one.
"""

from __future__ import annotations

from edgebench import plugins
from edgebench.remedies import networks, process
from edgebench.remedies.base import Remedy

__all__ = ["Remedy", "all_remedies"]


def all_remedies() -> list[Remedy]:
    """Return every remedy; those that are easiest to set come first.

    Raises:
        MachineError: one of another package can't be imported.
    """
    added = [plugins.load(entry) for entry in plugins.added(plugins.REMEDIES).values()]
    every = [*process.REMEDIES, *networks.REMEDIES, *added]
    return sorted(every, key=lambda remedy: (remedy.effort, remedy.name))
