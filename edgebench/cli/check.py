"""``edgebench check``: whether a scenario is right, and what it would run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from edgebench.records.records import SCHEMA
from edgebench.units import format_duration, format_size

if TYPE_CHECKING:
    from edgebench.scenario.preview import Preview
    from edgebench.scenario.scenario import Scenario

#: Settings shown, in this order, where the scenario has them.
_SHOWN = (
    *("network", "schedule", "loader", "framework", "data", "shape", "depth", "width"),
    *("optimizer", "learning_rate", "accumulation", "precision", "checkpointing", "trained"),
    *("start", "kernel", "stack", "backward", "batch", "image", "steps", "epochs", "rounds"),
    *("page_cache", "command"),
)


@click.command(short_help="Validate a scenario and say what it would run.")
@click.argument("scenario", metavar="SCENARIO")
@click.option("--json", "as_json", is_flag=True, help="Print what it would run as JSON on stdout.")
def check(scenario: str, as_json: bool) -> None:
    """Validate SCENARIO (a TOML file, or the name of a shipped one) without running it.

    All faults are told at once. What only this machine can't give is a warning.
    """
    from edgebench.scenario.preview import preview, this_machine
    from edgebench.scenario.scenario import load_scenario

    loaded = load_scenario(scenario)
    seen = preview(loaded, this_machine())
    for warning in seen.warnings:
        click.echo(f"warning: {warning}", err=True)
    if as_json:
        click.echo(json.dumps({"schema": SCHEMA, **asdict(seen)}, indent=2))
        return
    _print(seen, loaded)
    click.echo(f"next: edgebench run {scenario}")


def _print(seen: Preview, scenario: Scenario) -> None:
    rows = [("scenario", seen.name), *_settings(seen), *_drawn(scenario), *_limits(seen)]
    rows.append(("points", str(len(seen.points))))
    rows.append(("trials", _trials(seen, scenario.repeats)))
    if seen.own_trials:
        rows.append(("strategies", _own_trials(seen, scenario.memory.strategies)))
    longest = format_duration(seen.longest_s)
    rows.append(("time", f"unknown; at most {longest}, if every trial took {_each(scenario)}"))
    for name, value in rows:
        click.echo(f"{name:<12}{value}")


def _trials(seen: Preview, repeats: int) -> str:
    if seen.target_error is None:
        return f"{seen.trials}: {repeats} of each point"
    return f"at most {seen.trials}, until slowdown is known within {seen.target_error:.1%}"


def _own_trials(seen: Preview, strategies: Sequence[str]) -> str:
    """In words: trials beside the timed ones."""
    most = "" if seen.target_error is None else "at most "
    return f"{most}{seen.own_trials} trials more: {', '.join(strategies)}, each once a point"


def _each(scenario: Scenario) -> str:
    """How long a trial may take; those of strategies may have another limit."""
    timed, own = scenario.timeout_s, scenario.memory.timeout_s
    if own is None or not scenario.memory.strategies:
        return f"its {format_duration(timed)}"
    return f"its {format_duration(timed)}, and the strategies' {format_duration(own)}"


def _settings(seen: Preview) -> list[tuple[str, str]]:
    columns = [_column(point.settings, key) for key in _SHOWN for point in seen.points]
    rows = {key: list(dict.fromkeys(v for k, v in columns if k == key)) for key in _SHOWN}
    return [(key, ", ".join(filter(None, values))) for key, values in rows.items() if any(values)]


def _drawn(scenario: Scenario) -> list[tuple[str, str]]:
    search = scenario.search
    return [("search", f"{search.draws} draws of {', '.join(search.axes)}")] if search else []


def _column(settings: dict[str, Any], key: str) -> tuple[str, str]:
    value = settings.get(key)
    if key == "network":
        value = settings.get("networks") or value
    if isinstance(value, list):
        value = (" " if key == "command" else "+").join(value)
    return key, "" if value is None else str(value)


def _limits(seen: Preview) -> list[tuple[str, str]]:
    limits = [point.limits for point in seen.points]
    swaps = [_swap(limit.swap_kind, limit.swap_bytes) for limit in limits]
    rows = [
        ("memory", [limit.label for limit in limits]),
        ("swap", swaps),
        ("cores", [str(limit.cores) for limit in limits if limit.cores]),
        ("cpu quota", [f"{limit.cpu_quota:g}" for limit in limits if limit.cpu_quota]),
    ]
    return [(name, ", ".join(dict.fromkeys(values))) for name, values in rows if values]


def _swap(kind: str, size_bytes: int | None) -> str:
    return f"{kind} of {format_size(size_bytes)}" if size_bytes else kind
