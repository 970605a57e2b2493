"""The least limits of a network or of a program, found by a search that is kept as a sweep."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil

from edgebench.answers.limits import WorkloadAnswer, needs_words, paste_lines, workload_answer
from edgebench.answers.table import size
from edgebench.errors import UsageError, WorkloadError
from edgebench.records import TrialRecord
from edgebench.results.facts import WorkloadFacts, sweep_facts
from edgebench.results.folder import keep_asked_pace
from edgebench.results.sweep_reader import Sweep, end_of_output, log_of, read_sweep
from edgebench.run.search.search import (
    LimitSearch,
    SearchRules,
    needs_of,
    pace_of_program,
    pace_of_rounds,
    whole_s,
)
from edgebench.run.sweep.sweep import SweepOptions, planned_trials, run_sweep
from edgebench.run.trial.command import Progress, check_command, command_words
from edgebench.run.trial.process import NO_LINE, UNBUFFERED
from edgebench.scenario.flags import NETWORK_KEYS, PLACE_KEYS, PROGRAM_KEYS
from edgebench.scenario.new_scenario import tried_scenario
from edgebench.scenario.points import points
from edgebench.scenario.scenario import Scenario
from edgebench.text import AS_IS, MIB, format_duration, parse_duration, parse_swap, shortened

#: The last lines of its output that are quoted.
_LINES = 5


def check_unlimited(
    sweep: Sweep,
    name: str,
    unlimited: Sequence[TrialRecord],
    longer: str = "--timeout 10m; if it never ends: --for 20s",
) -> None:
    """Check that every unlimited trial finished: there is nothing to search for otherwise.

    ``longer`` is what gives a program more time.

    Raises:
        WorkloadError: one didn't; says how it ended, with its last lines.
    """
    failed = next((record for record in unlimited if record.outcome != "ok"), None)
    if failed is None:
        return
    is_command, where = failed.settings["kind"] == "command", str(log_of(sweep.path, failed.trial))
    if failed.outcome == "timeout":
        raise WorkloadError(
            f"{name} did not end within {format_duration(failed.wall_s or 0.0)}, without any limit",
            where=where,
            remedy=f"give it more time: {longer if is_command else '--timeout 10m'}",
        )
    if not is_command:
        reason = f" ({failed.reason})" if failed.reason else ""
        raise WorkloadError(
            f"{name} did not finish with no limit: {failed.outcome}{reason}",
            where=where,
            remedy=f"see: edgebench show {sweep.path}",
        )
    again, end = "", f"exit code {failed.exit_code}"
    remedy = (
        "correct the command until it works by itself; its output is no terminal, and its input is "
        "a file, if you give one: edgebench minimum -- PROGRAM < FILE"
    )
    if failed.outcome == "oom-killed":
        end = "killed, since this machine's own memory ran out"
    elif failed.signal:
        end = failed.reason or f"signal {failed.signal}"
    if failed.signal == signal.SIGKILL:
        remedy = "edgebench set no limit: journalctl -k shows what the kernel killed, and why"
    if any(record.outcome == "ok" for record in unlimited):
        again = " when it is run again"
        remedy = "if it changes files, undo that before each trial: --reset COMMAND"
    output = end_of_output(sweep.path, failed.trial)
    lines = [f"  {line}" for line in output.splitlines() if line.strip()][-_LINES:]
    what = "\n".join([f"{name} fails without any limit{again}: {end}", *lines])
    raise WorkloadError(what, where=where, remedy=remedy)


#: Keys of a search that are no scenario's: of both kinds of workload, and of programs alone.
_KEYS = ("slowdown", "confirm", "killed", "within", "timeout")
_OF_PROGRAMS = ("throughput", "budget")
#: What can be set of a program alone.
PROGRAM_ONLY = {*PROGRAM_KEYS, *_OF_PROGRAMS} - {"stdin"}
#: What each key is where it is not given, if that is not None.
_USUAL = {"swap": "none", "storage": AS_IS, "killed": False}
_REMEDY = 'edgebench.minimum("python3 train.py"), or edgebench.minimum(network="resnet18")'


@dataclass(frozen=True)
class Search:
    """A search for the limit to give.

    Args:
        name: of the network, or the command.
        scenario: the workload, and every limit that may be tried.
        rules: what is searched for, and how its trials are made and read.
        asked: what was given, and the usual values of the rest.
    """

    name: str
    scenario: Scenario
    rules: SearchRules
    asked: dict[str, Any]

    @property
    def is_program(self) -> bool:
        """Whether it is a program's; else it is a network's."""
        return "command" in self.asked

    @property
    def planner(self) -> LimitSearch:
        """What chooses the limits."""
        return LimitSearch(points(self.scenario), self.rules)


def search_of(subject: str | Sequence[str], given: Mapping[str, Any]) -> Search:
    """Return the search for a network, or for a program by its words.

    Args:
        subject: which.
        given: sizes and durations as a scenario writes them, None for what was not given:

            - keys of the workload and the limits, as of
              :func:`~edgebench.scenario.new_scenario.tried_scenario`; ``timeout`` is a trial's;
            - ``slowdown``: the factor that it may be slower by; None: 1.1;
            - ``throughput``: the least that a program must get done in a second, told from the
              lines that it prints, or from ``throughput_pattern``;
            - ``confirm``: how many further trials the given limit must finish; None: 3, or fewer
              once the search has taken long;
            - ``killed``: also where it is killed, though swap can hold all that it needs;
            - ``within``: the only limit that is tried;
            - ``budget``: of all of a program's trials; None: derived from its unlimited time.

    Raises:
        UsageError: a value is not possible, or does not fit the kind of workload.
    """
    if isinstance(subject, str):
        keys, refused, kind = {*_KEYS, *NETWORK_KEYS}, PROGRAM_ONLY, "programs"
        usual = {**_USUAL, "batch": 1, "timeout": "2m"}
    else:
        keys, refused, kind = {*_KEYS, *PROGRAM_ONLY, "stdin"}, {*NETWORK_KEYS}, "networks"
        usual = {**_USUAL, "files": ()}
    chosen = {name: value for name, value in given.items() if value is not None}
    if other := sorted(chosen.keys() & refused):
        raise UsageError(f"{other[0]} is for {kind} only", remedy=f"leave out {other[0]}=")
    asked = {name: chosen.get(name, usual.get(name)) for name in sorted({*keys, *PLACE_KEYS})}
    is_single = asked["within"] is not None
    memory = ["max", *([asked["within"]] if is_single else candidate_sizes())]
    common = {name: asked[name] for name in ("slowdown", "confirm", "killed")}
    if isinstance(subject, str):
        # Two where a slowdown is looked for, so that no time rests on a single one.
        is_timed = asked["slowdown"] is not None or parse_swap(asked["swap"])[0] != "none"
        rounds = 2 if is_timed else 1
        scenario = tried_scenario("minimum", subject, memory, asked, rounds=rounds, warm=1)
        rules = SearchRules(pace_of_rounds, **common, unlimited=rounds)
        return Search(subject, scenario, rules, {"network": subject, **asked})
    is_counted = asked["throughput"] is not None or asked["stop_after"] is not None
    counts_lines = True if is_counted and not asked["throughput_pattern"] else None
    scenario = tried_scenario("minimum", subject, memory, asked, throughput=counts_lines)
    rules = SearchRules(pace_of_program, throughput=asked["throughput"], **common)
    if is_single:
        is_compared = rules.slowdown is not None or rules.throughput is not None
        rules = replace(rules, unlimited=2 if is_compared else 1)
    else:
        rules = replace(
            rules,
            unlimited=2,
            most_unlimited=4,
            timeout_s=parse_duration(asked["timeout"]) if asked["timeout"] else None,
            is_hurried=True,
            budget_s=parse_duration(asked["budget"]) if asked["budget"] else None,
        )
    return Search(shlex.join(subject), scenario, rules, {"command": tuple(subject), **asked})


def candidate_sizes() -> list[str]:
    """Return the limits that may be tried: all that can be told apart in print, up to the RAM.

    The step is an eighth of a MiB, a MiB, and from 1 GiB on up to 1.6 %.
    """
    most, limit, sizes = psutil.virtual_memory().total, MIB, []
    while limit <= most:
        sizes.append(f"{limit // 1024}K" if limit % MIB else f"{limit // MIB}M")
        step = MIB if limit < 1024 * MIB else 1 << (limit.bit_length() - 7)
        limit += MIB // 8 if limit < 10 * MIB else step
    return sizes


@dataclass(frozen=True)
class Minimum:
    """What the search found, and what it took.

    Args:
        answer: what it needs, what to give it, and a row for each limit that was tried.
        folder: the sweep that has its trials.
        trials: how many there were, those without a limit too.
        total_s: what all trials took.
        slowdown: the factor that was asked for, or that the throughput comes to; None: the usual.
        fits: whether the only limit that was tried is enough; None: a search, or it still grew.
        finished: whether all questions were answered; False: it was interrupted or out of time.
        workload: the facts behind the answer.
    """

    answer: WorkloadAnswer
    folder: Path
    trials: int
    total_s: float
    slowdown: float | None
    fits: bool | None
    finished: bool
    workload: WorkloadFacts = field(repr=False)

    @property
    def name(self) -> str:
        """Of the network, or the command."""
        return self.answer.name

    @property
    def needs_bytes(self) -> float:
        """The most that a run without a limit used."""
        return self.answer.needs_bytes[1] if self.answer.needs_bytes else 0.0

    @property
    def give_bytes(self) -> int | None:
        """The least limit at which all trials finished, no slower than allowed; None: at none."""
        return self.answer.give_bytes

    def __repr__(self) -> str:
        """Return what it needs, and what to give it; its fields are in ``vars(found)``."""
        needs, give = needs_words(self.answer), size(self.give_bytes)
        return f"<Minimum: {shortened(self.name)} {needs}, give {give}>"

    def to_json(self) -> dict[str, Any]:
        """Return plain data: the answer, and what the search took."""
        took = {
            key: value for key, value in vars(self).items() if key not in ("answer", "workload")
        }
        return {**took, **asdict(self.answer), "paste": paste_lines(self.answer)}


def find_minimum(search: Search, options: SweepOptions, progress: Progress) -> Minimum:
    """Search with as few trials as possible, and keep them as a sweep.

    Raises:
        WorkloadError: an unlimited trial didn't finish, so there is nothing to compare with.
        CgroupError, MachineError, ResultsError: as :func:`~edgebench.run.sweep.sweep.run_sweep`.
    """
    if search.is_program:
        check_command(search.asked["command"])
    folder = run_sweep(search.scenario, options, progress, search.planner).folder
    return read_minimum(search, folder)


def minimum_of(
    workload: str | Sequence[str] | None,
    network: str | None,
    given: Mapping[str, Any],
    where: SweepOptions,
    progress: Progress,
) -> Minimum:
    """Search as the verb does; ``given`` is as of :func:`search_of`.

    Raises:
        UsageError: neither or both of a workload and a network, or a setting that does not fit.
        EdgebenchError: as :func:`find_minimum` does.
    """
    if (workload is None) == (network is None):
        raise UsageError("name a command or a network", remedy=_REMEDY)
    settings = dict(given)
    if settings.get("files") is not None:
        settings["files"] = tuple(map(str, settings["files"]))
    if settings.get("reset") is not None:
        settings["reset"] = tuple(command_words(settings["reset"]))
    subject = network if workload is None else command_words(workload)
    assert subject is not None
    return find_minimum(search_of(subject, settings), where, progress)


def read_minimum(search: Search, folder: Path) -> Minimum:
    """Return what a search found, also one that was interrupted.

    Raises:
        ResultsError: the folder can't be read.
        WorkloadError: an unlimited trial failed, or none tells a need or the throughput.
    """
    keep_asked_pace(folder, search.rules.asked)
    sweep, planner = read_sweep(folder), search.planner
    records = {record.trial: record for record in sweep.records}
    unlimited = [r for r in sweep.records if r.limits.label == "max"]
    check_unlimited(sweep, search.name, unlimited)
    is_told = any(record.throughput_per_s for record in unlimited)
    if search.rules.throughput is not None and not is_told:
        why = next((r.missing.get("throughput_per_s") for r in unlimited), None) or NO_LINE
        raise WorkloadError(
            f"the throughput of {search.name} is not known: {why}",
            remedy=UNBUFFERED
            if why == NO_LINE
            else "name the number in its output: --throughput-pattern",
        )
    if not needs_of(unlimited):
        what = f"how much memory {search.name} needs is not known"
        raise WorkloadError(what, where=str(sweep.path), remedy="edgebench doctor")
    (workload, *_) = sweep_facts(sweep).workloads
    slowdown = workload.most_slowdown
    answer = workload_answer(workload, search.name)
    fits = None
    if search.asked["within"] is not None and not answer.growing:
        finished = any(row.limit_bytes and row.all_finished for row in answer.rows)
        fits = finished if slowdown is None else answer.give_bytes is not None
    planned = planned_trials(sweep.resolved.get("plan"), folder)
    return Minimum(
        answer=answer,
        folder=sweep.path,
        trials=len(records),
        total_s=sum(map(whole_s, records.values())),
        slowdown=slowdown,
        fits=fits,
        finished=not planner.open_question(planned, records),
        workload=workload,
    )
