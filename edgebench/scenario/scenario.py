"""A scenario: the TOML file that says what to run, read, checked and typed.

``docs/reference/scenarios.md`` explains every key. All faults of a file are reported at once.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, PrivateAttr, ValidationError, model_validator

from edgebench.errors import ScenarioError, UsageError
from edgebench.layers.disk import digest
from edgebench.measures.registry import with_own_trial
from edgebench.measures.strategies.sampled import STATISTICS
from edgebench.measures.strategy import StrategyOptions
from edgebench.safe_reading import read_text
from edgebench.scenario.accelerator_keys import asks_for_accelerator
from edgebench.scenario.command_keys import LATER_KEYS
from edgebench.scenario.faults import Fault, faults_of
from edgebench.scenario.flag_words import flag_words
from edgebench.scenario.keys import Count, Seconds, TomlTable
from edgebench.scenario.limit_axes import LimitAxes
from edgebench.scenario.measurement_keys import BackgroundKeys, MemoryKeys, SamplerKeys
from edgebench.scenario.network_keys import meaning_before_engines
from edgebench.scenario.plans import check_plan, with_plan
from edgebench.scenario.points import check_libraries
from edgebench.scenario.search import Search
from edgebench.scenario.shipped import find_scenario
from edgebench.scenario.workload_keys import InferenceWorkload, Workload
from edgebench.workloads.training.names import SCRATCH

if sys.version_info >= (3, 11):
    from typing import Self

    import tomllib
else:
    import tomli as tomllib
    from typing_extensions import Self

#: Version of the file's format.
SCHEMA = 1
#: The only one of its keys that a flag of `run` and `check` replaces before it is checked.
_PLAN_FLAG = {"limits.plan": "--plan"}


class Scenario(TomlTable):
    """What one file says; attributes carry their unit (``timeout_s``) where the key has none."""

    schema_version: int = Field(alias="schema", examples=["1"])
    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")] = Field(
        examples=['"my-board"']
    )
    description: str = Field(default="", examples=['"What this is about"'])
    seed: Annotated[int, Field(ge=0, lt=2**32)] = Field(default=1, examples=["1"])
    repeats: Annotated[Count, Field(le=10_000)] = Field(default=3, examples=["3"])
    timeout_s: Seconds = Field(default=600.0, alias="timeout", examples=['"10m"'])
    workload: Workload
    limits: LimitAxes = Field(default=LimitAxes())
    sampler: SamplerKeys = Field(default=SamplerKeys())
    memory: MemoryKeys = Field(default=MemoryKeys())
    around: BackgroundKeys = Field(default=BackgroundKeys())
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
        schedules = getattr(self.workload, "schedule", None) or ()
        check_plan(self.limits.plan, self.workload.kind, schedules)
        asked = getattr(self.workload, "accelerator", None)
        if self.limits.accelerator_memory and not asks_for_accelerator(asked):
            raise ValueError(
                "accelerator_memory limits an accelerator, and nothing here computes on one; write "
                'accelerator = "cuda" in [workload], or leave it out'
            )
        return self

    @model_validator(mode="after")
    def _every_draw_is_valid(self) -> Self:
        if self.search:
            list(self.search.workloads(self.workload, self.seed))
        return self

    @model_validator(mode="after")
    def _strategies_have_their_library(self) -> Self:
        check_libraries(self.memory.strategies, list(self.workload_settings()))
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
        # Without keys that came later it means what it meant before there were any.
        unsaid: dict[str, Any] = {"description": True}
        if not self.memory.strategies:
            unsaid["memory"] = True
        elif self.memory.dump_every_bytes == StrategyOptions.dump_every_bytes:
            unsaid["memory"] = {"dump_every_bytes"}
        unsaid |= {"sampler": {"sensors"}} if self.sampler.sensors else {}
        if self.around == BackgroundKeys():
            unsaid["around"] = True
        unsaid |= {"limits": self.limits.unsaid()} | ({} if self.search else {"search": True})
        if self.workload.kind == "command":
            unsaid["workload"] = {key for key in LATER_KEYS if not getattr(self.workload, key)}
        meaning = self.model_dump(mode="json", exclude=unsaid)
        meaning["workload"] = meaning_before_engines(meaning["workload"])
        if networks:
            meaning["networks"] = dict(networks)
        # A sweep that began when every trial's memory.stat was read must not be resumed otherwise.
        meaning["statistics_under_limits"] = "own trials"
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
    """The scenario of a file, or of a shipped one's name (``"quickstart"``); ``plan`` replaces its.

    Raises:
        ScenarioError: no such file, no TOML, or faults in it, all reported at once.
        UsageError: the file is valid, but not with that plan.
    """
    path = find_scenario(source)
    text = _read(path)
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        remedy = "text needs quotes, lists need [ ]; then type the same again"
        raise ScenarioError(f"not TOML: {error}", where=str(path), remedy=remedy) from error
    _refuse_newer(data, path)
    given, text = with_plan(data, text, plan) if plan else (data, text)
    try:
        scenario = _valid(given, path)
    except ValidationError as error:
        faults = faults_of(error, Scenario, given, text)
        if plan and _is_valid(data, path):
            words = f"--plan {plan}: {flag_words(faults, _PLAN_FLAG)}"
            raise UsageError(words, where=str(path), remedy=f"edgebench run {path}") from error
        raise _refused(faults, path) from error
    scenario._text = text
    return scenario


def _valid(tables: Mapping[str, Any], path: Path) -> Scenario:
    return Scenario.model_validate(tables, context={"folder": path.resolve().parent})


def _is_valid(tables: Mapping[str, Any], path: Path) -> bool:
    try:
        _valid(tables, path)
    except ValidationError:
        return False
    return True


def scenario_of(tables: Mapping[str, Any]) -> Scenario:
    """A scenario made in code; its text is its tables as TOML, so that ``run`` can repeat it.

    Raises:
        pydantic.ValidationError: faults, for :func:`edgebench.scenario.faults.faults_of` to word.
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


def _read(path: Path) -> str:
    try:
        return read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise ScenarioError(
            f"the scenario can't be read: {why}",
            where=str(path),
            remedy="name a readable TOML file",
        ) from error


def _refuse_newer(data: dict[str, Any], path: Path) -> None:
    given = data.get("schema")
    if given == SCHEMA or given is None or isinstance(given, bool) or not isinstance(given, int):
        return
    remedy = f"upgrade edgebench; or write schema = {SCHEMA}"
    what = f"schema {given}, but this edgebench reads schema {SCHEMA}"
    raise ScenarioError(f"{path.name} is of {what}", where=f"{path}, key schema", remedy=remedy)


def _refused(faults: Sequence[Fault], path: Path) -> ScenarioError:
    count = "1 fault" if len(faults) == 1 else f"{len(faults)} faults"
    lines = [f"{count} in {path}", *(f"  {fault}" for fault in faults)]
    remedy = f"correct the lines above, then type: edgebench run {path} --dry-run"
    return ScenarioError("\n".join(lines), where=str(path), remedy=remedy)
