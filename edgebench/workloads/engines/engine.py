"""The interface of engines, and the registry that each one joins.

Importing an engine's module imports no heavy library: these are imported in its methods.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from edgebench.layers.names import LOADERS

if TYPE_CHECKING:
    from edgebench.workloads.engines.file_inputs import WantedInputs
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


@dataclass(frozen=True)
class Unit:
    """What an engine loads and executes as one: a layer, or a network as a whole.

    ``order`` is None for a whole network. ``inputs`` and ``outputs`` are names of tensors.
    """

    order: int | None
    name: str
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()


@dataclass(frozen=True)
class OperatorTime:
    """How often an operator was called in a phase (``first``, ``execute``), and its own time."""

    phase: str
    operator: str
    calls: int
    own_ns: int


class EngineModel(ABC):
    """One network in an engine: its units are loaded, executed and unloaded."""

    #: In the order of their execution; outputs of one are inputs of later ones.
    units: tuple[Unit, ...]
    #: Names of the network's outputs.
    outputs: tuple[str, ...]

    @abstractmethod
    def inputs(self) -> dict[str, Any]:
        """The network's inputs by name: the same for the same seed."""

    @abstractmethod
    def load(self, unit: Unit) -> None:
        """Have the unit in memory, ready to be executed.

        Raises:
            WorkloadError: the engine refuses it; says in what words.
        """

    @abstractmethod
    def run(self, unit: Unit, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Execute a loaded unit; its outputs by name.

        Raises:
            WorkloadError: the engine fails; says in what words.
        """

    @abstractmethod
    def unload(self, unit: Unit) -> None:
        """Give its memory back."""

    @abstractmethod
    def output_bytes(self, outputs: Mapping[str, Any]) -> bytes:
        """The network's outputs as bytes, for their digest."""

    def operator_times(self) -> list[OperatorTime]:
        """Times of operators since the start, if the engine was told to measure them."""
        return []


class Rounds(Protocol):
    """A workload that is ready: each round loads and executes all of it."""

    def run(self, number: int) -> list[bytes]:
        """One round; the bytes of each network's output."""

    def close(self) -> None:
        """Called after the last round."""


class Engine(ABC):
    """One engine. Its module is called ``name`` and stands in this package."""

    name: ClassVar[str]
    #: The name in tables and texts.
    title: ClassVar[str]
    #: Endings of the files that it executes; networks known by name have none.
    formats: ClassVar[tuple[str, ...]] = ()
    #: The modules it can't do without, as they are imported.
    libraries: ClassVar[tuple[str, ...]]
    #: What it can do; the first is the default.
    schedules: ClassVar[tuple[str, ...]]
    #: How it can have weights in memory; one with a single way uses that for any loader.
    loaders: ClassVar[tuple[str, ...]] = LOADERS
    #: Keys of a scenario that set its options; each is an axis.
    axes: ClassVar[tuple[str, ...]] = ()
    #: Why it has no times of operators; None: it has.
    no_operator_times: ClassVar[str | None] = None

    @property
    def by_layer(self) -> bool:
        """Whether it can load and execute by layer."""
        return self.schedules != (WHOLE,)

    def available(self) -> str | None:
        """Why it can't be used here, with the command that installs it; None if it can."""
        # Lazy: it reads packages' metadata, and would count among the worker's base.
        from edgebench.extras import install, missing

        if lacking := missing(self.libraries):
            return f"{' and '.join(lacking)} not installed: {install(*lacking)}"
        return None

    @abstractmethod
    def import_library(self, settings: Mapping[str, Any], recorder: Recorder) -> None:
        """Import all its code, so that it counts as base, and note versions and threads."""

    @abstractmethod
    def open(self, settings: Mapping[str, Any], recorder: Recorder) -> Rounds:
        """Build what the workload's rounds need; no weights are in memory yet.

        Raises:
            WorkloadError: a network can't be built.
        """


class FileEngine(Engine):
    """An engine that executes a file in a format of its own."""

    def parts(self, file: Path) -> list[Path]:
        """All files that the network consists of, the named one first.

        Called in a helper process, as the caller, since it may parse the file.

        Raises:
            WorkloadError: one is missing, or lies outside the file's folder.
        """
        return [file]

    @abstractmethod
    def prepare(self, request: FileRequest) -> dict[str, Any]:
        """Write what its trials load to the request's folder; the network's layer table.

        Called in a helper process, outside any limit, as the caller. The answer has the keys of a
        network in a manifest: ``table``, ``parameter_bytes``, ``file_bytes``.

        Raises:
            WorkloadError: the file can't be read, or the engine lacks one of its operators.
        """

    @abstractmethod
    def model(self, folder: Path, settings: Mapping[str, Any], profile: Path | None) -> EngineModel:
        """The network that was prepared in a folder.

        ``profile`` is a folder for times of operators; None: they are not measured.

        Raises:
            WorkloadError: the folder is incomplete, or an input can't be made.
        """

    def open(self, settings: Mapping[str, Any], recorder: Recorder) -> Rounds:
        """Open each network, and its inputs."""
        from edgebench.workloads.engines.file_rounds import FileRounds

        if recorder.profile_folder and self.no_operator_times:
            # The strategy that asked reads it in place of times.
            recorder.note(no_operator_times=self.no_operator_times)
        models = {
            name: self.model(Path(settings["weights"][name]), settings, recorder.profile_folder)
            for name in settings["networks"]
        }
        return FileRounds(models, settings, recorder)


@dataclass(frozen=True)
class FileRequest:
    """What is to be prepared of a file: for which schedules and loaders, with which inputs."""

    file: Path
    folder: Path
    schedules: Sequence[str]
    loaders: Sequence[str]
    wanted: WantedInputs


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
