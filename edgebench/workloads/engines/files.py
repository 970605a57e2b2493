"""Engines that execute a file in a format of their own: models, rounds, what they prepare."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from edgebench.workloads.engines.engine import WHOLE, Engine, Rounds
from edgebench.workloads.engines.file_inputs import FileInput, WantedInputs, make_inputs
from edgebench.workloads.recorder import Recorder

#: In a prepared network's folder: the description of its inputs and the names of its outputs.
ENDS = "ends.json"


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


@dataclass(frozen=True)
class FileRequest:
    """What is to be prepared of a file: for which schedules and loaders, with which inputs."""

    file: Path
    folder: Path
    schedules: Sequence[str]
    loaders: Sequence[str]
    wanted: WantedInputs


class FileEngine(Engine):
    """An engine that executes a file in a format of its own."""

    #: ``module:function`` that prepares a file; no worker imports it.
    preparation: ClassVar[str]

    def parts(self, file: Path) -> list[Path]:
        """All files that the network consists of, the named one first.

        Called in a helper process, as the caller, since it may parse the file.

        Raises:
            WorkloadError: one is missing, or lies outside the file's folder.
        """
        return [file]

    def prepare(self, request: FileRequest) -> dict[str, Any]:
        """Write what its trials load to the request's folder; the network's layer table.

        Called in a helper process, outside any limit, as the caller. The answer has the keys of a
        network in a manifest: ``table``, ``parameter_bytes``, ``file_bytes``.

        Raises:
            WorkloadError: the file can't be read, or the engine lacks one of its operators.
        """
        module, _, name = self.preparation.partition(":")
        found: dict[str, Any] = getattr(import_module(module), name)(request)
        return found

    @abstractmethod
    def model(self, folder: Path, settings: Mapping[str, Any], profile: Path | None) -> EngineModel:
        """The network that was prepared in a folder.

        ``profile`` is a folder for times of operators; None: they are not measured.

        Raises:
            WorkloadError: the folder is incomplete, or an input can't be made.
        """

    def open(self, settings: Mapping[str, Any], recorder: Recorder) -> Rounds:
        """Open each network, and its inputs."""
        from edgebench.workloads.engines.files import FileRounds

        if recorder.profile_folder and self.no_operator_times:
            # The strategy that asked reads it in place of times.
            recorder.note(no_operator_times=self.no_operator_times)
        models = {
            name: self.model(Path(settings["weights"][name]), settings, recorder.profile_folder)
            for name in settings["networks"]
        }
        return FileRounds(models, settings, recorder)


class FileRounds:
    """Loads and executes each network in turn.

    ``linear``: a unit is loaded, executed and unloaded, then the next. ``bulk``, and ``whole``
    with its one unit: all are loaded, executed once (``first``), and then ``warm`` times more.
    """

    def __init__(
        self, models: Mapping[str, EngineModel], settings: Mapping[str, Any], recorder: Recorder
    ) -> None:
        self._models = [(name, models[name]) for name in settings["networks"]]
        self._inputs = {name: model.inputs() for name, model in models.items()}
        self._linear = settings["schedule"] == "linear"
        self._warm = settings["warm"]
        self._recorder = recorder
        self._round = 0

    def run(self, number: int) -> list[bytes]:
        """One round; the bytes of each network's output."""
        self._round = number
        with self._recorder.span("round", round=number):
            outputs = [self._one(name, model) for name, model in self._models]
        models = (model for _, model in self._models)
        return [model.output_bytes(one) for model, one in zip(models, outputs, strict=True)]

    def close(self) -> None:
        """Report the times of operators, where a strategy wants them."""
        for _, model in self._models:
            for one in model.operator_times():
                self._recorder.operator_time(one.phase, one.operator, one.calls, one.own_ns)

    def _one(self, name: str, model: EngineModel) -> dict[str, Any]:
        if self._linear:
            return self._pass(name, model, "first", each=True)
        for unit in model.units:
            self._load(name, model, unit)
        try:
            output = self._pass(name, model, "first")
            for _ in range(self._warm):
                self._pass(name, model, "execute")
        finally:
            for unit in model.units:
                model.unload(unit)
        return output

    def _load(self, name: str, model: EngineModel, unit: Unit) -> None:
        with self._span("load", name, unit):
            model.load(unit)

    def _pass(
        self, name: str, model: EngineModel, phase: str, each: bool = False
    ) -> dict[str, Any]:
        """All units in order; ``each``: a unit has memory only while it is executed."""
        values, last = dict(self._inputs[name]), _last_uses(model)
        layered = model.units[0].order is not None and not each
        whole = Unit(None, name)
        with self._span(phase, name, whole) if layered else nullcontext():
            for number, unit in enumerate(model.units):
                if each:
                    self._load(name, model, unit)
                given = {key: values[key] for key in unit.inputs}
                for key in [key for key in given if last.get(key) == number]:
                    del values[key]
                with self._span(phase, name, unit):
                    values.update(model.run(unit, given))
                if each:
                    model.unload(unit)
        return {key: values[key] for key in model.outputs}

    def _span(self, phase: str, name: str, unit: Unit) -> AbstractContextManager[None]:
        if unit.order is None:
            return self._recorder.span(phase, round=self._round, network=name)
        return self._recorder.span(
            phase, round=self._round, network=name, layer=unit.order, name=unit.name
        )


def _last_uses(model: EngineModel) -> dict[str, int]:
    """Tensor → the number of the last unit that reads it; the network's outputs are kept."""
    last = {key: n for n, unit in enumerate(model.units) for key in unit.inputs}
    return {key: number for key, number in last.items() if key not in model.outputs}


def whole_file(folder: Path, suffix: str) -> Path:
    """Where the file itself lies in a prepared network's folder."""
    return folder / f"{WHOLE}{suffix}"


class WholeFileModel(EngineModel):
    """What engines that can't cut a file have in common.

    Args:
        folder: of the prepared network.
        suffix: of the engine's files, as ``.tflite``.
        settings: of the trial.
    """

    def __init__(self, folder: Path, suffix: str, settings: Mapping[str, Any]) -> None:
        self._file, self._where = whole_file(folder, suffix), folder.name
        self._settings, self._wanted = settings, WantedInputs.of(settings)
        ends = json.loads((folder / ENDS).read_text())
        self._described = [FileInput.from_json(one) for one in ends["inputs"]]
        self.outputs = tuple(ends["outputs"])
        names = tuple(one.name for one in self._described)
        self.units = (Unit(None, WHOLE, names, self.outputs),)

    def inputs(self) -> dict[str, Any]:
        """Arrays of NumPy."""
        return make_inputs(self._described, self._wanted, self._settings["seed"], self._where)
