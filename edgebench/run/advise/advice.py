"""Advice: remedies tried for real under a limit, kept as a sweep, and ranked by what they buy."""

from __future__ import annotations

import json
import math
import os
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from edgebench.errors import UsageError, WorkloadError
from edgebench.installation import need
from edgebench.processes import given_environment
from edgebench.remedies import RemedyTarget
from edgebench.remedies.known import all_remedies
from edgebench.results.derived import TriedRemedy, keep_advice
from edgebench.results.limit_to_give import Unmeasured, unmeasured
from edgebench.results.sweep_reader import read_sweep
from edgebench.run.advise.planner import (
    CONFIRMING,
    MEASURED,
    PLAIN,
    AdvicePlanner,
    Candidate,
    paired_ratio,
)
from edgebench.run.search.minimum import check_unlimited
from edgebench.run.search.search import (
    most_libraries,
    needs_of,
    pace_of_program,
    pace_of_rounds,
)
from edgebench.run.sweep.sweep import SweepOptions, planned_trials, run_sweep
from edgebench.run.trial.command import Progress, check_command
from edgebench.scenario.limits import GRID
from edgebench.scenario.new_scenario import tried_scenario
from edgebench.scenario.points import Point, libraries, points
from edgebench.scenario.scenario import Scenario, load_scenario
from edgebench.text import parse_share, parse_size

#: Confidence of the interval of each remedy.
_TRIED = 0.9


@dataclass(frozen=True)
class UntriedRemedy:
    """A remedy that is not tried, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class BestRemedy:
    """The winner, measured anew.

    Args:
        name: its name.
        title: what it does.
        typed: what to type, or write in a program; a line each.
        finished: trials that finished under the limit, of ``trials``.
        ratio: its time as a part of the plain one; None: plain does not finish.
        low, high: the ratio's 95 % interval; None: of a single pair.
        pairs: how many the ratio comes from.
        changes: what it may change in results.
        costs: what it costs where memory is no limit, in words.
        confirmed: whether it is advised: it helps in these fresh trials, too.
    """

    name: str
    title: str
    typed: tuple[str, ...]
    finished: int
    trials: int
    ratio: float | None
    low: float | None
    high: float | None
    pairs: int
    changes: str
    costs: str
    confirmed: bool


@dataclass(frozen=True)
class Advice:
    """What helps under a limit; ``folder`` is the sweep that has the trials.

    Args:
        plain_end: how the plain workload ends at the limit: ``ok`` or another outcome.
        plain_s, unlimited_s: the median of its round there, and without the limit; None: it never
            finishes.
        pressed: whether the limit costs anything; False: nothing was tried.
        best: the winner; None: nothing was faster.
        tried: each remedy that was tried, the fastest first.
        out_of_time: names of those for which no time was left.
        total_s: what the search took, its preparation included.
        finished: False: it was interrupted.
        unmeasured: what its plain trials without a limit leave open.
        needed_bytes: the most that one of these needed; None: not known.
        library_bytes: what they map of libraries, which no limit counts; None: not known.
    """

    name: str
    kind: str
    folder: Path
    limit_bytes: int
    plain_end: str
    plain_s: float | None
    unlimited_s: float | None
    pressed: bool
    best: BestRemedy | None
    tried: tuple[TriedRemedy, ...]
    untried: tuple[UntriedRemedy, ...]
    out_of_time: tuple[str, ...]
    trials: int
    total_s: float
    finished: bool = True
    unmeasured: Unmeasured = field(default_factory=Unmeasured)
    needed_bytes: float | None = None
    library_bytes: int | None = None

    @property
    def slowdown(self) -> float | None:
        """The plain workload's, at the limit."""
        return self.plain_s / self.unlimited_s if self.plain_s and self.unlimited_s else None

    def to_json(self) -> dict[str, Any]:
        """Return plain data; the folder is where it is kept."""
        slowdown, folder = self.slowdown, str(self.folder)
        facts: dict[str, Any] = to_builtins(
            {**asdict(self), "slowdown": slowdown, "folder": folder}
        )
        return facts


