"""All engines by name; finding them imports no heavy library.

The folders beside this module are engines; an engine in a package of its own is found by its entry
point.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import PurePath
from typing import TYPE_CHECKING

from edgebench import plugins
from edgebench.workloads import engines
from edgebench.workloads.engines.engine import ENGINES, Engine

if TYPE_CHECKING:
    from edgebench.workloads.engines.files import FileEngine

#: The engine of networks that are known by name, and of settings that name none.
TORCH = "torch"


@cache
def all_engines() -> dict[str, Engine]:
    """Every engine by name, whether or not its libraries are installed; torch's first.

    Raises:
        MachineError: an engine of another package can't be imported.
    """
    # Lazy: the worker needs one engine's module, and no more in its base.
    from pkgutil import iter_modules

    names = {module.name for module in iter_modules(engines.__path__) if module.ispkg}
    names |= plugins.added(plugins.ENGINES).keys()
    found = {name: engine_of(name) for name in names}
    return dict(sorted(found.items(), key=lambda one: (one[0] != TORCH, one[0])))


def engine_of(name: str | None) -> Engine:
    """The engine of that name, its module alone imported; None: torch.

    Raises:
        MachineError: an engine of another package can't be imported.
    """
    name = name or TORCH
    if name in ENGINES:
        return ENGINES[name]
    own = f"{engines.__name__}.{name}"
    try:
        import_module(f"{own}.runtime")
    except ModuleNotFoundError as error:
        if error.name != own:
            raise
        ENGINES[name] = plugins.load(plugins.added(plugins.ENGINES)[name])()
    return ENGINES[name]


def engines_for(network: str) -> tuple[str, ...]:
    """The names of the engines that execute a network: those of a file's format, else torch's."""
    suffix = PurePath(network).suffix.lower()
    return tuple(n for n, one in all_engines().items() if suffix in one.formats) or (TORCH,)


def file_engine(network: str) -> FileEngine | None:
    """The engine that prepares a network's file; None where it is none of a format of its own."""
    # Lazy: torch's workers need no engine of files in their base.
    from edgebench.workloads.engines.files import FileEngine

    found = all_engines()[engines_for(network)[0]]
    return found if isinstance(found, FileEngine) else None
