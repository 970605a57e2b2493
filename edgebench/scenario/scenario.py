"""A scenario: the TOML file that says what to run, read, checked and typed.

``docs/scenarios.md`` is the guide to every key. All faults of a file are told at once.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, PrivateAttr, ValidationError, model_validator

from edgebench.digest import digest
from edgebench.errors import ScenarioError
from edgebench.measures.strategy import Asked
from edgebench.scenario.faults import Fault, faults_of
from edgebench.scenario.keys import Axis, Count, Seconds, Size, Table, one_of
from edgebench.scenario.limit_axes import LimitAxes
from edgebench.scenario.search import Search
from edgebench.suggest import did_you_mean
from edgebench.surroundings.keys import Surroundings
from edgebench.training.names import SCRATCH
from edgebench.workloads.settings import Workload

if sys.version_info >= (3, 11):
    from typing import Self

    import tomllib
else:
    import tomli as tomllib
    from typing_extensions import Self

#: Version of the file's format.
SCHEMA = 1
#: A dump takes half a second: more of them, and a trial would do nothing else.
_LEAST_DUMP = 1 << 20
#: Scenarios that come with edgebench; looked for below the working folder first.
SHIPPED = Path(__file__).resolve().parents[2] / "scenarios"


def _own_strategies() -> Sequence[str]:
    from edgebench.measures.registry import own_names

    return own_names()


class SamplerKeys(Table):
    """How often the cgroup's accounting is read from outside."""

    interval_s: Annotated[Seconds, Field(ge=0.0001, le=60)] = Field(
        default=0.001, alias="interval", examples=['"1ms"']
    )
    stat_interval_s: Annotated[Seconds, Field(ge=0.0001, le=60)] = Field(
        default=0.01, alias="stat_interval", examples=['"10ms"']
    )

    @model_validator(mode="after")
    def _stat_is_slower(self) -> Self:
        if self.stat_interval_s < self.interval_s:
            raise ValueError("stat_interval is shorter than interval; make it at least as long")
        return self


class MemoryKeys(Table):
    """Which strategies tell memory beside those that always do; each has trials of its own."""

    strategies: Axis[Annotated[str, one_of("strategy", _own_strategies)]] = Field(
        default=(), examples=['["process", "torch"]']
    )
    timeout_s: Seconds | None = Field(default=None, alias="timeout", examples=['"10m"'])
    dump_every_bytes: Annotated[Size, Field(ge=_LEAST_DUMP)] = Field(
        default=Asked.dump_every_bytes, alias="dump_every", examples=['"8M"']
    )


class Scenario(Table):
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
    around: Surroundings = Field(default=Surroundings())
    search: Search | None = None
    _text: str = PrivateAttr("")

    @model_validator(mode="after")
    def _seen_from_outside(self) -> Self:
        from edgebench.measures.registry import own

        inside = [name for name in self.memory.strategies if own()[name].inside_worker]
        if inside and self.workload.kind == "command":
            raise ValueError(
                f"strategy {inside[0]!r} looks from inside edgebench's own worker, and a command "
                "has none; leave it out of [memory] strategies"
            )
        return self

    @model_validator(mode="after")
    def _every_draw_is_valid(self) -> Self:
        if self.search:
            list(self.search.workloads(self.workload, self.seed))
        return self

    def workload_settings(self) -> Iterator[dict[str, Any]]:
        """Every combination of the workload's axes, drawn or given, and of what goes on around.

        With a search each draw has its number as ``draw``.
        """
        workloads = self.search.workloads(self.workload, self.seed) if self.search else ()
        drawn = [({"draw": number}, workload) for number, workload in enumerate(workloads)]
        for number, workload in drawn or [({}, self.workload)]:
            for settings in workload.settings(self.seed):
                for surroundings in self.around.settings():
                    yield {**settings, **number, **surroundings}

    @property
    def text(self) -> str:
        """The file as it was given."""
        return self._text

    def fingerprint(self) -> str:
        """Hash of what the scenario means: comments, layout and description don't change it.

        What checkpoints hold does.

        Raises:
            WorkloadError: a checkpoint can't be read.
        """
        # Without keys that came later it means what it meant before there were any.
        unsaid: dict[str, Any] = {"description": True}
        if not self.memory.strategies:
            unsaid["memory"] = True
        elif self.memory.dump_every_bytes == Asked.dump_every_bytes:
            unsaid["memory"] = {"dump_every_bytes"}
        if self.around == Surroundings():
            unsaid["around"] = True
        if self.search is None:
            unsaid["search"] = True
        if self.limits.plan == "grid":
            unsaid["limits"] = {"plan", "target_error"}
        meaning = self.model_dump(mode="json", exclude=unsaid)
        if checkpoints := _checkpoints(self.workload):
            meaning["contents"] = {file: digest(Path(file)) for file in checkpoints}
        return hashlib.sha256(json.dumps(meaning, sort_keys=True).encode()).hexdigest()


