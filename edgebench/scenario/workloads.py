"""The ``[workload]`` table of a scenario: one model a kind, expanded into settings.

Training is in :mod:`edgebench.scenario.training`. A new kind joins by a model, its entry in
:data:`Workload`, and one in the workers' registry.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    ValidationInfo,
    model_validator,
)

from edgebench.layers.names import (
    ADMISSION,
    COPY,
    GENERATE,
    SCHEDULES,
    STREAM,
    TORCH,
    WEIGHT_PRECISIONS,
    WHOLE,
)
from edgebench.layers.references import KNOWN, ModelReference, parse_reference
from edgebench.scenario.keys import (
    KINDS,
    AcceleratorAxis,
    Axis,
    BatchAxis,
    Checkpoint,
    CollectorAxis,
    Count,
    InputKey,
    KeysError,
    Named,
    NetworkName,
    Seconds,
    Threads,
    TomlTable,
    accelerator_settings,
    asks_for_accelerator,
    combinations,
    hint,
    key,
    network_name,
    one_of,
    process_settings,
    refuse_both,
    scenario_path,
    tag_of,
)
from edgebench.scenario.training import TrainingWorkload
from edgebench.workloads.engines.engine import Engine, all_engines, engines_for, file_engine
from edgebench.workloads.engines.onnxruntime import LEVELS
from edgebench.workloads.recorder import FROZEN

if TYPE_CHECKING:
    from typing_extensions import Self

#: Tokens of a prompt if nobody says how many.
PROMPT = 128
PAGE_CACHES = ("cold", "warm")


def _loader_names() -> tuple[str, ...]:
    """Those of all engines."""
    return tuple(dict.fromkeys(name for one in all_engines().values() for name in one.loaders))


class InferenceWorkload(TomlTable):
    """Networks loaded and executed layer by layer, or as a whole.

    Of an engine's options, None leaves it as the engine has it.

    Args:
        kind: ``inference``, ``command``, ``convolution`` or ``training``.
        network: a name, or another model reference: ``package.module:function``, a file ``.pt2``,
            ``.pt`` (TorchScript), ``.onnx``, ``.tflite``, ``.keras``. Default: ``network`` or
            ``pipeline``.
        pipeline: networks of one trial, in this order. Default: ``pipeline`` or ``network``.
        input: type, shape and values of what the network takes, a text or a table; not with
            ``image``. Default: as the model says, or one image.
        prompt: tokens that a language model is given first. Default: 128.
        new_tokens: tokens that it generates, from 2; not with ``schedule`` or ``input``. Default:
            one forward pass.
        engine: what executes it. Default: all that can.
        arena: ONNX Runtime's memory arena. Default: true.
        memory_pattern: ONNX Runtime plans the memory of activations ahead. Default: true.
        optimization: ONNX Runtime's graph optimizations. Default: ``"all"``.
        prepacking: ONNX Runtime keeps copies of weights in the layout of its kernels. Default:
            true.
        node_times: ONNX Runtime's profiler times each node of the graph, as a layer; with one level
            of ``optimization``. Default: false.
        xnnpack: LiteRT computes with XNNPACK. Default: true.
        onednn: TensorFlow's operators use oneDNN. Default: true.
        xla: TensorFlow compiles the network with XLA, in its first execution. Default: false.
        malloc_trim: PyTorch: free pages of the heap are given back after each round, within its
            time. Default: false.
        accelerator: where PyTorch computes; not with ``new_tokens`` or the schedules ``stream`` and
            ``admission``. Default: ``"none"``.
        interop_threads: PyTorch: threads for operators that run beside each other. Default:
            PyTorch's choice.
        huge_pages: false: the process gets no transparent huge pages. Default: as the kernel gives
            them.
        precision: PyTorch: type of weights, input and activations; ``int8``: weights of linear
            layers. Not with ``loader = "mmap"`` or the schedule ``stream``. Default: as in the
            files.
        schedule: when layers are loaded and executed, see below. Default:
            ``"linear"``; of files ``"whole"``.
        loader: how weights get into memory, see below. Default: ``"copy"``; of a TFLite file
            ``"mmap"``.
        batch: images per execution.
        image: side of the input in pixels. Default: the network's own.
        rounds: rounds in a trial; each loads all layers again.
        warm: executions after the first, in the schedules ``bulk`` and ``whole``.
        threads: the engine's threads. Default: the engine's choice.
        workers: workers of the schedules ``partial`` and ``admission``.
        page_cache: ``cold``: weights are evicted before each round.
        gc: ``frozen``: Python collects garbage between rounds, not in them.
        checkpoint: network → file (``.safetensors``, ``.pt``), in place of random weights.
    """

    kind: Annotated[str, one_of("workload kind", KINDS)] = key(..., '"inference"')
    network: Axis[NetworkName] | None = key(None, '["alexnet", "resnet18"]')
    pipeline: Axis[NetworkName] | None = key(None, '["alexnet", "resnet18"]')
    input: InputKey = key(None, '{input_ids = "int64 1x128 <32000"}')
    prompt: Axis[Annotated[int, Field(ge=1, le=1 << 20)]] | None = key(None, "[32, 128]")
    new_tokens: Axis[Annotated[int, Field(ge=2, le=1 << 20)]] | None = key(None, "16")
    engine: Axis[Annotated[str, one_of("engine", lambda: tuple(all_engines()))]] | None = key(
        None, '"torch"'
    )
    arena: Axis[bool] | None = key(None, "[true, false]")
    memory_pattern: Axis[bool] | None = key(None, "[true, false]")
    optimization: Axis[Annotated[str, one_of("level of optimization", tuple(LEVELS))]] | None = key(
        None, '"all"'
    )
    prepacking: Axis[bool] | None = key(None, "[true, false]")
    node_times: Axis[bool] | None = key(None, "true")
    xnnpack: Axis[bool] | None = key(None, "[true, false]")
    onednn: Axis[bool] | None = key(None, "[true, false]")
    xla: Axis[bool] | None = key(None, "[true, false]")
    malloc_trim: bool | None = key(None, "true")
    accelerator: AcceleratorAxis | None = key(None, '["none", "cuda"]')
    interop_threads: Threads = key(None, "1")
    huge_pages: bool | None = key(None, "false")
    precision: Annotated[str, one_of("precision", WEIGHT_PRECISIONS)] | None = key(
        None, '"bfloat16"'
    )
    schedule: Axis[Annotated[str, one_of("schedule", (*SCHEDULES, WHOLE))]] | None = key(
        None, '"linear"'
    )
    loader: Axis[Annotated[str, one_of("loader", _loader_names)]] | None = key(None, '"copy"')
    batch: BatchAxis = key((1,), "1")
    image: Annotated[int, Field(ge=16, le=8192)] | None = key(None, "224")
    rounds: Count = key(1, "2")
    warm: Annotated[int, Field(ge=0)] = key(2, "2")
    threads: Axis[Annotated[int, Field(ge=1, le=1024)]] | None = key(None, "2")
    workers: Annotated[int, Field(ge=1, le=64)] = key(2, "2")
    page_cache: Annotated[str, one_of("page-cache state", PAGE_CACHES)] = key("cold", '"cold"')
    gc: CollectorAxis = key((FROZEN,), '"frozen"')
    checkpoint: dict[str, Checkpoint] = key({}, '{alexnet = "alexnet.safetensors"}')

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.network is None and self.pipeline is None:
            raise ValueError('which network? write network = "alexnet", or pipeline = [...]')
        for one, other in (("network", "pipeline"), ("input", "image")):
            if getattr(self, one) is not None and getattr(self, other) is not None:
                raise refuse_both(one, other)
        self._check_names()
        self._check_generation()
        engines = self._checked_engines()
        self._check_accelerator(engines)
        self._check_weights()
        return self

    def _check_names(self) -> None:
        """No two networks have the same name in results, and each checkpoint is of one of them."""
        named = {one.name: one for one in self._references()}
        twice = [one.name for one in self._references() if named[one.name] != one]
        if twice:
            raise ValueError(f"two networks are called {twice[0]}; rename a file or a folder")
        known = self.networks()
        for name in self.checkpoint:
            if name not in known:
                words = hint(name, known, "it runs")
                raise ValueError(f"a checkpoint for {name!r}, which it does not run; {words}")

    def _check_generation(self) -> None:
        """Check that the keys of text generation fit the others."""
        if self.new_tokens is None:
            if self.prompt is not None:
                raise KeysError(Named("prompt"), " needs ", Named("new_tokens", 16))
            return
        if any(name != TORCH for network in self.networks() for name in engines_for(network)):
            raise ValueError("text is generated in PyTorch alone, not from files")
        for name in ("schedule", "input"):
            if getattr(self, name) is not None:
                raise refuse_both(name, "new_tokens")

    def _checked_engines(self) -> list[Engine]:
        """Return the engines of all the networks; those of a pipeline run in one process.

        Raises:
            ValueError: a network has none, or none has an option or a schedule that is given.
        """
        found: dict[str, Engine] = {}
        for network in self.networks():
            own = self.engines_of(network)
            if not own:
                able = " or ".join(all_engines()[name].title for name in engines_for(network))
                raise ValueError(f"{network} is executed by {able} alone; leave engine out")
            found.update({engine.name: engine for engine in own})
        if self.pipeline and len(found) > 1:
            titles = " and ".join(engine.title for engine in found.values())
            raise ValueError(f"a pipeline runs in one engine, and these need {titles}")
        for axis in dict.fromkeys(a for engine in all_engines().values() for a in engine.axes):
            if getattr(self, axis) is not None and not any(axis in e.axes for e in found.values()):
                titles = " or ".join(e.title for e in all_engines().values() if axis in e.axes)
                raise ValueError(f"{axis} is an option of {titles}, which no network here uses")
        if self.node_times and len(self.optimization or ()) > 1:
            raise ValueError("node_times needs one level of optimization: each has other nodes")
        for name in self.schedule or ():
            if not any(name in engine.schedules for engine in found.values()):
                known = ", ".join(dict.fromkeys(n for e in found.values() for n in e.schedules))
                titles = " and ".join(engine.title for engine in found.values())
                words = "it runs a file as a whole: leave schedule out"
                words = words if known == WHOLE else f"it has {known}"
                raise ValueError(f"{titles} has no schedule {name!r}; {words}")
        for engine in found.values():
            lacking = [name for name in self.loader or () if name not in engine.loaders]
            if len(engine.loaders) > 1 and lacking:
                known = ", ".join(engine.loaders)
                raise ValueError(f"{engine.title} has no loader {lacking[0]!r}; it has {known}")
        return list(found.values())

    def _check_accelerator(self, engines: Sequence[Engine]) -> None:
        """Networks can be executed on the accelerators."""
        if not asks_for_accelerator(self.accelerator):
            return
        if other := next((engine.title for engine in engines if engine.name != TORCH), None):
            raise ValueError(
                f"only PyTorch runs on an accelerator here, and {other} is used too; leave "
                "accelerator or the other network out"
            )
        if self.new_tokens is not None:
            raise ValueError("text is generated on the processor alone; leave accelerator out")
        for name in (STREAM, ADMISSION):
            if name in (self.schedule or ()):
                raise ValueError(
                    f"the schedule {name!r} goes by the host's memory, where no weights stay on "
                    "an accelerator; leave it or accelerator out"
                )

    def _check_weights(self) -> None:
        """How weights are loaded fits the schedule and the precision."""
        streams = STREAM in (self.schedule or ())
        loader = self.loader or (COPY,)
        if streams and COPY in loader:
            words = 'the schedule "stream" reads mapped weights; write '
            raise KeysError(words, Named("loader", "mmap"))
        if self.precision and (loader != (COPY,) or streams):
            words = "weights of another precision are made in memory; write "
            raise KeysError(words, Named("loader", COPY), ', and no schedule "stream"')

    def _references(self) -> list[ModelReference]:
        return [parse_reference(text, Path()) for text in self.pipeline or self.network or ()]

    def networks(self) -> tuple[str, ...]:
        """Every network that it runs, as results name it."""
        return tuple(map(network_name, self.pipeline or self.network or ()))

    def files(self) -> dict[str, str]:
        """Network → its file, of those that are files."""
        return {one.name: one.path for one in self._references() if one.path and _is_file(one)}

    def engines_of(self, network: str) -> list[Engine]:
        """Return the engines that execute a network, of those that the table names."""
        names = engines_for(network)
        return [all_engines()[name] for name in names if self.engine is None or name in self.engine]

    def settings(self, seed: int) -> Iterator[dict[str, Any]]:
        """Every combination of its axes, as plain data for the worker."""
        groups = [list(self.networks())] if self.pipeline else [[name] for name in self.networks()]
        for group in groups:
            for engine in self.engines_of(group[0]):
                yield from self._settings_in(engine, group, seed)

    def _settings_in(self, engine: Engine, group: list[str], seed: int) -> Iterator[dict[str, Any]]:
        # Those given that it has, or its default; a way that is its only one needs no choice.
        schedules = tuple(name for name in self.schedule or () if name in engine.schedules)
        loaders = self.loader if len(engine.loaders) > 1 else None
        axes: dict[str, Sequence[Any]] = {
            "schedule": schedules or engine.schedules[:1],
            "loader": loaders or engine.loaders[:1],
            "batch": self.batch,
            "threads": self.threads or (None,),
            "gc": self.gc,
        }
        if self.new_tokens is not None:
            text = {"prompt": self.prompt or (PROMPT,), "new_tokens": self.new_tokens}
            axes |= {"schedule": (GENERATE,), **text}
        # What a worker has to know of networks built by code, and what PyTorch alone is told.
        own = [one for one in self._references() if one.name in group]
        built = {one.name: one.to_json() for one in own if one.kind != KNOWN and not _is_file(one)}
        given = {"references": built, "input": self.input}
        if engine.name == TORCH:
            given |= {"precision": self.precision, **process_settings(self)}
        else:
            axes["engine"] = (engine.name,)
        axes |= {axis: values for axis in engine.axes if (values := getattr(self, axis))}
        axes["where"] = list(accelerator_settings(self.accelerator))
        for chosen in combinations(axes):
            where = chosen.pop("where")
            yield {
                "kind": "inference",
                "networks": list(group),
                **self.model_dump(include={"image", "rounds", "warm", "workers", "page_cache"}),
                "checkpoint": dict(self.checkpoint),
                "seed": seed,
                **{name: value for name, value in given.items() if value not in (None, {})},
                **chosen,
                **where,
            }


def _is_file(reference: ModelReference) -> bool:
    """Whether an engine of its own prepares and executes it."""
    return file_engine(reference.name) is not None


#: Keys of a command that are among its settings only where they are given.
_OPTIONAL = ("stop_after_s", "throughput", "throughput_pattern", "reset", "files", "stdin")


def _existing(is_there: Callable[[Path], bool], noun: str) -> BeforeValidator:
    """Return the check of a path's text that such a thing is there."""

    def check(text: object, info: ValidationInfo) -> str:
        path = scenario_path(text, info)
        if not is_there(path):
            raise ValueError(f"there is no {noun} {path}")
        return str(path)

    return BeforeValidator(check)


