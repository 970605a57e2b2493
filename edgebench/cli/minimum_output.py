"""What ``edgebench minimum`` prints: the answer, the trials behind it, and what to type next."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from edgebench.answers.give import paste_lines
from edgebench.answers.table import seconds
from edgebench.boards.storage import AS_IS
from edgebench.cli.output import print_lines, print_next, shown_path, typed_path
from edgebench.cli.show import print_answer, print_doubts
from edgebench.results.spread import SLIGHT

if TYPE_CHECKING:
    from edgebench.run.search.minimum import Minimum


def print_minimum(
    found: Minimum, asked: Mapping[str, Any], flags: Sequence[str], *, verbose: bool
) -> None:
    """Print the answer, and what to type next. ``flags`` are those that it was called with."""
    took = f"{found.trials} trial{'s' * (found.trials != 1)}, {seconds(found.total_s)}"
    print_answer(found.answer, took, verbose=verbose)
    lines = paste_lines(found.answer)
    if verbose:
        print_lines([*lines.values(), f"results: {shown_path(found.folder)}"])
    print_doubts([found.workload], {}, verbose=verbose)
    if following := _next(found, asked, flags):
        print_next(following)
    elif lines and not verbose:
        click.echo(f"paste: {lines['docker']}     (more: --verbose)", err=True)


def _next(found: Minimum, asked: Mapping[str, Any], flags: Sequence[str]) -> str | None:
    """Return what to type for a better answer, or against a slowdown; None: paste the answer."""
    answer, again = found.answer, f"edgebench minimum {shlex.join(flags)}{' ' * bool(flags)}"
    if "command" not in asked:
        limit = f" --memory {_written(answer.give_bytes)}" if answer.give_bytes else ""
        return f"edgebench layers {shlex.quote(asked['network'])}{limit} --swap {asked['swap']}"
    seen, program = found.workload.unmeasured, f"-- {found.name}"
    if asked["stdin"]:
        program += f" < {shlex.quote(asked['stdin'])}"
    if seen.growth and asked["soak"]:
        return f"edgebench show {typed_path(found.folder)}"
    if seen.growth:
        return re.sub(r"--for[ =]\S+ ", "", again) + f"--soak 10m {program}"
    if seen.processes and not (asked["stop_after"] or asked["soak"]):
        return f"{again}--for 20s {program}"
    if not found.finished:
        return f"{again}--budget 5m {program}"
    slow = [row for row in answer.rows if row.limit_bytes and row.all_finished and row.slower]
    if not asked["within"] and slow and slow[-1].slower and slow[-1].slower.median > SLIGHT:
        words = ["--memory", _written(slow[-1].limit_bytes), "--swap", asked["swap"]]
        words += ["--storage", asked["storage"]] if asked["storage"] != AS_IS else []
        words += [word for file in asked["files"] for word in ("--file", file)]
        words += ["--reset", shlex.join(asked["reset"])] if asked["reset"] else []
        return f"edgebench advise {shlex.join(words)} {program}"
    return None


def _written(size_bytes: int | None) -> str:
    return f"{-(-(size_bytes or 0) // (1 << 20))}M"
