"""What packages of others add: each names it in an entry point, whose group says what it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgebench.errors import MachineError, error_words

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

#: The groups: classes of engines and of strategies, and remedies.
ENGINES, STRATEGIES = "edgebench.engines", "edgebench.strategies"
REMEDIES = "edgebench.remedies"


def added(group: str) -> dict[str, EntryPoint]:
    """Name → entry point, not yet loaded."""
    # Lazy: a worker asks for none.
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in entry_points(group=group)}


def load(entry: EntryPoint) -> Any:
    """Return what an entry point names.

    Raises:
        MachineError: it can't be imported.
    """
    try:
        return entry.load()
    except Exception as error:
        package = entry.dist.name if entry.dist else entry.module
        raise MachineError(
            f"{entry.name} can't be imported: {error_words(error)}",
            where=f"{entry.value}, of {entry.group}",
            remedy=f"repair its package, or remove it: python3 -m pip uninstall {package}",
        ) from error
