"""``edgebench study``: the tables of a study's sweep."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgebench.errors import ResultsError
from edgebench.records.records import SCHEMA

if TYPE_CHECKING:
    from edgebench.results.results import Results
    from edgebench.studies.tables import StudyTable

#: A file or pipe has no width: a table of many columns keeps its rows in one line each.
_WIDTH = 1000


@click.command(short_help="Show what a study's sweep came to.")
@click.argument("results", type=click.Path(path_type=Path), default=Path("results"))
@click.option("--json", "as_json", is_flag=True, help="Print the tables as JSON on stdout.")
def study(results: Path, as_json: bool) -> None:
    """Show the tables of the newest sweep in RESULTS: a convolution's cost, a search's effects, ...

    Which tables there are is told by what the sweep ran; docs/lowpower.md and
    docs/hyperparameters.md explain them.
    """
    from edgebench.results.results import latest, load

    loaded = load(latest(results))
    tables = study_tables(loaded)
    for warning in loaded.warnings:
        click.echo(f"warning: {warning}", err=True)
    if as_json:
        told = [table.to_json() for table in tables]
        click.echo(json.dumps({"schema": SCHEMA, "path": str(loaded.path), "tables": told}))
        return
    for table in tables:
        _print(table)
    click.echo(f"next: edgebench plot {loaded.path}")


def study_tables(loaded: Results) -> list[StudyTable]:
    """Every table that this sweep has something for.

    Raises:
        ResultsError: none has; says what each would have needed.
    """
    from edgebench.studies.kinds import KINDS

    made: list[StudyTable] = []
    reasons: list[str] = []
    for kind, tables in KINDS.items():
        try:
            made += tables(loaded)
        except ResultsError as error:
            reasons.append(f"no {kind}: {error.what}")
    if not made:
        raise ResultsError(
            "no study in this sweep; " + "; ".join(reasons),
            where=str(loaded.path),
            remedy="run one: edgebench run scenarios/lowpower/conv.toml",
        )
    return made


def _print(table: StudyTable) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = _WIDTH
    console.print(table.title, style="bold")
    shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column in table.columns:
        shown.add_column(column.title, justify="left" if column.words else "right")
    for row in table.rows:
        shown.add_row(*(column.shown(row[column.key]) for column in table.columns))
    console.print(shown)
    for sentence in table.says:
        console.print(sentence)
    console.print()
