"""What every verb prints of a sweep: a headline and a table for each workload, then warnings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import click

from edgebench.answers.boards import board_line
from edgebench.answers.limits import (
    WorkloadAnswer,
    answer_headline,
    limits_table,
    overview_table,
    workload_answer,
)
from edgebench.answers.warnings import sweep_warnings, warning_lines, warnings_of
from edgebench.cli.output import print_headline, print_lines, print_table, print_warnings
from edgebench.errors import EdgebenchError
from edgebench.results.workload_key import brief_names

if TYPE_CHECKING:
    from edgebench.results.facts import WorkloadFacts
    from edgebench.results.results import Results

#: More workloads than this have one row each, unless all is asked for.
_MOST_WORKLOADS = 6
#: The layers of more workloads than this take long to read.
_MOST_BLAMED = 3


def print_sweep(loaded: Results, *, verbose: bool = False, took: str = "") -> None:
    """Print a sweep's answer. ``took``: stands at the end of the headline of a single workload."""
    from edgebench.results.facts import sweep_facts

    # The layers' events, which are read below, may be kept elsewhere: that is no doubt.
    sweep, warnings = loaded.sweeps[0], list(loaded.warnings)
    found = sweep_facts(sweep).workloads
    names = brief_names(one.name for one in found)
    answers = [workload_answer(one, names[one.name]) for one in found]
    alone = all(len(answer.rows) < 2 for answer in answers)
    if not verbose and (len(found) > _MOST_WORKLOADS or alone):
        print_headline(f"{len(found)} workload{'s' * (len(found) != 1)}   {took}".rstrip())
        print_table(overview_table(answers))
    else:
        blamed = _blamed(loaded, found) if len(found) <= _MOST_BLAMED or verbose else {}
        for n, (one, answer) in enumerate(zip(found, answers, strict=True)):
            if n:
                click.echo()
            more, blame = took if len(found) == 1 else "", blamed.get(one.name, "")
            print_answer(answer, more, blame, verbose=verbose)
    doubts = [*warnings, *warning_lines(sweep_warnings(sweep))]
    print_doubts(found, names if len(found) > 1 else {}, doubts, verbose=verbose)


def print_answer(answer: WorkloadAnswer, took: str, blame: str = "", *, verbose: bool) -> None:
    """Print a workload's headline and table; below it the knee, the layers and the board."""
    print_headline(answer_headline(answer, took))
    print_table(limits_table(answer, every=verbose, peaks=verbose))
    knee = f"knee {answer.knee}" if answer.knee else ""
    finished = [row.limit_bytes for row in answer.rows if row.limit_bytes and row.all_finished]
    needs = answer.needs_bytes[1] if answer.needs_bytes else None
    enough = min(filter(None, (needs, answer.give_bytes)), default=None)
    least = min(finished, default=None)
    board = board_line(answer.board, enough, least, answer.library_bytes)
    print_lines(filter(None, ["; ".join(filter(None, (knee, blame))), board]))


def print_doubts(
    found: Iterable[WorkloadFacts],
    names: Mapping[str, str],
    others: Iterable[str] = (),
    *,
    verbose: bool,
) -> None:
    """Print what puts workloads in doubt, under these names, and other warnings."""
    doubts = [doubt for one in found for doubt in warnings_of(one, names.get(one.name, ""))]
    print_warnings([*warning_lines(doubts), *others], None if verbose else "--verbose")


def _blamed(loaded: Results, found: tuple[WorkloadFacts, ...]) -> Mapping[str, str]:
    """Which layers a limit slows most, by workload; none where no layer was timed."""
    from edgebench.answers.layers import blame_words

    if not any(one.slowed for one in found):
        return {}
    try:
        from edgebench.analysis.layer_costs import layer_cost_tables

        tables, _ = layer_cost_tables(loaded)
    except (EdgebenchError, ModuleNotFoundError):
        return {}
    by_workload = {table.workload: table for table in tables}
    made: dict[str, str] = {}
    for one in found:
        table = by_workload.get(one.key.id)
        if table and (cost := table.slowed(one)):
            made[one.name] = blame_words(table, cost)
    return made
