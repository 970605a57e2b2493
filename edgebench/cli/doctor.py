"""``edgebench doctor``: whether this machine can measure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from edgebench.cli.options import json_option, verbose_option
from edgebench.cli.output import print_json, print_next, shown
from edgebench.errors import NotFitError

if TYPE_CHECKING:
    from edgebench.run.doctor import CheckResult

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
    from edgebench.run.doctor import check_machine, is_fit

    answers = list(check_machine())
    fit = is_fit(answers)
    if as_json:
        print_json({"fit": fit, "checks": [asdict(answer) for answer in answers]})
    else:
        _print_checks(answers, verbose)
    if not fit:
        failed = ", ".join(answer.check for answer in answers if answer.status == "fail")
        raise NotFitError(
            f"this machine can't measure: {failed}",
            remedy="type what stands below each fail, then: edgebench doctor",
        )
    if not as_json:
        print_next(next_step(answers))


def next_step(answers: Sequence[CheckResult]) -> str:
    """Return what to type next on this machine.

    The quick start only where it has all that that needs.
    """
    fine = {answer.check for answer in answers if answer.status == "ok"}
    swap = " --swap 2G" if "swap" in fine else ""
    if "torch" not in fine:
        return f"edgebench minimum{swap} -- python3 -c 'b = bytearray(200 << 20)'"
    # It holds swap and weights to a speed.
    if {"swap", "storage"} <= fine:
        return "edgebench run quickstart"
    return f"edgebench minimum{swap} resnet18"


#: Status of a check → its word and colour.
_WORDS = {
    "ok": ("ok", "green"),
    "warn": ("warn", "yellow"),
    "fail": ("no", "red"),
    "absent": ("none", "bright_black"),
}
#: Named in the row of what is fine.
_NAMED = ("limits enforced", "swap", "torch", "storage")


def _print_checks(answers: Sequence[CheckResult], verbose: bool) -> None:
    """Print what is fine in one row, then each problem, with what to type below it."""
    fine = [one.check for one in answers if one.status == "ok"]
    groups: dict[tuple[str, str, str | None], list[str]] = {}
    for one in answers:
        if verbose or one.status not in _QUIET:
            groups.setdefault((one.status, one.says, one.remedy), []).append(one.check)
    if not verbose:
        named = ", ".join(name for name in _NAMED if name in fine)
        _print_row("ok", f"{named} ({len(fine)} of {len(answers)} checks)")
    for (status, says, remedy), names in groups.items():
        _print_row(status, f"{', '.join(names)}: {says}")
        for line in (remedy or "").splitlines():
            click.echo(f"        {shown(line.strip())}")


def _print_row(status: str, text: str) -> None:
    word, colour = _WORDS[status]
    click.echo(f"  {click.style(f'{word:<6}', fg=colour)}{shown(text)}")
