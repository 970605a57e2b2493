"""The ``[workload]`` table of kind ``inference``: networks, their engines and how they are run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, model_validator

from edgebench.layers.names import (
    ADMISSION,
    COPY,
    GENERATE,
    SCHEDULES,
    STREAM,
    WEIGHT_PRECISIONS,
)
from edgebench.layers.references import KNOWN, ModelReference, parse_reference
from edgebench.scenario.faults import KeysError, Named, refuse_both
from edgebench.scenario.keys import (
    KINDS,
    AcceleratorAxis,
    Axis,
    BatchAxis,
    Checkpoint,
    CollectorAxis,
    Count,
    InputKey,
    NetworkName,
    Threads,
    TomlTable,
    accelerator_settings,
    asks_for_accelerator,
    combinations,
    key,
    network_name,
    one_of,
    process_settings,
)
from edgebench.text import did_you_mean
from edgebench.workloads.engines.engine import (
    TORCH,
    WHOLE,
    Engine,
    all_engines,
    engines_for,
    file_engine,
)
from edgebench.workloads.engines.onnxruntime import LEVELS
from edgebench.workloads.memory_settings import FROZEN

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
                guess = did_you_mean(name, known)
                hint = f"did you mean {guess!r}?" if guess else f"it runs {', '.join(known)}"
                raise ValueError(f"a checkpoint for {name!r}, which it does not run; {hint}")

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
                hint = "it runs a file as a whole: leave schedule out"
                hint = hint if known == WHOLE else f"it has {known}"
                raise ValueError(f"{titles} has no schedule {name!r}; {hint}")
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
        axes: dict[str, Sequence[Any]] = {
            "schedule": schedules_of(engine, self.schedule),
            "loader": loaders_of(engine, self.loader),
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


def loaders_of(engine: Engine, given: Sequence[str] | None) -> tuple[str, ...]:
    """How an engine has weights in memory: as given, as a plain program does, or its only way."""
    return tuple(given) if given and len(engine.loaders) > 1 else engine.loaders[:1]


def schedules_of(engine: Engine, given: Sequence[str] | None) -> tuple[str, ...]:
    """Return the schedules that an engine runs: those given that it has, or its default."""
    return tuple(one for one in given or () if one in engine.schedules) or engine.schedules[:1]