def _checkpoints(workload: object) -> list[str]:
    """The files that parameters come from, of inference or of training."""
    named = {*getattr(workload, "checkpoint", {}).values(), *getattr(workload, "start", ())}
    return sorted(named - {SCRATCH})


def load_scenario(source: str | Path) -> Scenario:
    """The scenario of a file, or of a shipped one's name (``"quickstart"``).

    Raises:
        ScenarioError: no such file, no TOML, or faults in it, all told at once.
    """
    path = find_scenario(source)
    text = _read(path)
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        remedy = "text needs quotes, lists need [ ]; then type: edgebench check"
        raise ScenarioError(f"not TOML: {error}", where=str(path), remedy=remedy) from error
    _refuse_newer(data, path)
    try:
        scenario = Scenario.model_validate(data, context={"folder": path.resolve().parent})
    except ValidationError as error:
        raise _refused(faults_of(error, Scenario, data, text), path) from error
    scenario._text = text
    return scenario


def scenario_of(tables: Mapping[str, Any]) -> Scenario:
    """A scenario made in code; its text is its tables as TOML, so that ``run`` can repeat it.

    Raises:
        pydantic.ValidationError: faults, for :func:`edgebench.scenario.faults.faults_of` to word.
    """
    scenario = Scenario.model_validate(tables)
    scenario._text = _toml(tables)
    return scenario


def find_scenario(source: str | Path) -> Path:
    """The file of that path or of that shipped name.

    Raises:
        ScenarioError: there is none; names the nearest that is.
    """
    path = Path(source)
    if path.is_file():
        return path
    shipped = [folder / f"{source}.toml" for folder in (Path("scenarios"), SHIPPED)]
    if isinstance(source, str) and path.name == source:
        found = next((file for file in shipped if file.is_file()), None)
        if found:
            return found
    if path.is_dir():
        raise ScenarioError(f"{path} is a folder", remedy="name a .toml file in it")
    raise ScenarioError(f"no scenario {str(source)!r}", remedy=_nearest(path))


def _toml(tables: Mapping[str, Any], header: str = "") -> str:
    """Texts, numbers and lists of them are written in TOML as in JSON."""
    keys = {k: v for k, v in tables.items() if not isinstance(v, Mapping)}
    inner = {k: v for k, v in tables.items() if isinstance(v, Mapping)}
    lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in keys.items()]
    return header + "".join(lines) + "".join(_toml(v, f"\n[{k}]\n") for k, v in inner.items())


def _nearest(path: Path) -> str:
    beside = [str(file) for file in path.parent.glob("*.toml")] if path.parent.is_dir() else []
    shipped = sorted(
        {f.stem for folder in (Path("scenarios"), SHIPPED) for f in folder.glob("*.toml")}
    )
    guess = did_you_mean(str(path), [*beside, *shipped])
    if guess:
        return f"did you mean {guess!r}?"
    return f"name a TOML file, or a shipped scenario: {', '.join(shipped) or 'there is none'}"


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
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
    remedy = f"upgrade edgebench; or write schema = {SCHEMA} and type: edgebench check {path}"
    what = f"schema {given}, but this edgebench reads schema {SCHEMA}"
    raise ScenarioError(f"{path.name} is of {what}", where=f"{path}, key schema", remedy=remedy)


def _refused(faults: Sequence[Fault], path: Path) -> ScenarioError:
    count = "1 fault" if len(faults) == 1 else f"{len(faults)} faults"
    lines = [f"{count} in {path}", *(f"  {fault}" for fault in faults)]
    remedy = f"mend what stands above, then type: edgebench check {path}"
    return ScenarioError("\n".join(lines), where=str(path), remedy=remedy)