def find_advice(
    scenario: Scenario,
    options: SweepOptions,
    progress: Progress,
    *,
    budget_s: float,
    lossy: bool = False,
) -> Advice:
    """Try remedies under the scenario's limit, and measure the best two anew.

    Args:
        scenario: one workload, without a limit and at one.
        options: where the trials are kept.
        progress: is told of them.
        budget_s: what the search may take, in seconds.
        lossy: try remedies that change results, too.

    Raises:
        UsageError: the scenario has more than one workload or limit, or none.
        WorkloadError: the workload doesn't finish even without a limit, or not in this time.
        CgroupError, MachineError, ResultsError: as :func:`~edgebench.run.sweep.sweep.run_sweep`.
    """
    began_s = time.monotonic()
    unlimited, limited = both_points(scenario)
    settings, is_program = limited.settings, limited.settings["kind"] == "command"
    if is_program:
        check_command(settings["command"])
    candidates, untried = candidates_of(unlimited, limited, lossy=lossy)
    planner = AdvicePlanner(
        unlimited,
        candidates,
        pace_of_program if is_program else pace_of_rounds,
        budget_s,
        scenario.timeout_s,
        began_s,
    )
    # All that is lacking at once, and before the trials rather than after them.
    need(*libraries(settings))
    every = [unlimited, *(candidate.point for candidate in candidates)]
    folder = run_sweep(scenario, options, progress, planner, every).folder
    sweep = read_sweep(folder)
    planned = planned_trials(sweep.resolved.get("plan"), folder)
    records = {record.trial: record for record in sweep.records}
    is_finished = not planner.further(planned, records)
    free = list(planner.records(PLAIN, limited=False).values())
    if is_program:
        name = shlex.join(settings["command"])
    else:
        name = "+".join(
            settings.get("networks") or [str(settings.get("network", settings["kind"]))]
        )
    check_unlimited(sweep, name, free, longer="--timeout 10m, or --budget 10m")
    if not planner.records(PLAIN):
        what = f"no time was left to run {name} under the limit"
        raise WorkloadError(what, where=str(folder), remedy="give it more time: --budget 10m")
    tried = [_tried(planner, candidate, is_program) for candidate in candidates if candidate.remedy]
    pressed = planner.pressed
    advice = Advice(
        name=name,
        kind=str(settings["kind"]),
        folder=sweep.path,
        limit_bytes=limited.limits.memory_bytes or 0,
        plain_end=planner.plain_end,
        plain_s=planner.seconds(PLAIN),
        unlimited_s=planner.seconds(PLAIN, limited=False),
        pressed=pressed,
        best=_best(planner, candidates, settings),
        # Those that help first; what failed or changed results last.
        tried=tuple(
            sorted(
                (remedy for remedy in tried if remedy.trials),
                key=lambda remedy: (
                    remedy.end != "ok",
                    remedy.ratio or 1.0,
                    remedy.seconds or math.inf,
                ),
            )
        ),
        untried=tuple(untried),
        out_of_time=tuple(remedy.name for remedy in tried if pressed and not remedy.trials),
        trials=len(records),
        total_s=(planner.outside_s or 0.0) + planner.took_s(),
        finished=is_finished,
        unmeasured=unmeasured(free),
        needed_bytes=max((needs.total_bytes for needs in needs_of(free)), default=None),
        library_bytes=most_libraries(free),
    )
    if advice.finished:
        keep_advice(folder, advice.to_json())
    return advice


def advised_scenario(
    subject: str | Sequence[str], memory: str | None, given: Mapping[str, Any]
) -> Scenario:
    """Return one workload, without a limit and under one.

    Args:
        subject: a network, a program's words, or the file of a scenario, ``.toml``.
        memory: the limit, a size; None: the file's.
        given: the flags' keys, as of :func:`~edgebench.scenario.new_scenario.tried_scenario`, and
            ``warm``: executions of a network after the first, each time that it is loaded.

    Raises:
        UsageError: a value is not possible, or there is no limit.
        ScenarioError: the file can't be read.
    """
    if isinstance(subject, str) and subject.endswith(".toml"):
        scenario = load_scenario(subject)
        if scenario.limits.plan != GRID:
            scenario = load_scenario(subject, GRID)
        update: dict[str, object] = {"name": f"advise-{scenario.name}"[:64].strip("-")}
        if memory is not None:
            update["limits"] = scenario.limits.model_copy(update={"memory": ("max", memory)})
        changed = scenario.model_copy(update=update)
        flag = f" --memory {memory}" if memory is not None else ""
        changed._text = f"# As edgebench advise{flag} ran it, with remedies.\n{scenario.text}"
        return changed
    if memory is None:
        raise UsageError("which limit? none is given", remedy="--memory 250M, or --board NAME")
    fixed = {}
    if isinstance(subject, str):
        warm = given.get("warm") or 0
        # With further executions in each round, the one after the start tells enough.
        fixed = {"warm": warm, "rounds": 2 if warm else 4}
    return tried_scenario("advise", subject, ["max", memory], given, **fixed)


