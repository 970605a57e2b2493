"""The tables of a study's sweep, as ``show --study`` prints them."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from edgebench.analysis.studies.tables import StudyTable
    from edgebench.results.results import Results


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
