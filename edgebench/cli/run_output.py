"""What ``edgebench run`` prints: before its trials with --dry-run, and after them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import structs

from edgebench.boards.storage import AS_IS
from edgebench.cli.output import (
    print_answer,
    print_fields,
    print_json,
    print_lines,
    print_next,
    print_warnings,
    shown_path,
    typed_path,
)
from edgebench.errors import SweepIncompleteError
from edgebench.records import LIMIT_WORDS, LimitSetting
from edgebench.results.workload_key import brief_names
from edgebench.units import format_size
from edgebench.words.doubts import doubt_sentences
from edgebench.words.runs import (
    longest_words,
    planned_words,
    preview_sentence,
    search_words,
    strategies_words,
    summary_lines,
    unexpected_words,
)

if TYPE_CHECKING:
    from edgebench.run.sweep import SweepSummary
    from edgebench.scenario.preview import Preview
    from edgebench.scenario.scenario import Scenario

#: Settings shown, in this order, where the scenario has them.
_SHOWN = (
    *("network", "schedule", "loader", "framework", "compiled", "data", "shape", "depth", "width"),
    *("optimizer", "learning_rate", "accumulation", "precision", "checkpointing", "trained"),
    *("start", "kernel", "stack", "backward", "batch", "image", "steps", "epochs", "rounds"),
    *("page_cache", "gc", "command"),
)


_UNEXPECTED = ("failed", "timeout", "harness-error")


def print_dry_run(scenario: Scenario, command: str, as_json: bool) -> None:
    """Print what the scenario would run. What only this machine lacks is a warning.

    Args:
        scenario: what would be run.
        command: the command that runs it.
        as_json: print JSON instead of text.
    """
    from edgebench.scenario.preview import preview, this_machine

    seen = preview(scenario, this_machine())
    if as_json:
        print_warnings(seen.warnings)
        print_json(asdict(seen))
        return
    print_answer([preview_sentence(seen)])
    print_fields(_rows(seen, scenario))
    print_warnings(seen.warnings, "--json")
    # What would stop the run is mended first, as the warning says.
    print_next(f"{command} --dry-run" if seen.obstacles else command)


def _rows(seen: Preview, scenario: Scenario) -> list[tuple[str, str]]:
    rows = _settings(seen)
    if search := scenario.search:
        rows.append(("search", search_words(search)))
    rows += [*_limits(seen), ("points", str(len(seen.points)))]
    rows.append(("trials", planned_words(seen, scenario.repeats)))
    if seen.own_trials:
        rows.append(("strategies", strategies_words(seen, scenario.strategies)))
    return [*rows, ("time", longest_words(seen, scenario))]


def _settings(seen: Preview) -> list[tuple[str, str]]:
    columns = [_column(point.settings, key) for key in _SHOWN for point in seen.points]
    rows = {key: list(dict.fromkeys(v for k, v in columns if k == key)) for key in _SHOWN}
    return [(key, ", ".join(filter(None, values))) for key, values in rows.items() if any(values)]


def _column(settings: dict[str, Any], key: str) -> tuple[str, str]:
    value = (settings.get("networks") if key == "network" else None) or settings.get(key)
    if isinstance(value, list):
        value = (" " if key == "command" else "+").join(value)
    return key, "" if value is None else str(value)


def _limits(seen: Preview) -> list[tuple[str, str]]:
    limits = [point.limits for point in seen.points]
    held = {limit.storage for limit in limits}
    rows = [
        ("board", [limit.board for limit in limits if limit.board]),
        ("memory", [limit.label for limit in limits]),
        ("swap", [_swap(limit.swap_kind, limit.swap_bytes) for limit in limits]),
        ("storage", [] if held == {AS_IS} else [limit.storage for limit in limits]),
        *((name.replace("_", " "), _told(limits, name)) for name in LIMIT_WORDS),
        ("accelerator", _accelerators(seen)),
    ]
    return [(name, ", ".join(dict.fromkeys(values))) for name, values in rows if values]


def _told(limits: Sequence[LimitSetting], name: str) -> list[str]:
    """Each value of one limit, as the scenario has it."""
    values = (getattr(limit, name) for limit in limits)
    return [value if isinstance(value, str) else f"{value:g}" for value in values if value]


def _accelerators(seen: Preview) -> list[str]:
    """Where points compute, and the memory that torch may take there; nothing of none alone."""
    named = [(point.settings.get("accelerator"), point.limits) for point in seen.points]
    if not any(name for name, _ in named):
        return []
    sizes = (
        f"{name} of {format_size(limits.accelerator_bytes)}"
        if limits.accelerator_bytes is not None
        else str(name or "none")
        for name, limits in named
    )
    return list(sizes)


def _swap(kind: str, size_bytes: int | None) -> str:
    return f"{kind} of {format_size(size_bytes)}" if size_bytes else kind


def print_summary(summary: SweepSummary, verbose: bool, as_json: bool) -> None:
    """What was found, how many trials ended how, what puts it in doubt, and what to type next."""
    if as_json:
        print_json(_as_json(summary))
        return
    print_answer(run_answer(summary.folder))
    results = f"results: {shown_path(summary.folder)}"
    print_lines(["", *summary_lines(summary, verbose), results])
    print_warnings(_warnings(summary), None if verbose else "--verbose")
    print_next(f"edgebench report {typed_path(summary.folder)}")


def refuse_unexpected(summary: SweepSummary) -> None:
    """Check how the trials of a finished sweep ended.

    Raises:
        SweepIncompleteError: some failed, timed out or could not be measured.
    """
    unexpected = {k: n for k, n in summary.outcomes.items() if k in _UNEXPECTED}
    if unexpected:
        raise SweepIncompleteError(
            unexpected_words(unexpected),
            where=str(summary.folder / "trials.jsonl"),
            remedy=f"edgebench show {typed_path(summary.folder)}",
        )


def run_answer(folder: Path) -> list[str]:
    """What the sweep says of each workload, in a sentence."""
    from edgebench.results.facts import sweep_facts
    from edgebench.results.results import load
    from edgebench.words.in_short import sweep_sentences

    found = sweep_facts(load(folder).sweeps[0]).workloads
    return sweep_sentences(found, brief_names(one.name for one in found))


def _as_json(summary: SweepSummary) -> dict[str, Any]:
    return {**asdict(summary), "warnings": _warnings(summary)}


def _warnings(summary: SweepSummary) -> list[str]:
    names = brief_names(doubt.workload for doubt in summary.doubts if doubt.workload)
    return doubt_sentences(
        structs.replace(doubt, workload=names.get(doubt.workload or "")) for doubt in summary.doubts
    )
