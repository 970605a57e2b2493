"""Inference: engines, which load networks and execute them inside the limit, and its workload.

Importing an engine's module imports no heavy library: these are imported in its methods. An engine
in a package of its own is found by its entry point.
"""

from __future__ import annotations

import hashlib
import json
import os
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path, PurePath
from typing import Any, ClassVar, Protocol

from edgebench import plugins
from edgebench.errors import EdgebenchError, WorkloadError, error_words
from edgebench.layers.disk import evict, weights_in
from edgebench.layers.input_specs import FileInput, make_inputs
from edgebench.layers.names import TORCH, WHOLE
from edgebench.workloads.events import SpanPlace
from edgebench.workloads.recorder import Recorder, collected_rounds

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
    """One engine."""

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


#: In a prepared network's folder: the file's name and inputs; and the folder of the file's copy.
DESCRIPTION, COPY = "inputs.json", "file"
#: The layer that loads the file, where an engine times layers; its order is 0.
LOADING = "loading"
#: Of an engine's own words.
_MOST_WORDS = 300


@dataclass(frozen=True)
class TimedNode:
    """A node of the graph in one execution, the n-th of a load, with the bytes of its weights."""

    execution: int
    order: int
    name: str
    operator: str
    start_ns: int
    end_ns: int
    weights_bytes: int
    output_bytes: int


class EngineModel(ABC):
    """One network in an engine. Its methods raise what the engine's library raises.

    Args:
        file: the network's file.
        settings: of the trial.
        profile: a folder for times of operators and layers; None: they are not measured.
    """

    def __init__(
        self, file: Path, settings: Mapping[str, Any], profile: Path | None = None
    ) -> None:
        self.file, self.settings, self.profile = file, settings, profile

    @abstractmethod
    def load(self) -> None:
        """Have the network in memory."""

    @abstractmethod
    def inputs(self) -> list[FileInput]:
        """List the inputs of the loaded network."""

    def fit(self, inputs: Mapping[str, Any]) -> None:  # noqa: B027 - most need nothing
        """Have memory for inputs of these shapes in the loaded network."""

    @abstractmethod
    def run(self, inputs: Mapping[str, Any]) -> Any:
        """Execute the loaded network on arrays of NumPy."""

    @abstractmethod
    def unload(self) -> None:
        """Give its memory back."""

    @abstractmethod
    def output_bytes(self, output: Any) -> bytes:
        """Return what :meth:`run` returned as bytes, for its digest."""

    def timed_nodes(self) -> list[TimedNode]:
        """List the nodes in the executions since the last load, if it has a profile's folder."""
        return []


class FileEngine(Engine):
    """An engine that executes a file in a format of its own, as a whole."""

    schedules = (WHOLE,)
    #: What to do where it refuses a file.
    remedy: ClassVar[str]
    #: Makes the network of a file's copy in the prepared folder, which is not opened yet; called as
    #: :class:`EngineModel` is.
    model: ClassVar[Callable[..., EngineModel]]

    def parts(self, file: Path) -> list[Path]:
        """List all files that the network consists of, the named one first, all in its folder.

        Called in a helper process, as the caller, since it may parse the file.

        Raises:
            WorkloadError: one is missing, or lies outside the file's folder.
        """
        return [file]

    def keep_forms(self, file: Path, folder: Path, loaders: Iterable[str]) -> None:
        """Write to the prepared folder what these loaders need beside the copy of the file.

        Called as :meth:`parts` is.
        """

    def words(self, error: Exception) -> str:
        """Return the library's own words."""
        return error_words(error)

    @contextmanager
    def named_errors(self, doing: str, where: str) -> Iterator[None]:
        """Turn what the library raises into an error that says what the engine can't do.

        Raises:
            WorkloadError: with the library's own words.
        """
        try:
            yield
        except EdgebenchError:
            raise
        except Exception as error:
            words = self.words(error)
            if len(words) > _MOST_WORDS:
                words = f"{words[:_MOST_WORDS].rstrip()} …"
            what = f"{self.title} can't {doing}: {words}"
            raise WorkloadError(what, where=where, remedy=self.remedy) from error

    def open(self, settings: Mapping[str, Any], recorder: Recorder) -> Rounds:
        """Make each network's inputs."""
        if recorder.profile_folder and self.no_operator_times:
            # The strategy that asked reads it in place of times.
            recorder.note(no_operator_times=self.no_operator_times)
        return FileRounds(self, settings, recorder)


@dataclass(frozen=True)
class _Network:
    name: str
    model: EngineModel
    inputs: Mapping[str, Any]


