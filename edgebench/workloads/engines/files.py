"""Engines that execute a file in a format of their own: its inputs, models, rounds."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from edgebench.errors import EdgebenchError, UsageError, WorkloadError, error_words
from edgebench.layers.input_specs import ONLY, STRING, InputSpec, parse_inputs
from edgebench.text import choice_hint, joined_words
from edgebench.workloads.engines.engine import WHOLE, Engine, Rounds
from edgebench.workloads.events import SpanPlace
from edgebench.workloads.recorder import Recorder

#: Whole numbers are below this one: as an index each finds something, as a mask each is valid.
_INTEGERS_BELOW = 2
_NUMBERS = re.compile(r"(u?int|float)(8|16|32|64)|bool")
#: Dimensions of a picture.
_PICTURE_DIMENSIONS = 4
#: What a proposal has for a picture's side; any other size that the file doesn't have is 1.
_SIDE = 224
#: Below what a proposal's whole numbers are, which may be indices: one after the other is tried.
_BELOW = 1000
#: A range of indices, as an engine's message has it.
_RANGE = re.compile(r"\[-?\d+, ?(\d{1,9})\]")


@dataclass(frozen=True)
class FileInput:
    """One input.

    ``dtype`` is numpy's name of its type, or ``string``; empty: any tensor. A dimension is a size,
    or a name or None where it is dynamic; dimensions with the same name have the same size. A shape
    of None is in no file. One that is ``optional`` is left out unless it is described.
    """

    name: str
    dtype: str
    shape: tuple[int | str | None, ...] | None
    optional: bool = False

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> FileInput:
        """Read it from the description of a prepared file."""
        shape = data["shape"]
        return cls(**{**data, "shape": None if shape is None else tuple(shape)})


def _described_inputs(
    inputs: Sequence[FileInput], settings: Mapping[str, Any], where: str
) -> dict[str, InputSpec]:
    """Return input → its description, for as many as have one; the batch is in the shapes.

    Raises:
        WorkloadError: the file has no such input, or one whose type has no such value.
    """
    given = parse_inputs(settings.get("input") or {})
    known = {entry.name: entry for entry in inputs}
    if ONLY in given:
        needed = [entry.name for entry in inputs if not entry.optional]
        if len(needed) != 1:
            raise WorkloadError(
                f"the file has {len(needed)} inputs, so each needs its name",
                where=where,
                remedy=f"it has {', '.join(needed)}: {example_of(inputs)}",
            )
        given = {needed[0]: given[ONLY]}
    specs = {}
    for name, spec in given.items():
        if name not in known:
            what = f"the file has no input {name!r}"
            raise WorkloadError(what, where=where, remedy=choice_hint(name, known))
        dtype = spec.dtype or known[name].dtype or "float32"
        try:
            value = None if spec.value is None else spec.value_as(dtype, name)
        except UsageError as error:
            raise WorkloadError(error.what, where=where, remedy=error.remedy) from error
        specs[name] = replace(spec.batched(settings["batch"]), dtype=dtype, value=value)
    return specs


class UndescribedError(WorkloadError):
    """The file does not say what some of its inputs are."""


def example_of(inputs: Sequence[FileInput], below: int = _BELOW) -> str:
    """Describe inputs as on the command line; sizes that the file doesn't have are examples."""
    named = ((entry.name, _example(entry, below)) for entry in inputs)
    return " ".join(f"--input {_quoted(f'{name}={text}')}" for name, text in named)


def proposal(
    inputs: Sequence[FileInput], execute: Callable[[dict[str, Any]], None], where: str
) -> str:
    """Find a description with which a network can be executed; where there is none, an example.

    Args:
        inputs: the network's.
        execute: executes it once with values.
        where: its file.
    """
    wanted = [
        entry
        for entry in inputs
        if not entry.optional
        and (not entry.shape or any(not isinstance(size, int) for size in entry.shape))
    ]
    bounds = [_BELOW]
    for below in bounds:
        described = {entry.name: _example(entry, below) for entry in wanted}
        try:
            execute(make_inputs(inputs, {"batch": 1, "seed": 0, "input": described}, where))
        except Exception as error:
            # A library may raise anything.
            if len(bounds) == 1:
                bound = _RANGE.search(str(error))
                bounds += [*([int(bound[1]) + 1] if bound else []), _INTEGERS_BELOW]
        else:
            return f"with these it was executed once: {example_of(wanted, below)}"
    return f"describe them, with sizes that fit: {example_of(wanted)}"


