"""``edgebench show``: a sweep's answer and its points, also of a running sweep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import structs

from edgebench.cli.options import json_option, results_argument, verbose_option
from edgebench.cli.output import (
    print_answer,
    print_json,
    print_lines,
    print_next,
    print_table,
    print_title,
    print_warnings,
    typed_path,
)
from edgebench.errors import ResultsError
from edgebench.results.workload_key import brief_names
from edgebench.units import format_size
from edgebench.words.outcomes import outcome_words

if TYPE_CHECKING:
    from edgebench.analysis.studies.tables import StudyTable
    from edgebench.results.facts import SweepFacts, WorkloadFacts
    from edgebench.results.point_facts import PointFacts
    from edgebench.results.results import Results, Sweep
    from edgebench.results.spread import Spread


_LEGEND = "median, ± the farthest trial; *: the peak met the limit"
_ROUNDS = (
    "start: the first round after the import; steady: later rounds, once they repeat; slower: "
    "steady rounds against unlimited ones (start, where only one round was run)"
)
_TITLES = ("MiB", "ok", "slower", "peak MiB")
#: Ends that a limit is tried for.
_PLANNED = {"ok", "oom-killed"}


@click.command()
@results_argument
@click.option("--study", is_flag=True, help="Show the tables of a study's sweep instead.")
@verbose_option(
    "each phase's times, how certain the least limit is, and what keeps it from fitting; with "
    "--study every row"
)
@json_option("every point, or the study's tables")
def show(results: Path, study: bool, verbose: bool, as_json: bool) -> None:
    """Show the newest sweep in RESULTS: a sweep's folder, or a folder of several.

    It also works on a sweep that is running, was interrupted or is damaged.
    """
    from edgebench.results.facts import sweep_facts
    from edgebench.results.results import latest, load

    loaded = load(latest(results))
    if study:
        print_studies(loaded, verbose, as_json)
        return
    sweep = loaded.sweeps[0]
    facts = sweep_facts(sweep)
    if as_json:
        print_json(
            {
                "sweep": sweep.name,
                "path": sweep.path,
                "device": sweep.device,
                "state": _state(sweep),
                "planned": sweep.planned,
                "recorded": len(sweep.records),
                "points": [asdict(point) for point in facts.points],
                "warnings": loaded.warnings,
            }
        )
        return
    _print_sweep(sweep, facts, verbose)
    doubts = [*loaded.warnings, *_warnings(sweep, facts)]
    print_warnings(doubts, None if verbose else "--verbose")
    if _state(sweep) == "unfinished":
        print_next("edgebench run SCENARIO  (the same scenario: it resumes the sweep)")
    else:
        print_next(f"edgebench report {typed_path(sweep.path)}")


def _state(sweep: Sweep) -> str:
    if sweep.running:
        return "running"
    return "complete" if sweep.complete is not None else "unfinished"


def _print_sweep(sweep: Sweep, facts: SweepFacts, verbose: bool) -> None:
    from edgebench.words.in_short import sweep_sentences

    found = facts.workloads
    names = brief_names(one.name for one in found)
    print_answer(sweep_sentences(found, names))
    print_lines(["", _progress(sweep)])
    alone = [one for one in found if len(one.points) == 1 and not verbose]
    for one in found:
        if one not in alone:
            _print_workload(one, verbose, sweep.networks)
    if alone:
        _print_alone(alone, names)
    counted = any(point.throughput_per_s for one in found for point in one.points)
    print_lines(["", *([_ROUNDS] if any(one.has_rounds for one in found) else [])])
    print_lines([_LEGEND + ("; slower: of the throughput" if counted else "")])


def _print_alone(found: Sequence[WorkloadFacts], names: dict[str, str]) -> None:
    """One table of the workloads that ran at one limit only."""
    from edgebench.words.labels import times_shown

    limits = [_limit_words(one.points[0]) for one in found]
    print_lines([""] if set(limits) != {"max"} else ["", "without a limit:"])
    rows = []
    for one, limit in zip(found, limits, strict=True):
        point = one.points[0]
        _, _, finished, _, peak = _row(point)
        times = [_time(point.times_s.get(name)) for name in times_shown(found)]
        rows.append([names[one.name], limit, finished, _mib(one.demand_bytes), peak, *times])
    times = [f"{name} s" for name in times_shown(found)]
    titles = ["workload", "limit", "ok", "demand\nMiB", "peak\nMiB", *times]
    if set(limits) == {"max"}:
        titles, rows = [titles[0], *titles[2:]], [[row[0], *row[2:]] for row in rows]
    print_table(titles, rows, words=("workload", "limit", "ok"), gap=1)


def _limit_words(point: PointFacts) -> str:
    label, size = point.limits.label, _mib(point.limit_bytes)
    return f"{label} ({size} MiB)" if size else label


def _print_workload(one: WorkloadFacts, verbose: bool, networks: Mapping[str, Any]) -> None:
    from edgebench.results.rounds import TRIAL_TIMES
    from edgebench.words.fits import holder_sentences
    from edgebench.words.labels import throughput_column, times_shown
    from edgebench.words.miss_curve import miss_curve_sentence

    demand = "" if one.demand_bytes is None else f" · demand {format_size(one.demand_bytes)}"
    print_title(one.name + demand)
    shown = times_shown([one])
    if verbose:
        known = {name for point in one.points for name in point.times_s} - {"total"}
        shown += [name for name in TRIAL_TIMES if name in known and name not in shown]
    counted = throughput_column(one)
    rows = [
        [
            *_row(point),
            *([_time(point.throughput_per_s)] if counted else []),
            *(_time(point.times_s.get(name)) for name in shown),
        ]
        for point in one.points
    ]
    titles = ("limit", *_TITLES, *counted, *(f"{name} s" for name in shown))
    print_table(titles, rows, words=("limit", "ok"))
    if words := miss_curve_sentence(one.miss_curve):
        print_lines([words])
    if verbose:
        print_lines(holder_sentences(one, networks))


def _progress(sweep: Sweep) -> str:
    planned = "?" if sweep.planned is None else sweep.planned
    outcomes = Counter(map(str, sweep.columns.words("outcome", range(len(sweep.records)))))
    words = ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()))
    done = f"{len(sweep.records)} of {planned} trials" + (words and f" ({words})")
    return f"{sweep.name} on {sweep.device}: {_state(sweep)}, {done}"


def _row(point: PointFacts) -> list[str]:
    slowdown = point.slowdown
    peak = _mib(point.peak_bytes.median if point.peak_bytes else None)
    return [
        point.limits.label,
        _mib(point.limit_bytes),
        _ok(point),
        f"{slowdown:.2f}×" if slowdown is not None else "",
        peak + ("*" if point.saturated else ""),
    ]


def _mib(size_bytes: float | None) -> str:
    return "" if size_bytes is None else f"{size_bytes / 2**20:.0f}"


def _ok(point: PointFacts) -> str:
    made = sum(point.outcomes.values())
    words = f"{point.outcomes.get('ok', 0)}/{max(point.planned or 0, made)}"
    others = [outcome_words(outcome).column for outcome in point.outcomes if outcome != "ok"]
    return " ".join([words, *others[:1]]) + ("+" if len(others) > 1 else "")


def _time(spread: Spread | None) -> str:
    if spread is None:
        return ""
    median = spread.median
    words = f"{median:.0f}" if median >= 100 else f"{median:.3g}"
    return f"{words} ±{spread.farthest:.0%}" if spread.count > 1 else words


def _warnings(sweep: Sweep, facts: SweepFacts) -> Iterator[str]:
    """What puts numbers in doubt, one sentence a kind, with the workloads and limits.

    Where a limit killed comes last: that it did is a result, which the table has.
    """
    from edgebench.words.doubts import (
        collection_notes,
        doubt_sentences,
        reason_sentences,
        swap_free_doubts,
    )
    from edgebench.words.kills import watching_warnings
    from edgebench.words.unmeasured import unmeasured_notes

    found = facts.workloads
    names = brief_names(one.name for one in found)
    pairs = [(names[one.name], point) for one in found for point in one.points]
    killed = [pair for pair in pairs if _PLANNED.issuperset(pair[1].outcomes)]
    others = [pair for pair in pairs if pair not in killed]
    yield from reason_sentences((name, p.limits.label, p.reasons) for name, p in others)
    yield from doubt_sentences(
        structs.replace(doubt, workload=name, limit=p.limits.label)
        for name, p in pairs
        for doubt in (*swap_free_doubts(p), *p.doubts)
    )
    yield from unmeasured_notes(facts.points)
    yield from collection_notes(facts.points)
    yield from watching_warnings(sweep)
    yield from reason_sentences((name, p.limits.label, p.reasons) for name, p in killed)


#: Rows of a table that are shown without --verbose.
_MOST_ROWS = 12


def print_studies(loaded: Results, verbose: bool, as_json: bool) -> None:
    """Print every table for which the sweep has data: a convolution's cost, a search's effects.

    Args:
        loaded: one sweep.
        verbose: print every row of the tables.
        as_json: print JSON instead of text.

    Raises:
        ResultsError: it has data for none.
    """
    tables = study_tables(loaded)
    if as_json:
        print_warnings(loaded.warnings)
        print_json({"path": loaded.path, "tables": [table.to_json() for table in tables]})
        return
    print_answer(table.answer for table in tables if table.answer)
    for table in tables:
        _print_study(table, verbose)
    print_warnings(loaded.warnings, None if verbose else "--verbose")
    print_next(f"edgebench plot {typed_path(loaded.path)}")


def _print_study(table: StudyTable, verbose: bool) -> None:
    print_title(table.title)
    rows = table.rows if verbose else table.rows[:_MOST_ROWS]
    print_table(
        [column.title for column in table.columns],
        [[column.shown(row[column.key]) for column in table.columns] for row in rows],
        words=[column.title for column in table.columns if column.words],
    )
    if left := len(table.rows) - len(rows):
        print_lines([f"… and {left} more rows: --verbose"])
    print_lines(table.says)


def study_tables(loaded: Results) -> list[StudyTable]:
    """Every table for which the sweep has data.

    Raises:
        ResultsError: it has data for none.
    """
    from edgebench.analysis.studies.registry import STUDIES

    made: list[StudyTable] = []
    for tables in STUDIES.values():
        with suppress(ResultsError):
            made += tables(loaded)
    if not made:
        raise ResultsError(
            f"this sweep has no data of a study: {', '.join(STUDIES)}",
            where=str(loaded.path),
            remedy="edgebench run lowpower/conv",
        )
    return made
