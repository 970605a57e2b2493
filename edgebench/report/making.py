"""From one sweep's results to what is told of it; what can't be told is named with the reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from edgebench.errors import ResultsError
from edgebench.printable import printable
from edgebench.report.buying import bought_said
from edgebench.report.fitted import fit_said
from edgebench.report.folding import folded
from edgebench.report.page import Answer, Chapter, Report
from edgebench.report.pictures import draw_pictures
from edgebench.report.sentences import fits_said, slow_said
from edgebench.report.tables import (
    environment_table,
    fits_table,
    layers_table,
    limits_table,
    summary_table,
    unfinished_table,
    worst_layer,
)
from edgebench.report.workload import Workload, briefly, limit_words, workloads
from edgebench.results.reading import settings_columns
from edgebench.results.summary import summarise

if TYPE_CHECKING:
    from edgebench.blame.table import BlameTable
    from edgebench.results.results import Results, Sweep
    from edgebench.slowdown.ladder import Climb

#: What tells workloads apart beside what a network or command is called.
_SETTINGS = ("kind", "schedule", "loader", "batch", "image", "rounds", "warm", "threads", "workers")
_LIMITS = ("swap_kind", "swap_bytes", "cores", "cpu_quota")
_MOST_DOUBTS = 40
#: More workloads than this are a search: in the summary, but each without a chapter.
_MANY = 12


@dataclass(frozen=True)
class _Found:
    """What the sweep's frames gave beside its points. ``doubts`` is what they lack."""

    blamed: list[BlameTable] = field(default_factory=list)
    climbs: list[Climb] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)


def make_report(results: Results, as_png: bool = False) -> Report:
    """All that is told of one sweep, complete, running or cut short.

    With ``as_png`` every figure is made as PNG too.

    Raises:
        ResultsError: these are several sweeps.
        MachineError: pandas is not installed.
    """
    sweep = results.sweeps[0]
    points = workloads(summarise(sweep))
    found = _found(results)
    pictures, no_picture = draw_pictures(results, as_png)
    tables = [fits_table(found.climbs)] if found.climbs else []
    unfinished = unfinished_table(points)
    tables += [unfinished] if unfinished.rows else []
    brief, _ = briefly([one.name for one in points])
    blamed = {one.name: table for one in points if (table := _blame_of(one, found.blamed))}
    return Report(
        title=f"{sweep.name} on {sweep.device}",
        about=_about(sweep),
        summary=summary_table(points, {name: worst_layer(t) for name, t in blamed.items()}),
        chapters=[
            _chapter(one, brief[one.name], blamed.get(one.name), found.climbs)
            for one in _told_whole(points)
        ],
        pictures=pictures,
        doubts=_capped(folded([*results.warnings, *found.doubts, *_noise(points)])),
        tables=[*tables, environment_table(sweep.environment)],
        scenario=printable(sweep.scenario_text),
        footer=_footer(sweep),
        left_out=no_picture,
    )


def _told_whole(points: Sequence[Workload]) -> list[Workload]:
    """Those that get a chapter: where there are many, only those with a limit that was tried."""
    many = len(points) > _MANY
    return [one for one in points if one.tried or not many]


def _found(results: Results) -> _Found:
    from edgebench.blame.making import blame_tables
    from edgebench.slowdown.data import curves
    from edgebench.slowdown.ladder import climb_all

    found = _Found()
    try:
        tables, left_out = blame_tables(results)
        found.blamed.extend(tables)
        found.doubts.extend(left_out)
    except ResultsError as error:
        found.doubts.append(f"no layers: {error.what}")
    try:
        climbs, skipped = climb_all(curves(results))
        found.climbs.extend(climbs)
        found.doubts.extend(skipped)
    except ResultsError as error:
        found.doubts.append(f"no fit: {error.what}")
    return found


def _about(sweep: Sweep) -> list[str]:
    state = "running" if sweep.running else "complete" if sweep.complete else "unfinished"
    planned = sweep.planned or "an unknown number"
    said = [f"The sweep is {state}: {len(sweep.records)} of {planned} trials are recorded."]
    started = [record.started_utc for record in sweep.records]
    if started:
        said.append(f"Trials began from {_minute(min(started))} to {_minute(max(started))} UTC.")
    machine = sweep.environment
    words = [machine.get(key) for key in ("board", "cpu_model", "os", "kernel")]
    if told := ", ".join(str(word) for word in words if word):
        said.append(f"The machine: {told}.")
    return said


def _minute(started_utc: str) -> str:
    return started_utc[:16].replace("T", " ")


def _chapter(
    workload: Workload, brief: str, blamed: BlameTable | None, climbs: Sequence[Climb]
) -> Chapter:
    slow = slow_said(workload)
    for climb in climbs:
        if climb.curve.phase == "total" and _is_of(workload, climb.curve.settings, "pipeline"):
            slow += fit_said(climb)
    answers = [
        Answer("Does it fit?", fits_said(workload)),
        Answer("How slow is it?", slow),
        Answer("Which layer is to blame?", _blame_said(blamed)),
        Answer("What would more memory buy?", bought_said(workload)),
    ]
    tables = [limits_table(workload)]
    cost = blamed.tightest() if blamed else None
    if blamed and cost and cost.told_apart and cost.extra_s > 0:
        tables.append(layers_table(blamed, cost))
    return Chapter(workload.name, brief, answers, tables)


def _blame_said(table: BlameTable | None) -> list[str]:
    from edgebench.blame.words import notes, verdict

    if table is None:
        return ["No layer was timed, unlimited and at a limit, so none can be blamed."]
    cost = table.tightest()
    if cost is None:
        return ["No trial finished below a limit, so no layer can be blamed for one."]
    # Noise is told of among the doubts, of every trial.
    return [f"{words}." for words in (verdict(table, cost), *notes(replace(table, noise=[])))]


def _blame_of(workload: Workload, tables: Iterable[BlameTable]) -> BlameTable | None:
    return next((t for t in tables if _is_of(workload, t.settings, "network")), None)


def _is_of(workload: Workload, settings: Mapping[str, Any], network: str) -> bool:
    """Whether settings as frames tell them, without what is missing, are this workload's."""
    columns = settings_columns(workload.settings)
    own = {name: columns.get(name) for name in _SETTINGS}
    own |= {name: getattr(workload.limits, name) for name in _LIMITS}
    own |= {network: columns.get("network"), "command": columns.get("command")}
    return all(settings.get(name) == value for name, value in own.items())


def _noise(points: Iterable[Workload]) -> list[str]:
    return [
        f"{one.name}, {limit_words(point)}: {words}"
        for one in points
        for point in one.points
        for words in point.noise
    ]


def _capped(doubts: Sequence[str]) -> list[str]:
    left = len(doubts) - _MOST_DOUBTS
    more = [f"… and {left} more: edgebench show --json has them all"] if left > 0 else []
    return [*doubts[:_MOST_DOUBTS], *more]


def _footer(sweep: Sweep) -> str:
    from edgebench import __version__

    made = sweep.environment.get("edgebench") or "an unknown version"
    return f"Measured by edgebench {made}, told by edgebench {__version__}."