def _existing_files(listed: object, info: ValidationInfo) -> tuple[str, ...]:
    if not isinstance(listed, list):
        raise ValueError(f'write the files as a list: ["{listed}"]')
    paths = [scenario_path(text, info) for text in listed]
    gone = next((path for path in paths if not path.is_file() and not path.is_dir()), None)
    if gone is not None:
        raise ValueError(f"there is no file or folder {gone}")
    return tuple(map(str, paths))


def _words(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        listed = ", ".join(f'"{word}"' for word in value.split())
        raise ValueError(f"write the command as a list, no shell reads it: [{listed}]")
    if not isinstance(value, list) or not value:
        raise ValueError('write the program and its arguments as a list: ["python3", "train.py"]')
    bad = next((word for word in value if not isinstance(word, str) or "\0" in word), None)
    if bad is not None:
        raise ValueError(f"{bad!r} is not text; put it in quotes")
    if not value[0].strip():
        raise ValueError("the program's name is empty")
    return tuple(value)


def _one_number(pattern: str) -> str:
    """Return a regular expression whose one group is the number."""
    try:
        groups = re.compile(pattern).groups
    except re.error as error:
        raise ValueError(f"{pattern!r} is not a regular expression: {error}") from None
    if groups != 1:
        raise ValueError(
            f"{pattern!r} has {groups} groups; put the number, and nothing else, in parentheses: "
            r"'([\d.]+) tokens/s'"
        )
    return pattern


def _variables(env: dict[str, str]) -> dict[str, str]:
    bad = next((n for n, v in env.items() if not n or "=" in n or "\0" in n + v), None)
    if bad is not None:
        raise ValueError(f"{bad!r} can't be the name or value of an environment variable")
    return env


class CommandWorkload(TomlTable):
    """Any program. No shell is involved.

    Args:
        kind: ``command``.
        command: program and arguments; no shell interprets them.
        cwd: its working folder. Default: where edgebench was called.
        env: environment variables, added to yours.
        stop_after: a program that never ends is stopped then, and counts as finished. Default: it
            ends by itself.
        throughput: its lines of output per second are recorded.
        throughput_pattern: regular expression with one group: a rate that it prints, in the first
            1000 characters of a line. The median is recorded.
        files: files and folders that are evicted from the page cache before each trial, besides
            those it names or was seen to use.
        reset: a command run before each trial, outside the limit.
        stdin: file that is its standard input, opened anew for each trial. Default: none.
    """

    kind: Annotated[str, one_of("workload kind", KINDS)] = key(..., '"command"')
    command: Annotated[tuple[str, ...], BeforeValidator(_words)] = key(
        ..., '["python3", "train.py"]'
    )
    cwd: Annotated[str, _existing(Path.is_dir, "folder")] | None = key(None, '"."')
    env: Annotated[dict[str, str], AfterValidator(_variables)] = key({}, '{OMP_NUM_THREADS = "2"}')
    stop_after_s: Seconds | None = key(None, '"20s"', alias="stop_after")
    throughput: bool = key(False, "true")
    throughput_pattern: Annotated[str, AfterValidator(_one_number)] | None = key(
        None, "'([\\d.]+) tokens/s'"
    )
    files: Annotated[tuple[str, ...], BeforeValidator(_existing_files)] = key((), '["model.gguf"]')
    reset: Annotated[tuple[str, ...], BeforeValidator(_words)] | None = key(
        None, '["rm", "-f", "out.bin"]'
    )
    stdin: Annotated[str, _existing(Path.is_file, "file")] | None = key(None, '"prompts.txt"')

    def networks(self) -> tuple[str, ...]:
        """None: which network a program runs is unknown."""
        return ()

    def settings(self, seed: int) -> Iterator[dict[str, Any]]:
        """Its one setting; the seed is the plan's alone."""
        dumped = self.model_dump(mode="json")
        always = ("kind", "command", "cwd", "env")
        yield {name: dumped[name] for name in always} | {
            name: dumped[name] for name in _OPTIONAL if dumped[name]
        }


class ConvolutionWorkload(TomlTable):
    """The same convolution again and again: what an image costs, by kernel and batch.

    Args:
        kind: ``convolution``.
        kernel: side of the kernel in pixels, at most ``image``.
        stack: convolutions in a row.
        batch: images per pass.
        backward: whether gradients are computed too.
        channels: input channels, and as many output channels.
        image: side of the input in pixels.
        warm: first passes, left out of all tables.
        passes: passes that are measured.
        threads: torch's threads. Default: torch's choice.
        gc: as of inference.
    """

    kind: Annotated[str, one_of("workload kind", KINDS)] = key(..., '"convolution"')
    kernel: Axis[Annotated[int, Field(ge=1, le=255)]] = key(..., "[1, 3, 5]")
    stack: Axis[Annotated[int, Field(ge=1, le=64)]] = key((1,), "[1, 2]")
    batch: BatchAxis = key((1,), "4")
    backward: Axis[bool] = key((False,), "[false, true]")
    channels: Axis[Annotated[int, Field(ge=1, le=65536)]] = key((32,), "32")
    image: Annotated[int, Field(ge=1, le=8192)] = key(256, "256")
    warm: Annotated[int, Field(ge=0)] = key(2, "2")
    passes: Count = key(10, "10")
    threads: Threads = key(None, "2")
    gc: CollectorAxis = key((FROZEN,), '"frozen"')

    @model_validator(mode="after")
    def _fits_the_image(self) -> Self:
        if max(self.kernel) > self.image:
            raise ValueError(
                f"a kernel of {max(self.kernel)} is larger than the image of {self.image}; "
                "make image larger or kernel smaller"
            )
        return self

    def networks(self) -> tuple[str, ...]:
        """None: it is no network."""
        return ()

    def settings(self, seed: int) -> Iterator[dict[str, Any]]:
        """Every combination of its axes, as plain data for the worker."""
        names = ("kernel", "stack", "batch", "backward", "channels", "gc")
        for chosen in combinations({name: getattr(self, name) for name in names}):
            yield {
                "kind": "convolution",
                **chosen,
                **self.model_dump(include={"image", "warm", "passes", "threads"}),
                "seed": seed,
            }


#: Kind → its table; a kind that none has is refused by the table of inference.
_TABLES: dict[str, type[TomlTable]] = {
    "inference": InferenceWorkload,
    "command": CommandWorkload,
    "convolution": ConvolutionWorkload,
    "training": TrainingWorkload,
}


def _by_kind(table: Any) -> str:
    kind = table.get("kind") if isinstance(table, dict) else getattr(table, "kind", None)
    return tag_of(_TABLES.get(str(kind), InferenceWorkload))


#: The table, read by the model of its kind.
Workload = Annotated[
    Annotated[InferenceWorkload, Tag(tag_of(InferenceWorkload))]
    | Annotated[CommandWorkload, Tag(tag_of(CommandWorkload))]
    | Annotated[ConvolutionWorkload, Tag(tag_of(ConvolutionWorkload))]
    | Annotated[TrainingWorkload, Tag(tag_of(TrainingWorkload))],
    Discriminator(_by_kind),
]
