"""``edgebench run NEW --in-turn-with OLD``: two versions' sweeps, and what to type to compare."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from edgebench.cli.output import (
    print_json,
    print_lines,
    print_next,
    print_warnings,
    shown_path,
    typed_path,
)
from edgebench.errors import UsageError
from edgebench.units import format_duration

if TYPE_CHECKING:
    from edgebench.run.in_turn import SummaryInTurn
    from edgebench.run.sweep import SweepSummary


def refuse_one_file(old: str, new: str) -> None:
    """Check that the two versions are two files.

    Raises:
        UsageError: they are one.
    """
    from edgebench.scenario.shipped import find_scenario

    if find_scenario(old).resolve() == find_scenario(new).resolve():
        raise UsageError(
            "both versions are the same file",
            where=f"--in-turn-with {old}",
            remedy="copy the scenario, change in the copy what is new, and run the copy",
        )


def print_in_turn(summary: SummaryInTurn, warnings: dict[str, list[str]], as_json: bool) -> None:
    """How the trials of both ended, where they are, and how to compare them."""
    both = {"old": summary.old, "new": summary.new}
    if as_json:
        said: dict[str, Any] = {
            version: {**asdict(one), "warnings": warnings[version]} for version, one in both.items()
        }
        print_json(said)
        return
    for version, one in both.items():
        print_lines([*_lines(version, one), f"  results: {shown_path(one.folder)}"])
    print_lines([f"{format_duration(summary.new.wall_s)} for both"])
    print_warnings([f"{version}: {w}" for version, found in warnings.items() for w in found])
    folders = typed_path(summary.old.folder), typed_path(summary.new.folder)
    print_next("edgebench compare {} {}".format(*folders))


def _lines(version: str, summary: SweepSummary) -> list[str]:
    outcomes = ", ".join(f"{n} {outcome}" for outcome, n in sorted(summary.outcomes.items()))
    count = f"{summary.trials} trial{'s' * (summary.trials != 1)}"
    return [f"{version}: {count}: {outcomes}"]
