"""What ``edgebench advise`` prints: the answer, what to type, then what came of each remedy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from edgebench.cli.output import (
    print_answer,
    print_json,
    print_lines,
    print_next,
    print_table,
    print_title,
    shown_path,
    typed_path,
)
from edgebench.report.remedies import remedy_time
from edgebench.text import printable
from edgebench.words.advice import left_out_sentences
from edgebench.words.boards import advice_board_sentence

if TYPE_CHECKING:
    from edgebench.results.advice_file import TriedRemedy
    from edgebench.run.advice_answer import Advice
    from edgebench.run.advice_request import AdviceRequest

#: No name of a command is shown longer.
_NAME = 40
_KERNEL = (
    "not tried, since they change the whole machine (as root, --kernel tries most and puts them "
    "back):"
)


def print_advice_json(found: Advice, request: AdviceRequest) -> None:
    """The answer as JSON."""
    print_json({"asked": asdict(request), **found.to_json()})


def print_advice(found: Advice, board: str | None, *, verbose: bool) -> None:
    """The sentence, what to type, a table of what was tried; with ``verbose`` all that was not.

    With a board also whether what it has is enough.
    """
    name = found.name if len(found.name) <= _NAME else f"{found.name[: _NAME - 1]}…"
    print_answer([f"{name} {found.sentence}", *filter(None, [advice_board_sentence(found, board)])])
    best = found.best if found.best and found.best.confirmed else None
    if best:
        _print_typed(best.typed)
        print_lines([f"What it does: {'; '.join(best.titles)}.", f"Its cost: {best.costs}."])
        if best.changes:
            print_lines([f"It may change {best.changes}."])
    if found.tried:
        compared = any(one.ratio for one in found.tried)
        told = " (×0.30: takes 0.30 of the plain workload's time)" if compared else ""
        print_title(f"tried under the limit{told}")
        # Where plain does not finish there is nothing to compare with.
        kept = (0, 1, 2, 3) if any(one.low for one in found.tried) else (0, 1, 3)
        titles = ("remedy", "time", "90 % interval", "trials")
        rows = [[_row(one)[n] for n in kept] for one in found.tried]
        print_table([titles[n] for n in kept], rows, words=("remedy",))
    print_lines(left_out_sentences(found, verbose=verbose))
    _print_by_hand(found)
    click.echo(f"results: {shown_path(found.folder)}")
    print_next(f"edgebench show {typed_path(found.folder)}")


def _print_typed(typed: Sequence[str]) -> None:
    """Each line as it is, so that it can be copied."""
    click.echo("type:" if len(typed) == 1 else "type or write, where each line says:")
    for line in typed:
        click.echo(f"  {printable(line)}")


def _row(one: TriedRemedy) -> tuple[str, ...]:
    between = ""
    if one.end == "ok" and one.low is not None and one.high is not None:
        between = f"{one.low:.2f} to {one.high:.2f}"
    return one.name, remedy_time(one), between, str(one.trials)


def _print_by_hand(found: Advice) -> None:
    """Settings of the whole machine, each with its command, which is not wrapped."""
    by_hand = [one for one in found.untried if one.by_hand] if found.pressed else []
    if by_hand:
        click.echo(_KERNEL)
    for one in by_hand:
        click.echo(f"  {one.command}   # {one.title}")