class FileRounds:
    """Loads each network in turn, executes it once (``first``), and then ``warm`` times more."""

    def __init__(self, engine: FileEngine, settings: Mapping[str, Any], recorder: Recorder) -> None:
        self._engine, self._recorder, self._warm = engine, recorder, settings["warm"]
        self._networks = []
        for name in settings["networks"]:
            folder = Path(settings["weights"][name])
            about = json.loads((folder / DESCRIPTION).read_text())
            inputs = [FileInput.from_json(described) for described in about["inputs"]]
            values = make_inputs(inputs, settings, name)
            profile = settings.get("profile_folder") or recorder.profile_folder
            file = folder / COPY / about["file"]
            model = engine.model(file, settings, profile and Path(profile))
            self._networks.append(_Network(name, model, values))
        self._times_nodes = bool(settings.get(engine.layer_option or ""))
        #: Phase and operator → calls, nanoseconds.
        self._operators: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
        self._round = 0

    def run(self, number: int) -> list[bytes]:
        """Run one round; returns the bytes of each network's output."""
        self._round = number
        with self._recorder.span("round", round=number):
            outputs = [self._run(network) for network in self._networks]
        for network in self._networks:
            for node in network.model.timed_nodes():
                phase = "execute" if node.execution else "first"
                if self._times_nodes:
                    place = SpanPlace(phase, number, network.name, node.order, node.name)
                    self._recorder.timed(place, node.start_ns, node.end_ns)
                sums = self._operators[phase, node.operator]
                sums[0] += 1
                sums[1] += node.end_ns - node.start_ns
        pairs = zip(self._networks, outputs, strict=True)
        return [network.model.output_bytes(output) for network, output in pairs]

    def close(self) -> None:
        """Report the times of operators, where a strategy wants them."""
        for (phase, operator), (calls, own_ns) in self._operators.items():
            self._recorder.operator_time(phase, operator, calls, own_ns)

    def _run(self, network: _Network) -> Any:
        model, inputs = network.model, network.inputs
        with self._phase("load", network.name):
            model.load()
            model.fit(inputs)
        try:
            with self._phase("first", network.name):
                output = model.run(inputs)
            for _ in range(self._warm):
                with self._phase("execute", network.name):
                    model.run(inputs)
        finally:
            model.unload()
        return output

    @contextmanager
    def _phase(self, phase: str, network: str) -> Iterator[None]:
        loads = phase == "load"
        # Loading is a layer beside the nodes: it takes a part of the round, too.
        layer, name = (0, LOADING) if loads and self._times_nodes else (None, None)
        with (
            self._recorder.span(phase, round=self._round, network=network, layer=layer, name=name),
            self._engine.named_errors("load it" if loads else "execute it", network),
        ):
            yield


#: The engines in modules beside this one.
_OWN = {
    TORCH: "edgebench.workloads.engines.torch:Torch",
    "litert": "edgebench.workloads.engines.file_engines:LiteRt",
    "onnxruntime": "edgebench.workloads.engines.onnxruntime:OnnxRuntime",
    "tensorflow": "edgebench.workloads.engines.file_engines:TensorFlow",
    "torchscript": "edgebench.workloads.engines.file_engines:TorchScript",
}


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
    names = {*_OWN, *plugins.added(plugins.ENGINES)} - {TORCH}
    return {name: engine_of(name) for name in (TORCH, *sorted(names))}


@cache
def engine_of(name: str | None) -> Engine:
    """Import the module of one engine; None: torch's.

    Raises:
        MachineError: an engine of another package can't be imported.
    """
    if name is None:
        return engine_of(TORCH)
    if name in _OWN:
        module, _, kind = _OWN[name].partition(":")
        engine: Engine = getattr(import_module(module), kind)()
    else:
        engine = plugins.load(plugins.added(plugins.ENGINES)[name])()
    return engine


def engines_for(network: str) -> tuple[str, ...]:
    """Name the engines that execute a network: those of a file's format, else torch's."""
    suffix = PurePath(network).suffix.lower()
    return tuple(n for n, engine in all_engines().items() if suffix in engine.formats) or (TORCH,)


def file_engine(network: str) -> Engine | None:
    """Return the engine that executes a network's file; None: it has no format of its own."""
    engine = all_engines()[engines_for(network)[0]]
    return engine if engine.formats else None


def run_import(settings: dict[str, Any], recorder: Recorder) -> None:
    """Import the runtime and nothing more: its memory is the base. Setting: ``engine`` (torch)."""
    with recorder.span("import"):
        engine_of(settings.get("engine")).import_library({}, recorder)


def run_inference(settings: dict[str, Any], recorder: Recorder) -> None:
    """Import the runtime, build the networks, and load and execute them for each round.

    Settings: ``networks``, ``engine`` (torch), ``weights`` (network → folder), ``schedule``,
    ``loader``, ``batch``, ``image``, ``rounds``, ``warm``, ``threads``, ``workers``, ``seed``,
    ``page_cache``, ``gc``, and the options of the engine.

    Raises:
        WorkloadError: a network or its weights can't be had, or rounds differ in their outputs.
    """
    engine = engine_of(settings.get("engine"))
    with recorder.span("import"):
        engine.import_library(settings, recorder)
    with recorder.span("init"):
        work = engine.open(settings, recorder)
    digests: list[str] = []
    with collected_rounds(settings) as before_round:
        for number in recorder.round_numbers(settings["rounds"]):
            before_round()
            if settings["page_cache"] == "cold":
                for file in weights_in(settings["weights"].values()):
                    evict(file)
            outputs = work.run(number)
            before, digests = digests, [hashlib.sha256(output).hexdigest() for output in outputs]
            # An accelerator's sums may be of another order each time.
            if before and before != digests and recorder.accelerator is None:
                raise WorkloadError(f"the outputs of round {number} differ from the round before")
    work.close()
    # Of the same network twice in a pipeline, both outputs are the same too.
    recorder.note(output_sha256=dict(zip(settings["networks"], digests, strict=True)))
