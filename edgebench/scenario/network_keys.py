"""Keys of a scenario that choose networks and engines, and set the options of engines."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from edgebench.layers.names import GENERATE, PAGE_ADVICE, WEIGHT_PRECISIONS
from edgebench.layers.references import KNOWN, ModelReference, parse_reference
from edgebench.scenario.accelerator_keys import AcceleratorAxis
from edgebench.scenario.keys import Axis, InputKey, NetworkName, TomlTable, network_name, one_of
from edgebench.scenario.process_keys import InteropThreads, process_settings
from edgebench.workloads.engines.engine import Engine
from edgebench.workloads.engines.onnxruntime.runtime import LEVELS
from edgebench.workloads.engines.registry import TORCH, all_engines, engines_for, file_engine

#: Tokens of a prompt if nobody says how many.
PROMPT = 128
KINDS = ("inference", "command", "convolution", "training")


class NetworkKeys(TomlTable):
    """Networks, their engines and options; None leaves an option as the engine has it."""

    kind: Annotated[str, one_of("workload kind", KINDS)] = Field(examples=['"inference"'])
    network: Axis[NetworkName] | None = Field(default=None, examples=['["alexnet", "resnet18"]'])
    pipeline: Axis[NetworkName] | None = Field(default=None, examples=['["alexnet", "resnet18"]'])
    input: InputKey = Field(default=None, examples=['{input_ids = "int64 1x128 <32000"}'])
    prompt: Axis[Annotated[int, Field(ge=1, le=1 << 20)]] | None = Field(
        default=None, examples=["[32, 128]"]
    )
    new_tokens: Axis[Annotated[int, Field(ge=2, le=1 << 20)]] | None = Field(
        default=None, examples=["16"]
    )
    engine: Axis[Annotated[str, one_of("engine", lambda: tuple(all_engines()))]] | None = Field(
        default=None, examples=['"torch"']
    )
    arena: Axis[bool] | None = Field(default=None, examples=["[true, false]"])
    memory_pattern: Axis[bool] | None = Field(default=None, examples=["[true, false]"])
    optimization: Axis[Annotated[str, one_of("level of optimization", tuple(LEVELS))]] | None = (
        Field(default=None, examples=['"all"'])
    )
    prepacking: Axis[bool] | None = Field(default=None, examples=["[true, false]"])
    xnnpack: Axis[bool] | None = Field(default=None, examples=["[true, false]"])
    onednn: Axis[bool] | None = Field(default=None, examples=["[true, false]"])
    xla: Axis[bool] | None = Field(default=None, examples=["[true, false]"])
    malloc_trim: bool | None = Field(default=None, examples=["true"])
    accelerator: AcceleratorAxis | None = Field(default=None, examples=['["none", "cuda"]'])
    interop_threads: InteropThreads = Field(default=None, examples=["1"])
    huge_pages: bool | None = Field(default=None, examples=["false"])
    precision: Annotated[str, one_of("precision", WEIGHT_PRECISIONS)] | None = Field(
        default=None, examples=['"bfloat16"']
    )
    page_advice: Annotated[str, one_of("advice", PAGE_ADVICE)] | None = Field(
        default=None, examples=['"cold"']
    )

    def networks(self) -> tuple[str, ...]:
        """Every network that it runs, as results name it."""
        return tuple(map(network_name, self.pipeline or self.network or ()))

    def files(self) -> dict[str, str]:
        """Network → its file, of those that are files."""
        return {one.name: one.path for one in self._references() if one.path and _is_file(one)}

    def own_networks(self, group: Sequence[str]) -> dict[str, Any]:
        """What a worker has to know of networks that are built by code, and of their input."""
        own = [one for one in self._references() if one.name in group]
        built = {one.name: one.to_json() for one in own if one.kind != KNOWN and not _is_file(one)}
        found: dict[str, Any] = {"references": built} if built else {}
        return found | ({"input": self.input} if self.input is not None else {})

    def generation_settings(self) -> Iterator[dict[str, Any]]:
        """Every combination of prompt and new tokens; one without either where none is asked."""
        if self.new_tokens is None:
            yield {}
            return
        for prompt, new_tokens in itertools.product(self.prompt or (PROMPT,), self.new_tokens):
            yield {"schedule": GENERATE, "prompt": prompt, "new_tokens": new_tokens}

    def check_generation(self, schedule: Sequence[str] | None) -> None:
        """Check that the keys of text generation fit the others.

        Raises:
            ValueError: one is missing, or another means nothing then.
        """
        if self.new_tokens is None:
            if self.prompt is not None:
                raise ValueError("prompt without new_tokens; say how many: new_tokens = 16")
            return
        if any(name != TORCH for network in self.networks() for name in engines_for(network)):
            raise ValueError("text is generated in PyTorch alone, not from files")
        for name, value in (("schedule", schedule), ("input", self.input)):
            if value is not None:
                raise ValueError(f"{name} and new_tokens can't both be given; leave one out")

    def check_names(self) -> None:
        """Check that no two networks have the same name in results.

        Raises:
            ValueError: two have.
        """
        named = {one.name: one for one in self._references()}
        twice = [one.name for one in self._references() if named[one.name] != one]
        if twice:
            raise ValueError(f"two networks are called {twice[0]}; rename a file or a folder")

    def _references(self) -> list[ModelReference]:
        return [parse_reference(text, Path()) for text in self.pipeline or self.network or ()]

    def engines_of(self, network: str) -> list[Engine]:
        """The engines that execute a network, of those that the table names."""
        names = engines_for(network)
        return [all_engines()[name] for name in names if self.engine is None or name in self.engine]

    def engine_settings(self, engine: Engine) -> Iterator[dict[str, Any]]:
        """Every combination of an engine's options; torch's settings have no word of it."""
        given = {axis: values for axis in engine.axes if (values := getattr(self, axis))}
        named = {} if engine.name == TORCH else {"engine": engine.name}
        for chosen in itertools.product(*given.values()):
            yield {**named, **dict(zip(given, chosen, strict=True))}

    def torch_settings(self, engine: Engine) -> dict[str, Any]:
        """What PyTorch alone is told; later keys, without which settings stay as they were."""
        if engine.name != TORCH:
            return {}
        own = {"precision": self.precision, "page_advice": self.page_advice}
        return process_settings(self) | {key: value for key, value in own.items() if value}

    def check_engines(self) -> list[Engine]:
        """The engines of all the networks; those of a pipeline run in one process.

        Raises:
            ValueError: a network has none, or no engine has an option that is given.
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
        return list(found.values())


