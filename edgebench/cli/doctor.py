"""``edgebench doctor``: whether this machine is fit to measure on."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from edgebench.errors import NotFitError
from edgebench.records import SCHEMA

if TYPE_CHECKING:
    from edgebench.checks import Answer

_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red", "absent": "dim"}


@click.command(short_help="Is this machine fit to measure on? What to do if not.")
@click.option("--json", "as_json", is_flag=True, help="Print the answers as JSON on stdout.")
def doctor(as_json: bool) -> None:
    """Look at all that a measurement rests on, and say what to do where it is lacking.

    Exit code 5 if something fails. A warning doesn't: the numbers then need care.
    """
    from edgebench.checks import all_checks, is_fit

    answers = [check.answer() for check in all_checks()]
    fit = is_fit(answers)
    if as_json:
        rows = [asdict(answer) for answer in answers]
        click.echo(json.dumps({"schema": SCHEMA, "fit": fit, "checks": rows}, indent=2))
    else:
        _print_table(answers)
    if not fit:
        failed = ", ".join(answer.check for answer in answers if answer.status == "fail")
        raise NotFitError(
            f"this machine is not fit to measure on: {failed}",
            remedy="do what stands beside each fail, then type: edgebench doctor",
        )
    if not as_json:
        click.echo("next: edgebench run scenarios/quickstart.toml")


def _print_table(answers: list[Answer]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("check", "", "finding"):
        table.add_column(title, overflow="fold")
    for answer in answers:
        says = Text(answer.says)
        if answer.remedy:
            says.append(f"\n{answer.remedy}", style="italic")
        table.add_row(answer.check, Text(answer.status, style=_COLOURS[answer.status]), says)
    console = Console()
    # Into a pipe or file, remedies must stay on one line each: they are commands to copy.
    console.print(table, width=None if console.is_terminal else 200)
