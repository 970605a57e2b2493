"""What ``advise`` is asked: a network, a program or a scenario, and the limit; and its scenario."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from edgebench.boards.storage import AS_IS
from edgebench.errors import UsageError
from edgebench.run.search.requests import MinimumRequest
from edgebench.scenario.flag_scenario import (
    inference_workload,
    requested_limits,
    scenario_from_flags,
)
from edgebench.scenario.limits import GRID
from edgebench.scenario.points import Point, points
from edgebench.scenario.scenario import Scenario, load_scenario
from edgebench.units import parse_share, parse_size

#: So many rounds show whether they repeat.
_ROUNDS = 4
#: With further executions in each, the one after the start tells enough.
_WARM_ROUNDS = 2
_LONGEST_NAME = 64


@dataclass(frozen=True)
class AdviceRequest:
    """One of ``network``, ``command`` and ``scenario`` (a file), and what it runs under.

    ``memory``: the limit, a size; None: the scenario's. ``lossy``: remedies that change results
    are tried, too. ``budget``: how long the search may take; the winner is measured in any case.
    ``warm``: executions of a network after the first, each time that it is loaded. The others as in
    :class:`~edgebench.run.search.requests.MinimumRequest` and
    :class:`~edgebench.run.search.requests.ProgramRequest`.
    """

    memory: str | None
    network: str | None = None
    command: tuple[str, ...] = ()
    scenario: str | None = None
    budget: str = "5m"
    lossy: bool = False
    swap: str = "none"
    storage: str = AS_IS
    board: str | None = None
    timeout: str = "2m"
    schedule: str | None = None
    loader: str | None = None
    batch: int = 1
    image: int | None = None
    input: str | dict[str, str] | None = None
    prompt: int | None = None
    new_tokens: int | None = None
    warm: int = 0
    files: tuple[str, ...] = ()
    reset: tuple[str, ...] = ()
    stdin: str | None = None


def advice_scenario(request: AdviceRequest) -> Scenario:
    """One workload, without a limit and under one.

    Raises:
        UsageError: a value is not possible, or there is no limit, or there are several.
        ScenarioError: the scenario can't be read.
    """
    if request.memory is not None:
        _check_size(request.memory)
    if request.scenario is not None:
        return _of_file(request.scenario, request.memory)
    if request.memory is None:
        raise UsageError("which limit? none is given", remedy="--memory 250M, or --board NAME")
    limits = requested_limits(request, ["max", request.memory])
    workload = _program(request) if request.command else _network(request)
    return scenario_from_flags("advise", workload, limits, repeats=1, timeout=request.timeout)


def both_points(scenario: Scenario) -> tuple[Point, Point]:
    """Return the point without a limit, and the one with it.

    Raises:
        UsageError: the scenario has more of them, or no limit.
    """
    made = points(scenario)
    free, held = ([p for p in made if p.unlimited is unlimited] for unlimited in (True, False))
    if len(free) == len(held) == 1:
        _check_size(held[0].limits.label)
        return free[0], held[0]
    what = f"{len(held)} limits" if len(free) == 1 else f"{len(free)} workloads"
    remedy = "--memory 250M" if len(free) == 1 else "leave one value of each key in the scenario"
    raise UsageError(f"advice is for one workload at one limit; it has {what}", remedy=remedy)


def _check_size(label: str) -> None:
    if parse_share(label) is not None or parse_size(label) is None:
        raise UsageError(f"{label!r} is not a size", remedy="write a size, as --memory 250M")


def _of_file(file: str, memory: str | None) -> Scenario:
    """Return the file's scenario, with another limit if one is given, as fresh trials."""
    scenario = load_scenario(file)
    if scenario.limits.plan != GRID:
        scenario = load_scenario(file, GRID)
    name = f"advise-{scenario.name}"[:_LONGEST_NAME].strip("-")
    update: dict[str, object] = {"name": name}
    if memory is not None:
        update["limits"] = scenario.limits.model_copy(update={"memory": ("max", memory)})
    changed = scenario.model_copy(update=update)
    said = f" --memory {memory}" if memory is not None else ""
    changed._text = f"# As edgebench advise{said} ran it, with remedies.\n{scenario.text}"
    return changed


def _network(request: AdviceRequest) -> dict[str, object]:
    """Each round loads all of it, and executes it once, and ``warm`` times more."""
    known = MinimumRequest(
        str(request.network), schedule=request.schedule, new_tokens=request.new_tokens
    )
    rounds = _WARM_ROUNDS if request.warm else _ROUNDS
    workload = inference_workload(request, rounds=rounds, warm=request.warm)
    workload["schedule"] = request.schedule or (None if request.new_tokens else known.used_schedule)
    return workload


def _program(request: AdviceRequest) -> dict[str, object]:
    return {
        "kind": "command",
        "command": list(request.command),
        "cwd": str(Path.cwd()),
        "files": list(request.files) or None,
        "reset": list(request.reset) or None,
        "stdin": request.stdin,
    }
