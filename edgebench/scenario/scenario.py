"""A scenario: the TOML file that says what to run, read, checked and typed.

``docs/reference/scenarios.md`` explains every key. All faults of a file are reported at once.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import random
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import (
    BaseModel,
    Discriminator,
    Field,
    PrivateAttr,
    Tag,
    ValidationError,
    WrapValidator,
    model_validator,
)

from edgebench.errors import ScenarioError, UsageError
from edgebench.installation import find_scenario
from edgebench.layers.disk import digest
from edgebench.layers.names import STREAM
from edgebench.measures.strategies import StrategyOptions, strategy_of, with_own_trial
from edgebench.measures.strategies.recorded import STATISTICS
from edgebench.records import BACKGROUND, INTERVALS
from edgebench.safe_files import read_text
from edgebench.scenario.keys import (
    Axis,
    Count,
    KeysError,
    Named,
    Seconds,
    Size,
    TomlTable,
    asks_for_accelerator,
    faults_of,
    file_error_words,
    hint,
    key,
    message_of,
    one_of,
    tag_of,
)
from edgebench.scenario.limits import PLAN_KEYS, LimitAxes
from edgebench.scenario.points import has_library
from edgebench.scenario.workloads import InferenceWorkload, Workload
from edgebench.workloads.training.names import SCRATCH

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from typing_extensions import Self


SCALES = ("linear", "log")
WorkloadT = TypeVar("WorkloadT", bound=BaseModel)


class Range(TomlTable):
    """Any number between two; a whole one if both are whole.

    Args:
        low: smallest number; with a whole ``low`` and ``high``, whole numbers are drawn.
        high: largest number.
        scale: ``log``: each order of magnitude is equally likely.
    """

    low: int | float = key(..., "0.0001")
    high: int | float = key(..., "0.1")
    scale: Annotated[str, one_of("scale", SCALES)] = key("linear", '"log"')

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.low >= self.high:
            raise ValueError(f"low {self.low:g} is not below high {self.high:g}; exchange them")
        if self.scale == "log" and self.low <= 0:
            raise ValueError(f"low {self.low:g} has no logarithm; start above 0, or scale linear")
        return self

    def draw(self, chance: random.Random) -> int | float:
        """One number, each as likely as any other on its scale."""
        whole = isinstance(self.low, int) and isinstance(self.high, int)
        if whole and self.scale == "linear":
            return chance.randint(int(self.low), int(self.high))
        if self.scale == "linear":
            return chance.uniform(self.low, self.high)
        value = math.exp(chance.uniform(math.log(self.low), math.log(self.high)))
        return round(value) if whole else value


class Choices(TomlTable):
    """One of these values, each as likely as any other.

    Args:
        choices: values, each as likely as any other.
    """

    choices: tuple[Any, ...] = key(..., '["sgd", "adam"]')

    @model_validator(mode="before")
    @classmethod
    def _as_tuple(cls, table: Any) -> Any:
        chosen = table.get("choices") if isinstance(table, dict) else None
        if isinstance(chosen, list) and not chosen:
            raise ValueError("is an empty list; give at least one value")
        return {**table, "choices": tuple(chosen)} if isinstance(chosen, list) else table

    def draw(self, chance: random.Random) -> Any:
        """One of them."""
        return chance.choice(self.choices)


def _by_shape(table: Any) -> str:
    chosen = "choices" in table if isinstance(table, dict) else isinstance(table, Choices)
    return tag_of(Choices if chosen else Range)


Drawn = Annotated[
    Annotated[Range, Tag(tag_of(Range))] | Annotated[Choices, Tag(tag_of(Choices))],
    Discriminator(_by_shape),
]


class Search(TomlTable):
    """So many random draws of these settings; each draw's settings are points like any other.

    Args:
        draws: number of draws.
        axes: key of the workload → its range, or its choices.
    """

    draws: Annotated[Count, Field(le=10_000)] = key(..., "11")
    axes: Annotated[dict[str, Drawn], Field(min_length=1)] = key(
        ..., '{batch = {low = 16, high = 256, scale = "log"}}'
    )

    def workloads(self, workload: WorkloadT, seed: int) -> Iterator[WorkloadT]:
        """Yield the workload as each draw has it: the same ones from the same seed.

        Raises:
            ValueError: it has no such key, or a value that was drawn is none for its key.
        """
        known = [info.alias or name for name, info in type(workload).model_fields.items()]
        if unknown := next((name for name in self.axes if name not in known), None):
            words = hint(unknown, known, "it has")
            raise ValueError(f"the workload has no key {unknown!r} to draw; {words}")
        chance = random.Random(seed)
        given = workload.model_dump(mode="json", by_alias=True, exclude_unset=True)
        for _ in range(self.draws):
            drawn = {key: axis.draw(chance) for key, axis in self.axes.items()}
            try:
                yield type(workload).model_validate({**given, **drawn})
            except ValidationError as error:
                says = message_of(error.errors(include_url=False)[0])
                words = ", ".join(f"{key} = {value!r}" for key, value in drawn.items())
                raise ValueError(f"with {words}: {says}") from None


#: Version of the file's format.
SCHEMA = 1
#: No scenario is larger; a key of a hundred thousand parts takes minutes to parse.
_MOST_BYTES = 32 << 10
#: The only one of its keys that a flag of `run` replaces before it is checked.
_PLAN_FLAG = {"limits.plan": "--plan"}
#: Kinds of workload with rounds between which a walk can move the limit.
_WALKED_KINDS = ("inference", "training")

#: A dump takes half a second: with smaller steps a trial would do nothing else.
_LEAST_DUMP = 1 << 20


class BackgroundKeys(TomlTable):
    """A background load that takes and frees memory; how often the system's memory is read.

    Args:
        background: another process allocates and frees up to so much memory, at random. Default:
            ``"none"``.
        system_memory: how often a separate process reads the whole system's memory (total − free −
            buffers − cached). Default: not read.
    """

    background: Axis[
        Annotated[Size, WrapValidator(lambda value, size: 0 if value == "none" else size(value))]
    ] = key((0,), '["none", "512M"]')
    system_intervals_s: Axis[Annotated[Seconds, Field(ge=0.01, le=3600)]] | None = key(
        None, '["5s", "100ms"]', alias="system_memory"
    )

    def settings(self) -> Iterator[dict[str, Any]]:
        """Yield what each value of its axis adds to a point's settings.

        Nothing where none is asked.
        """
        reads = {INTERVALS: list(self.system_intervals_s)} if self.system_intervals_s else {}
        for size in self.background:
            quiet = size == 0 and len(self.background) == 1
            yield reads if quiet else {**reads, BACKGROUND: size}


class SamplerKeys(TomlTable):
    """How often the cgroup's accounting is read from outside.

    With an interval it is always read so often; without one every millisecond while it changes.

    Args:
        interval: between readings of usage, swap and CPU. Default: ``"1ms"``; up to ``"5ms"`` while
            they stay the same, if the kernel has exact peaks.
        stat_interval: between readings of ``memory.stat``; given, each limited point gets a
            separate trial that reads it. Default: ``"10ms"`` without a limit (``"50ms"`` while
            usage stays the same); not read under one.
    """

    interval_s: Annotated[Seconds, Field(ge=0.0001, le=60)] | None = key(
        None, '"1ms"', alias="interval"
    )
    stat_interval_s: Annotated[Seconds, Field(ge=0.0001, le=60)] | None = key(
        None, '"10ms"', alias="stat_interval"
    )

    @model_validator(mode="after")
    def _stat_is_slower(self) -> Self:
        least_s = 0.001 if self.interval_s is None else self.interval_s
        if self.stat_interval_s is not None and self.stat_interval_s < least_s:
            raise ValueError("stat_interval is shorter than interval; make it at least as long")
        return self


class MemoryKeys(TomlTable):
    """Which memory strategies run beside those that always do; each has its own trials.

    Args:
        strategies: ``process``, ``torch``, ``tensorflow``, ``operators``,
            ``cores``, ``statistics``, ``tcmalloc``, ``memray``, ``massif``. Default: ``[]``.
        timeout: of these trials alone: a profiler may take many times as long.
        dump_every: ``tcmalloc`` dumps the heap each time so much, at least ``1M``, was allocated or
            freed. Default: ``"32M"``.
    """

    strategies: Axis[Annotated[str, one_of("strategy", lambda: tuple(with_own_trial()))]] = key(
        (), '["process", "torch"]'
    )
    timeout_s: Seconds | None = key(None, '"10m"', alias="timeout")
    dump_every_bytes: Annotated[Size, Field(ge=_LEAST_DUMP)] = key(
        StrategyOptions.dump_every_bytes, '"8M"', alias="dump_every"
    )


class Scenario(TomlTable):
    """What one file says; attributes carry their unit (``timeout_s``) where the key has none.

    Args:
        schema: version of this format.
        name: ``a-z``, ``0-9`` and ``-``, at most 64; part of the results folder's name.
        description: a text.
        seed: 0 to 2³²−1: of random weights, inputs and the order of trials.
        repeats: trials of each point.
        timeout: of one trial; one that takes longer is stopped, which is a result. Default:
            ``"10m"``.
    """

    schema_version: int = key(..., "1", alias="schema")
    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")] = key(..., '"my-board"')
    description: str = key("", '"What this is about"')
    seed: Annotated[int, Field(ge=0, lt=2**32)] = key(1, "1")
    repeats: Annotated[Count, Field(le=10_000)] = key(3, "3")
    timeout_s: Seconds = key(600.0, '"10m"', alias="timeout")
    workload: Workload
    limits: LimitAxes = key(LimitAxes())
    sampler: SamplerKeys = key(SamplerKeys())
    memory: MemoryKeys = key(MemoryKeys())
    around: BackgroundKeys = key(BackgroundKeys())
    search: Search | None = None
    _text: str = PrivateAttr("")

    @model_validator(mode="after")
    def _can_be_run_so(self) -> Self:
        inside = [name for name in self.memory.strategies if with_own_trial()[name].inside_worker]
        if inside and self.workload.kind == "command":
            raise ValueError(
                f"strategy {inside[0]!r} looks from inside edgebench's own worker, and a command "
                "has none; leave it out of [memory] strategies"
            )
        if self.limits.walks:
            kind, words = self.workload.kind, ""
            if kind not in _WALKED_KINDS:
                words = f'a workload of kind "{kind}" has no rounds to walk'
            elif STREAM in (getattr(self.workload, "schedule", None) or ()):
                words = f'in a walk the limit moves, and the schedule "{STREAM}" goes by one'
            if words:
                raise KeysError(f"{words}; leave ", Named("plan"), " out")
        asked = getattr(self.workload, "accelerator", None)
        if self.limits.accelerator_memory and not asks_for_accelerator(asked):
            raise ValueError(
                "accelerator_memory limits an accelerator, and nothing here computes on one; write "
                'accelerator = "cuda" in [workload], or leave it out'
            )
        # Every draw is checked here.
        workloads = list(self.workload_settings())
        for name in self.memory.strategies:
            strategy = strategy_of(name)
            if strategy and not any(has_library(name, settings) for settings in workloads):
                raise ValueError(
                    f"strategy {name!r} reads what {strategy.library} keeps, and nothing here runs "
                    f"in {strategy.library}; leave it out of [memory] strategies"
                )
        return self

    @property
    def strategies(self) -> tuple[str, ...]:
        """Those that have trials of their own; a stat_interval adds ``statistics``."""
        asked = [STATISTICS] if self.sampler.stat_interval_s is not None else []
        return tuple(dict.fromkeys((*self.memory.strategies, *asked)))

    def workload_settings(self) -> Iterator[dict[str, Any]]:
        """Every combination of the workload's axes, drawn or given, and of the background's.

        With a search each draw has its number as ``draw``.
        """
        workloads = self.search.workloads(self.workload, self.seed) if self.search else ()
        drawn = [({"draw": number}, workload) for number, workload in enumerate(workloads)]
        for number, workload in drawn or [({}, self.workload)]:
            for settings in workload.settings(self.seed):
                for surroundings in self.around.settings():
                    yield {**settings, **number, **surroundings}

    def network_files(self) -> dict[str, str]:
        """Network → its file, of those that are files."""
        return self.workload.files() if isinstance(self.workload, InferenceWorkload) else {}

    @property
    def text(self) -> str:
        """The file as it was given."""
        return self._text

    def fingerprint(self, networks: Mapping[str, str] | None = None) -> str:
        """Hash of what the scenario means: comments, layout and description don't change it.

        What checkpoints and networks' files hold does. ``networks``: what those that are built by
        code are, as a hash.

        Raises:
            WorkloadError: one of them can't be read.
        """
        unused = {"description", *(() if self.memory.strategies else ("memory",))}
        meaning = self.model_dump(mode="json", exclude=unused, exclude_defaults=True)
        if self.limits.board:
            # What is given is not the board's, even where it is the same as the default.
            meaning["given"] = sorted(self.limits.model_fields_set)
        if networks:
            meaning["networks"] = dict(networks)
        # What parameters come from: of inference by network, of training an axis.
        files = {
            *getattr(self.workload, "checkpoint", {}).values(),
            *getattr(self.workload, "start", ()),
            *self.network_files().values(),
        }
        if checkpoints := files - {SCRATCH}:
            meaning["contents"] = {file: digest(Path(file)) for file in checkpoints}
        return hashlib.sha256(json.dumps(meaning, sort_keys=True).encode()).hexdigest()


def load_scenario(source: str | Path, plan: str | None = None) -> Scenario:
    """Return the scenario of a file or a shipped one's name; ``plan`` replaces its own.

    Raises:
        ScenarioError: no such file, no TOML, or faults in it, all reported at once.
        UsageError: the file is valid, but not with that plan.
    """
    path = find_scenario(source)
    try:
        text = read_text(path, most=_MOST_BYTES)
        data = tomllib.loads(text)
    except (OSError, UnicodeDecodeError) as error:
        what = getattr(error, "strerror", None) or "it is not UTF-8 text"
        what, remedy = f"the scenario can't be read: {what}", "name a readable TOML file"
        raise ScenarioError(what, where=str(path), remedy=remedy) from error
    except (ValueError, RecursionError) as error:
        remedy = "text needs quotes, lists need [ ]; then type the same again"
        raise ScenarioError(f"not TOML: {error}", where=str(path), remedy=remedy) from error
    schema = data.get("schema")
    # What is no number is refused with the other faults.
    if type(schema) is int and schema != SCHEMA:
        what = f"{path.name} is of schema {schema}, but this edgebench reads schema {SCHEMA}"
        remedy = f"upgrade edgebench; or write schema = {SCHEMA}"
        raise ScenarioError(what, where=f"{path}, key schema", remedy=remedy)
    given, context = data, {"folder": path.resolve().parent}
    # So is what is no table.
    if plan and isinstance(limits := data.get("limits", {}), Mapping):
        kept = {name: value for name, value in limits.items() if PLAN_KEYS.get(name, plan) == plan}
        given = {**data, "limits": {**kept, "plan": plan}}
        text = f"# Run with --plan {plan}, not with the plan below.\n{text}"
    try:
        scenario = Scenario.model_validate(given, context=context)
    except ValidationError as error:
        faults = faults_of(error, Scenario, given, text)
        if plan:
            with contextlib.suppress(ValidationError):
                Scenario.model_validate(data, context=context)
                words = f"--plan {plan}: " + "; ".join(one.typed(_PLAN_FLAG) for one in faults)
                raise UsageError(words, where=str(path), remedy=f"edgebench run {path}") from error
        remedy = f"correct the lines above, then type: edgebench run {path} --dry-run"
        what = file_error_words(faults, path)
        raise ScenarioError(what, where=str(path), remedy=remedy) from error
    scenario._text = text
    return scenario


def scenario_of(tables: Mapping[str, Any]) -> Scenario:
    """Return a scenario made in code; its text is TOML, so that ``run`` can repeat it.

    Raises:
        pydantic.ValidationError: faults, for :func:`edgebench.scenario.keys.faults_of` to word.
    """
    scenario = Scenario.model_validate(tables)
    scenario._text = _toml(tables)
    return scenario


def _toml(tables: Mapping[str, Any], header: str = "") -> str:
    """Texts, numbers and lists of them are written in TOML as in JSON."""
    keys = {k: v for k, v in tables.items() if not isinstance(v, Mapping)}
    inner = {k: v for k, v in tables.items() if isinstance(v, Mapping)}
    lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in keys.items()]
    return header + "".join(lines) + "".join(_toml(v, f"\n[{k}]\n") for k, v in inner.items())
