"""What ``edgebench run`` prints when the trials of a sweep, or of two versions, are done."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgebench.cli.grouping import grouped
from edgebench.cli.output import (
    print_answer,
    print_json,
    print_lines,
    print_next,
    print_warnings,
    shown_path,
    typed_path,
)
from edgebench.errors import SweepIncompleteError
from edgebench.report.workload import brief_names
from edgebench.units import format_duration

if TYPE_CHECKING:
    from edgebench.run.in_turn import SummaryInTurn
    from edgebench.run.sweep import SweepSummary

_UNEXPECTED = ("failed", "timeout", "harness-error")


def print_summary(summary: SweepSummary, verbose: bool, as_json: bool) -> None:
    """What was found, how many trials ended how, what puts it in doubt, and what to type next."""
    if as_json:
        print_json(_as_json(summary))
        return
    print_answer(run_answer(summary.folder))
    print_lines(["", *_summary_lines(summary, verbose)])
    print_warnings(_warnings(summary))
    print_next(f"edgebench report {typed_path(summary.folder)}")


def print_in_turn(summary: SummaryInTurn, as_json: bool) -> None:
    """How the trials of both ended, where they are, and how to compare them."""
    both = {"old": summary.old, "new": summary.new}
    if as_json:
        print_json({version: _as_json(one) for version, one in both.items()})
        return
    for version, one in both.items():
        print_lines([f"{version}: {_counted(one)}", f"  results: {shown_path(one.folder)}"])
    print_lines([f"{format_duration(summary.new.wall_s)} for both"])
    print_warnings([f"{version}: {w}" for version, one in both.items() for w in _warnings(one)])
    folders = typed_path(summary.old.folder), typed_path(summary.new.folder)
    print_next("edgebench compare {} {}".format(*folders))


def refuse_unexpected(summary: SweepSummary) -> None:
    """Check how the trials of a finished sweep ended.

    Raises:
        SweepIncompleteError: some failed, timed out or could not be measured.
    """
    unexpected = {k: n for k, n in summary.outcomes.items() if k in _UNEXPECTED}
    if unexpected:
        words = ", ".join(f"{n} {outcome}" for outcome, n in unexpected.items())
        raise SweepIncompleteError(
            f"the sweep is done, but some trials ended unexpectedly: {words}",
            where=str(summary.folder / "trials.jsonl"),
            remedy=f"edgebench show {typed_path(summary.folder)}",
        )


def run_answer(folder: Path) -> list[str]:
    """What the sweep says of each workload, in a sentence."""
    from edgebench.report.one_sentence import sweep_sentences
    from edgebench.report.workload import workloads
    from edgebench.results.results import load
    from edgebench.results.summary import summarise

    points = summarise(load(folder).sweeps[0])
    # A search runs only some of its points.
    found = workloads([point for point in points if point.outcomes] or points)
    return sweep_sentences(found, brief_names(one.name for one in found))


def _as_json(summary: SweepSummary) -> dict[str, Any]:
    return {**asdict(summary), "warnings": _warnings(summary)}


def _warnings(summary: SweepSummary) -> list[str]:
    names = brief_names(workload for workload, *_ in summary.noise)
    noise = grouped((names[workload], limit, words) for workload, limit, words in summary.noise)
    return [*noise, *summary.warnings]


def _counted(summary: SweepSummary) -> str:
    outcomes = ", ".join(f"{n} {outcome}" for outcome, n in sorted(summary.outcomes.items()))
    return f"{summary.trials} trial{'s' * (summary.trials != 1)}: {outcomes}"


def _summary_lines(summary: SweepSummary, verbose: bool) -> list[str]:
    count, _, outcomes = _counted(summary).partition(": ")
    lines = [f"{count} in {format_duration(summary.wall_s)}: {outcomes}"]
    each, share = summary.harness_s_per_trial, summary.harness_share
    if verbose and each is not None and share is not None:
        lines.append(f"harness: {format_duration(each)} a trial, {share:.1%} of the trials' time")
    return [*lines, f"results: {shown_path(summary.folder)}"]