def _quoted(text: str) -> str:
    # Double quotes are easier to change, and "<" needs some.
    plain = not set(text) & set('"$`\\!')
    # Lazy: no trial needs it.
    from shlex import quote

    return f'"{text}"' if plain and " " in text else quote(text)


def _example(entry: FileInput, below: int) -> str:
    if entry.dtype == STRING:
        return f'{STRING} "hello"'
    if entry.shape == ():
        return "true" if entry.dtype == "bool" else "1"
    dtype, shape = entry.dtype or "float32", entry.shape or (None, 3, None, None)
    sides = _sides(shape)
    sizes = (
        size if isinstance(size, int) else _SIDE if place in sides else 1
        for place, size in enumerate(shape)
    )
    values = "" if "float" in dtype else " zeros" if dtype == "bool" else f" <{below}"
    return f"{dtype} {'x'.join(map(str, sizes))}{values}"


def _sides(shape: Sequence[int | str | None]) -> tuple[int, ...]:
    """Find the places of a picture's sides: the last two, or those before its channels."""
    if len(shape) != _PICTURE_DIMENSIONS:
        return ()
    channels_last = isinstance(shape[3], int) and not isinstance(shape[1], int)
    return (1, 2) if channels_last else (2, 3)


def _shape(
    entry: FileInput,
    spec: InputSpec | None,
    settings: Mapping[str, Any],
    named: Mapping[str, int],
) -> tuple[int, ...] | None:
    """Return its shape: as described, else the file's own; None where nothing tells a size."""
    if spec and spec.shape is not None:
        return spec.shape
    if entry.shape is None:
        return None
    sizes = [named.get(size) if isinstance(size, str) else size for size in entry.shape]
    for place in _sides(entry.shape):
        sizes[place] = settings.get("image") if sizes[place] is None else sizes[place]
    if len(sizes) > 1 and sizes[0] is None:
        sizes[0] = settings["batch"]
    if spec is not None:
        # A value alone.
        return tuple(1 if size is None else size for size in sizes)
    return None if None in sizes else tuple(size or 0 for size in sizes)


def _undescribed(
    inputs: Sequence[FileInput], lacking: Sequence[FileInput], where: str
) -> UndescribedError:
    # A number of which the file has no value is a setting, as a sampling rate.
    wanted = [
        entry for entry in inputs if entry in lacking or (entry.shape == () and not entry.optional)
    ]
    words = []
    for entry in lacking:
        sizes = " x ".join("?" if size is None else str(size) for size in entry.shape or ())
        shape = "of any shape" if entry.shape is None else sizes or "without a shape"
        words.append(f"{entry.name!r} is {entry.dtype or 'a tensor'} {shape}")
    return UndescribedError(
        f"the file does not say what its inputs are: {joined_words(words)}",
        where=where,
        remedy=f"describe them, with sizes that fit: {example_of(wanted)}",
    )


def value_words(values: Mapping[str, Any]) -> str:
    """Write the values of inputs for a message: types and shapes, and single values."""

    def words(value: Any) -> str:
        kind, shape = str(value.dtype), "x".join(map(str, value.shape))
        return f"{STRING if kind == 'object' else kind} {shape}" if shape else f"= {value}"

    return ", ".join(f"{name} {words(value)}" for name, value in values.items())


