"""What a worker of a point's settings imports, and which strategies can read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from edgebench.layers.references import TIMM, TRANSFORMERS
from edgebench.measures.strategies import strategy_of
from edgebench.workloads.engines.engine import TORCH, engine_of
from edgebench.workloads.training.names import LIBRARIES, LIBRARIES_OF_DATA, TENSORFLOW

#: Workload's kind → what its worker imports; the extra with torch brings numpy as well.
_LIBRARIES = {
    "convolution": ("torch",),
    "hot-base": ("torch",),
}


def libraries(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the modules that a worker of a point's settings imports; none for a command."""
    if settings["kind"] == "inference":
        return engine_of(settings.get("engine")).libraries
    if settings["kind"] != "training":
        return _LIBRARIES.get(settings["kind"], ())
    kinds = {one["kind"] for one in settings.get("references", {}).values()}
    own = sorted(kinds & {TIMM, TRANSFORMERS})
    of_data = LIBRARIES_OF_DATA.get(settings["data"], ())
    return (LIBRARIES[settings["framework"]], *own, *of_data)


def runtime_of(settings: Mapping[str, Any]) -> str:
    """Return the engine whose library a worker of these settings imports."""
    framework = settings.get("framework")
    return TENSORFLOW if framework == TENSORFLOW else str(settings.get("engine", TORCH))


def check_libraries(strategies: Sequence[str], workloads: Sequence[Mapping[str, Any]]) -> None:
    """Check that each strategy has a workload, given by its settings, to read.

    Raises:
        ValueError: none imports the library that a strategy reads.
    """
    for name in strategies:
        found = strategy_of(name)
        if found and not any(has_library(name, settings) for settings in workloads):
            raise ValueError(
                f"strategy {name!r} reads what {found.library} keeps, and nothing here runs in "
                f"{found.library}; leave it out of [memory] strategies"
            )


def has_library(strategy: str, settings: Mapping[str, Any]) -> bool:
    """Whether a worker of these settings imports the library that the strategy reads, if any.

    A worker of which no library is known may import it.
    """
    found, imported = strategy_of(strategy), libraries(settings)
    return not (found and found.library and imported) or found.library in imported
