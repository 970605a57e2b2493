"""``edgebench doctor``: whether this machine can measure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from edgebench.cli.options import json_option, verbose_option
from edgebench.cli.output import (
    as_typed,
    is_typed,
    print_answer,
    print_fields,
    print_json,
    print_lines,
    print_next,
)
from edgebench.errors import NotFitError
from edgebench.text import joined_words, printable

if TYPE_CHECKING:
    from edgebench.run.checks import CheckResult

_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red", "absent": "bright_black"}
#: Shown only with --verbose: nothing to do about them.
_QUIET = ("ok", "absent")


@click.command()
@verbose_option("what is OK, and what this machine doesn't have")
@json_option("all checks")
def doctor(verbose: bool, as_json: bool) -> None:
    """Check everything that a measurement depends on, and print the fix for each problem.

    Exit code 5 if a check fails: nothing can be measured then. After a warning the numbers may be
    wrong by what the warning says.
    """
    from edgebench.run.checks import check_machine, is_fit

    answers = list(check_machine())
    fit = is_fit(answers)
    if as_json:
        print_json({"fit": fit, "checks": [asdict(answer) for answer in answers]})
    else:
        print_answer([_answer(answers)])
        _print_checks([one for one in answers if verbose or one.status not in _QUIET])
    if not fit:
        failed = ", ".join(answer.check for answer in answers if answer.status == "fail")
        raise NotFitError(
            f"this machine can't measure: {failed}",
            remedy="type what stands below each fail, then: edgebench doctor",
        )
    if not as_json:
        print_next(next_step(answers))


def next_step(answers: Sequence[CheckResult]) -> str:
    """What to type next on this machine: the quick start only where it has all that that needs."""
    fine = {answer.check for answer in answers if answer.status == "ok"}
    swap = " --swap 2G" if "swap" in fine else ""
    if "torch" not in fine:
        return f"edgebench minimum{swap} -- python3 -c 'b = bytearray(200 << 20)'"
    # It holds swap and weights to a speed.
    if {"swap", "storage"} <= fine:
        return "edgebench run quickstart"
    return f"edgebench minimum{swap} resnet18"


def _answer(answers: Sequence[CheckResult]) -> str:
    """Whether and what this machine can measure, and how many checks found something."""
    statuses = {answer.check: answer.status for answer in answers}
    failed = [name for name, status in statuses.items() if status == "fail"]
    if failed:
        fix = "its fix" if len(failed) == 1 else "their fixes"
        return f"This machine can't measure: {joined_words(failed)} failed; {fix} below."
    what = [
        "any command" + (" and networks" if statuses.get("torch") == "ok" else ""),
        "under memory limits" + (" with swap" if statuses.get("swap") == "ok" else " without swap"),
    ]
    warned = sum(status == "warn" for status in statuses.values())
    doubts = "no warnings" if not warned else "1 warning" if warned == 1 else f"{warned} warnings"
    return f"This machine can measure: {' '.join(what)} ({len(answers)} checks, {doubts})."


def _print_checks(answers: Sequence[CheckResult]) -> None:
    """The checks that found the same are one; the remedy stands below."""
    groups: dict[tuple[str, str, str | None], list[str]] = {}
    for one in answers:
        groups.setdefault((one.status, one.says, one.remedy), []).append(one.check)
    for (status, says, remedy), names in groups.items():
        width = max(map(len, _COLOURS)) + 2
        head = click.style(f"{status:<{width}}", fg=_COLOURS[status])
        print_fields([(head, f"{joined_words(names)}: {says}")], width)
        for line in (remedy or "").splitlines():
            _print_remedy(line)


def _print_remedy(line: str) -> None:
    """A sentence wrapped, a command as it is: one that is wrapped can't be copied."""
    if is_typed(line):
        click.echo(f"    {as_typed(printable(line))}")
    else:
        print_lines([line], "    ")