def make_inputs(
    inputs: Sequence[FileInput], settings: Mapping[str, Any], where: str
) -> dict[str, Any]:
    """Make an array for each input as the setting ``input`` describes it, equal for equal seeds.

    Of others ``batch`` fills the first dimension where it is dynamic, and ``image`` the sides of a
    picture; fractions lie between 0 and 1, whole numbers are 0 or 1. A dimension whose name has a
    size in a described input has that size.

    Raises:
        WorkloadError: inputs whose shape nothing tells, all in one message; an input of a type that
            can't be made up; none has the batch as its first size.
    """
    specs = _described_inputs(inputs, settings, where)
    inputs = [entry for entry in inputs if not entry.optional or entry.name in specs]
    named = {
        name: size
        for entry in inputs
        if entry.name in specs
        for name, size in zip(entry.shape or (), specs[entry.name].shape or (), strict=False)
        # Names that exporters give to any dimension.
        if isinstance(name, str) and name not in ("", "?", "None")
    }
    shapes = {entry.name: _shape(entry, specs.get(entry.name), settings, named) for entry in inputs}
    for entry in inputs:
        if entry.dtype not in ("", STRING) and not _NUMBERS.fullmatch(entry.dtype):
            raise WorkloadError(
                f"the input {entry.name!r} is of a type that can't be made up: {entry.dtype}",
                where=where,
                remedy="measure the program that feeds it: edgebench minimum -- python3 infer.py",
            )
    lacking = [
        entry
        for entry in inputs
        if shapes[entry.name] is None or (entry.dtype == STRING and entry.name not in specs)
    ]
    if lacking:
        raise _undescribed(inputs, lacking, where)
    batch = settings["batch"]
    is_in_a_shape = any(shape and shape[0] == batch for shape in shapes.values())
    if batch != 1 and not specs and not is_in_a_shape:
        raise WorkloadError(
            f"a batch of {batch} does not match the file, which has a fixed batch",
            where=where,
            remedy="leave batch out, or export the network with a dynamic batch dimension",
        )
    arrays: dict[str, Any] = {}
    for number, entry in enumerate(inputs):
        random, shape = _Mixed(settings["seed"], number), shapes[entry.name] or ()
        if entry.name in specs:
            arrays[entry.name] = _described_values(replace(specs[entry.name], shape=shape), random)
        elif "float" in entry.dtype:
            arrays[entry.name] = random.fractions(shape, entry.dtype)
        else:
            arrays[entry.name] = random.integers(_INTEGERS_BELOW, shape, entry.dtype)
    return arrays


class _Mixed:
    """Even numbers, the same for the same seed; NumPy's own generators take 2 MiB.

    A plain program need not have them. A bit mixer makes the n-th number of n.
    """

    #: So many numbers are made at a time: more would be memory beside the input.
    _AT_ONCE = 1 << 14

    def __init__(self, *seed: int) -> None:
        self._seed = seed

    def fractions(self, shape: tuple[int, ...], dtype: str) -> Any:
        return self._filled(shape, dtype, lambda bits: (bits >> 8) * 2.0**-24)

    def integers(self, below: int, shape: tuple[int, ...], dtype: str) -> Any:
        return self._filled(shape, dtype, lambda bits: bits % below)

    def _filled(self, shape: tuple[int, ...], dtype: str, convert: Callable[[Any], Any]) -> Any:
        import numpy as np

        array = np.empty(shape, dtype)
        flat = array.reshape(-1)
        first = 0
        for part in self._seed:
            first = (first * 0x9E3779B1 + part + 1) % (1 << 32)
        for begin in range(0, flat.size, self._AT_ONCE):
            end = min(begin + self._AT_ONCE, flat.size)
            bits = np.arange(begin, end, dtype=np.uint64).astype(np.uint32)
            bits = (bits + np.uint32(first)) * np.uint32(0x9E3779B1)
            for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
                bits ^= bits >> np.uint32(shift)
                bits *= np.uint32(factor)
            flat[begin:end] = convert(bits ^ (bits >> np.uint32(16)))
        return array


def _described_values(spec: InputSpec, random: _Mixed) -> Any:
    import numpy as np

    if spec.value is not None:
        dtype = object if spec.dtype == STRING else spec.dtype
        return np.full(spec.shape, spec.value, dtype=dtype)
    assert spec.shape is not None
    assert spec.dtype is not None
    if spec.below is not None:
        return random.integers(spec.below, spec.shape, spec.dtype)
    if spec.fill == "arange":
        return np.broadcast_to(np.arange(spec.shape[-1]), spec.shape).astype(spec.dtype)
    if spec.fill == "uniform":
        return random.fractions(spec.shape, spec.dtype)
    return np.full(spec.shape, spec.fill == "ones", dtype=spec.dtype)


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

    @abstractmethod
    def model(
        self, file: Path, settings: Mapping[str, Any], profile: Path | None = None
    ) -> EngineModel:
        """Return the network in a file; it is not opened yet.

        ``file`` is its copy in the prepared folder; see :class:`EngineModel`.
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
