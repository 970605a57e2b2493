"""The interface of engines, and the registry that each one joins.

Importing an engine's module imports no heavy library: these are imported in its methods.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from edgebench.layers.names import LOADERS

if TYPE_CHECKING:
    from edgebench.workloads.recorder import Recorder

#: The one schedule of an engine that can't load and execute by layer.
WHOLE = "whole"
#: Variables that move memory or time: the allocator's, the thread libraries', preloaded code.
_VARIABLES = (
    "MALLOC_",
    "GLIBC_TUNABLES",
    "LD_PRELOAD",
    "OMP_",
    "MKL_",
    "KMP_",
    "ATEN_",
    "TF_ENABLE",
    "XLA_",
)


class Rounds(Protocol):
    """A workload that is ready: each round loads and executes all of it."""

    def run(self, number: int) -> list[bytes]:
        """One round; the bytes of each network's output."""

    def close(self) -> None:
        """Called after the last round."""


class Engine(ABC):
    """One engine. Its folder is called ``name``, and its class stands there in ``runtime``."""

    name: ClassVar[str]
    #: The name in tables and texts.
    title: ClassVar[str]
    #: Endings of the files that it executes; networks known by name have none.
    formats: ClassVar[tuple[str, ...]] = ()
    #: The modules it can't do without, as they are imported.
    libraries: ClassVar[tuple[str, ...]]
    #: What it can do; the first is the default.
    schedules: ClassVar[tuple[str, ...]]
    #: How it can have weights in memory, the way of a plain program first, which is the default;
    #: one with a single way uses that for any loader.
    loaders: ClassVar[tuple[str, ...]] = LOADERS
    #: Keys of a scenario that set its options; each is an axis.
    axes: ClassVar[tuple[str, ...]] = ()
    #: Why it has no times of operators; None: it has.
    no_operator_times: ClassVar[str | None] = None
    #: The one of its options with which it times the layers of a file; None: it can't.
    layer_option: ClassVar[str | None] = None

    @abstractmethod
    def import_library(self, settings: Mapping[str, Any], recorder: Recorder) -> None:
        """Import all its code, so that it counts as base, and note versions and threads."""

    @abstractmethod
    def open(self, settings: Mapping[str, Any], recorder: Recorder) -> Rounds:
        """Build what the workload's rounds need; no weights are in memory yet.

        Raises:
            WorkloadError: a network can't be built.
        """


E = TypeVar("E", bound=Engine)
#: The classes under :func:`registered_engine`, by name.
ENGINES: dict[str, Engine] = {}


def registered_engine(engine: type[E]) -> type[E]:
    """Class decorator: :mod:`edgebench.workloads.engines.registry` lists the engine."""
    ENGINES[engine.name] = engine()
    return engine


def note_runtime(recorder: Recorder, **versions: Any) -> None:
    """Note versions, threads and the variables that matter."""
    found = {k: v for k, v in sorted(os.environ.items()) if k.startswith(_VARIABLES)}
    recorder.note(**versions, environment=found)
