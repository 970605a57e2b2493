"""``edgebench show``: a sweep's answer and its points, also of a running sweep."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgebench.cli.options import json_option, results_argument, verbose_option
from edgebench.cli.output import (
    print_headline,
    print_json,
    print_lines,
    print_next,
    print_table,
    print_warnings,
    typed_path,
)
from edgebench.errors import ResultsError

if TYPE_CHECKING:
    from edgebench.analysis.studies.tables import StudyTable
    from edgebench.results.results import Results, Sweep


@click.command()
@results_argument
@click.option("--study", is_flag=True, help="Show the tables of a study's sweep instead.")
@verbose_option("all limits, each workload's table, peaks and warnings; with --study every row")
@json_option("every point, or the study's tables")
def show(results: Path, study: bool, verbose: bool, as_json: bool) -> None:
    """Show the newest sweep in RESULTS: a sweep's folder, or a folder of several.

    It also works on a sweep that is running, was interrupted or is damaged.
    """
    from edgebench.cli.sweep_output import print_sweep
    from edgebench.results.facts import sweep_facts
    from edgebench.results.results import latest, load

    loaded = load(latest(results))
    if study:
        print_studies(loaded, verbose, as_json)
        return
    sweep = loaded.sweeps[0]
    if as_json:
        print_json(
            {
                "sweep": sweep.name,
                "path": sweep.path,
                "device": sweep.device,
                "state": _state(sweep),
                "planned": sweep.planned,
                "recorded": len(sweep.records),
                "points": [asdict(point) for point in sweep_facts(sweep).points],
                "warnings": loaded.warnings,
            }
        )
        return
    planned = "?" if sweep.planned is None else sweep.planned
    outcomes = Counter(map(str, sweep.columns.words("outcome", range(len(sweep.records)))))
    counts = ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()))
    state = f"{_state(sweep)}, {len(sweep.records)} of {planned} trials"
    print_sweep(loaded, verbose=verbose)
    print_lines([f"{sweep.name} on {sweep.device}: {state}{counts and f' ({counts})'}"])
    if _state(sweep) == "unfinished":
        print_next("edgebench run SCENARIO  (the same scenario: it resumes the sweep)")
    else:
        print_next(f"edgebench report {typed_path(sweep.path)}")


def _state(sweep: Sweep) -> str:
    if sweep.running:
        return "running"
    return "complete" if sweep.complete is not None else "unfinished"


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
    for table in tables:
        print_headline(table.title)
        rows = table.rows if verbose else table.rows[:_MOST_ROWS]
        print_table(table.as_table(rows))
        if left := len(table.rows) - len(rows):
            print_lines([f"  {left} more rows: --verbose"])
    print_warnings(loaded.warnings, None if verbose else "--verbose")
    print_next(f"edgebench plot {typed_path(loaded.path)}")


def study_tables(loaded: Results) -> list[StudyTable]:
    """Every table for which the sweep has data.

    Raises:
        ResultsError: it has data for none.
    """
    from edgebench.analysis.studies import STUDIES

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