def _is_file(reference: ModelReference) -> bool:
    """Whether an engine of its own prepares and executes it."""
    return file_engine(reference.name) is not None


def schedules_of(engine: Engine, given: Sequence[str] | None) -> tuple[str, ...]:
    """The schedules that an engine runs: those given, its default, or the only one it can."""
    return tuple(given) if given and engine.by_layer else engine.schedules[:1]


def loaders_of(engine: Engine, given: Sequence[str]) -> tuple[str, ...]:
    """The loaders that an engine runs: those given, or the only one it has."""
    return tuple(given) if len(engine.loaders) > 1 else engine.loaders


def check_schedules(engines: Iterable[Engine], given: Sequence[str] | None) -> None:
    """Check that each engine has the schedules; one that can't cut runs any as a whole.

    Raises:
        ValueError: it has another one of them not.
    """
    for engine in engines:
        lacking = [name for name in given or () if name not in engine.schedules]
        if engine.by_layer and lacking:
            known = ", ".join(engine.schedules)
            raise ValueError(f"{engine.title} has no schedule {lacking[0]!r}; it has {known}")


def meaning_before_engines(workload: dict[str, Any]) -> dict[str, Any]:
    """A workload's meaning for its fingerprint: without later keys it is as it always was."""
    later = {*NetworkKeys.model_fields, "loss"}
    said = {k: v for k, v in workload.items() if v is not None or k not in later}
    if said.get("kind") == "inference":
        threads = said["threads"]
        said["threads"] = threads[0] if threads and len(threads) == 1 else threads
        said["schedule"] = said["schedule"] or ["linear"]
    return said
