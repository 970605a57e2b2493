"""``edgebench doctor``: whether this machine is fit to measure on."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from edgebench.errors import NotFitError
from edgebench.records.records import SCHEMA

if TYPE_CHECKING:
    from edgebench.checks import Answer

_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red", "absent": "bright_black"}


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
    """One line a check, its remedy below: never wrapped, for remedies are there to be copied."""
    width = max(len(answer.check) for answer in answers) + 2
    for answer in answers:
        status = click.style(f"{answer.status:<8}", fg=_COLOURS[answer.status])
        click.echo(f"{answer.check:<{width}}{status}{answer.says}")
        for line in (answer.remedy or "").splitlines():
            click.echo(" " * (width + 8) + line)
