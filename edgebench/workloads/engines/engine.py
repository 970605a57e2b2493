"""The interface of engines, and all engines by name.

Importing an engine's module imports no heavy library: these are imported in its methods. An engine
in a package of its own is found by its entry point.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from edgebench import plugins

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
        """Run one round; returns the bytes of each network's output."""

    def close(self) -> None:
        """Finish after the last round."""


class Engine(ABC):
    """One engine; its module has its name."""

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
    loaders: ClassVar[tuple[str, ...]] = ("copy", "mmap")
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
#: The engine of networks that are known by name, and of settings that name none.
TORCH = "torch"
#: The modules beside this one that hold an engine of their name.
_MODULES = (TORCH, "litert", "onnxruntime", "tensorflow", "torchscript")
#: The engines that are imported, by name.
ENGINES: dict[str, Engine] = {}


def registered_engine(engine: type[E]) -> type[E]:
    """List the engine of this class among :data:`ENGINES`."""
    ENGINES[engine.name] = engine()
    return engine


def note_runtime(recorder: Recorder, **versions: Any) -> None:
    """Note versions, threads and the variables that matter."""
    environment = {k: v for k, v in sorted(os.environ.items()) if k.startswith(_VARIABLES)}
    recorder.note(**versions, environment=environment)


@cache
def all_engines() -> dict[str, Engine]:
    """Import every engine, whether or not its libraries are installed; torch's is the first.

    Raises:
        MachineError: an engine of another package can't be imported.
    """
    names = {*_MODULES, *plugins.added(plugins.ENGINES)} - {TORCH}
    return {name: engine_of(name) for name in (TORCH, *sorted(names))}


def engine_of(name: str | None) -> Engine:
    """Import the module of one engine alone; None: torch's.

    Raises:
        MachineError: an engine of another package can't be imported.
    """
    name = name or TORCH
    if name not in ENGINES:
        if name in _MODULES:
            import_module(f"edgebench.workloads.engines.{name}")
        else:
            ENGINES[name] = plugins.load(plugins.added(plugins.ENGINES)[name])()
    return ENGINES[name]


def engines_for(network: str) -> tuple[str, ...]:
    """Name the engines that execute a network: those of a file's format, else torch's."""
    suffix = PurePath(network).suffix.lower()
    return tuple(n for n, engine in all_engines().items() if suffix in engine.formats) or (TORCH,)


def file_engine(network: str) -> Engine | None:
    """Return the engine that executes a network's file; None: it has no format of its own."""
    engine = all_engines()[engines_for(network)[0]]
    return engine if engine.formats else None