def both_points(scenario: Scenario) -> tuple[Point, Point]:
    """Return the point without a limit, and the one with it.

    Raises:
        UsageError: the scenario has more of them, or no limit.
    """
    every = points(scenario)
    free, held = ([p for p in every if p.unlimited is unlimited] for unlimited in (True, False))
    if len(free) != 1 or len(held) != 1:
        what = f"{len(held)} limits" if len(free) == 1 else f"{len(free)} workloads"
        remedy = (
            "--memory 250M" if len(free) == 1 else "leave one value of each key in the scenario"
        )
        raise UsageError(f"advice is for one workload at one limit; it has {what}", remedy=remedy)
    label = held[0].limits.label
    if parse_share(label) is not None or parse_size(label) is None:
        raise UsageError(f"{label!r} is not a size", remedy="write a size, as --memory 250M")
    return free[0], held[0]


def candidates_of(
    unlimited: Point, limited: Point, *, lossy: bool
) -> tuple[list[Candidate], list[UntriedRemedy]]:
    """Return what is tried, the plain workload first; and what is not, with the reasons.

    ``lossy``: remedies that change results are tried too.
    """
    # What remedies are asked about: the workload on this machine, as it would be run.
    cores = limited.limits.cores or len(os.sched_getaffinity(0))
    env = limited.settings.get("env") or {}
    target = RemedyTarget(limited.settings, cores, {**given_environment(), **env})
    candidates, untried = [Candidate(PLAIN, limited)], []
    for remedy in all_remedies():
        reason = remedy.reason_against(target)
        if remedy.lossy and not lossy:
            reason = reason or "it changes results: --lossy tries it"
        if reason:
            untried.append(UntriedRemedy(remedy.name, reason))
            continue
        setting = remedy.setting(target)
        settings = {**limited.settings, **setting.settings, "remedy": remedy.name}
        if env or setting.env:
            settings["env"] = {**env, **setting.env}
        point = replace(limited, id=f"p{len(candidates) + 2:03d}", settings=settings)
        candidates.append(Candidate(remedy.name, point, remedy, setting, lossy))
    return candidates, untried


def _tried(planner: AdvicePlanner, candidate: Candidate, is_program: bool) -> TriedRemedy:
    name = candidate.name
    records = list(planner.records(name).values())
    ratio = paired_ratio(planner.logs(name, 0, CONFIRMING + 100), _TRIED)
    seconds = planner.seconds(name)
    late = [record.wall_s for record in records if record.outcome == "timeout" and record.wall_s]
    return TriedRemedy(
        name,
        candidate.remedy.title if candidate.remedy else "",
        planner.end_of(name),
        ratio=ratio.ratio if ratio else None,
        low=ratio.low if ratio else None,
        high=ratio.high if ratio else None,
        finished=sum(record.outcome == "ok" for record in records),
        trials=len(records),
        seconds=seconds,
        stopped_s=max(late, default=None) if is_program and seconds is None else None,
        changes=candidate.changes,
    )


def _best(
    planner: AdvicePlanner, candidates: Sequence[Candidate], plain: Mapping[str, Any]
) -> BestRemedy | None:
    """Return the winner; None where there is none, or it was not measured anew yet."""
    stage = CONFIRMING, CONFIRMING + 100
    measured = {
        candidate.name: candidate
        for candidate in candidates
        if candidate.remedy and planner.records(candidate.name, *stage)
    }
    confirmed = [name for name in measured if planner.is_confirmed(name)]
    name = planner.easiest(confirmed or list(measured)) or next(iter(measured), None)
    if name is None:
        return None
    candidate, records = measured[name], planner.records(name, *stage)
    ratio = paired_ratio(planner.logs(name, *stage), MEASURED)
    return BestRemedy(
        name=name,
        title=candidate.remedy.title if candidate.remedy else "",
        typed=tuple(typed_lines(candidate, plain)),
        finished=sum(record.outcome == "ok" for record in records.values()),
        trials=len(records),
        ratio=ratio.ratio if ratio else None,
        low=ratio.low if ratio else None,
        high=ratio.high if ratio else None,
        pairs=ratio.pairs if ratio else 0,
        changes=candidate.changes,
        costs=candidate.remedy.costs if candidate.remedy else "",
        confirmed=name in confirmed,
    )


def typed_lines(candidate: Candidate, plain: Mapping[str, Any]) -> Iterator[str]:
    """Yield what to type for a candidate, or to write.

    Variables, a program's whole line, keys, code.
    """
    setting = candidate.setting
    variables = " ".join(f"{name}={shlex.quote(value)}" for name, value in setting.env.items())
    if variables and plain["kind"] == "command":
        yield f"{variables} {shlex.join(plain['command'])}"
    elif variables:
        yield f"export {variables}"
    for key, value in setting.settings.items():
        yield f"{key} = {json.dumps(value)}   # in a scenario's [workload]"
    for line in setting.code:
        yield f"{line}{',' if '   # ' in line else '   #'} in a program of your own"
